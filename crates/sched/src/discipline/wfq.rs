//! Weighted fair queueing in its start-time form, SFQ (Goyal, Vin and Cheng, SIGCOMM 1996).
//!
//! A packet's start tag is the virtual time of its arrival at the head or the finish tag of the one
//! before it, whichever is later; its finish tag is that plus length / weight; the smallest start
//! tag goes next; virtual time is the start tag of the packet in service.
//!
//! Of the O(log n) forms this one because it needs neither the link's rate (a back-end that shares
//! its core has none) nor a second heap of flows not yet eligible (WF2Q+; there a single decision
//! may move n flows), and bounds a light flow's delay better than SCFQ at the same fairness. A
//! decision on a backlogged flow takes one entry out of a heap of six levels at 65,536 flows and puts
//! one in; entries are taken out 16 at a time, so that memory is waited for once ([`Tags`]).

use std::hint::black_box;

use super::{Choice, Decide};
use crate::{
    config::FlowSettings,
    packet::{MAX_PACKET_BYTES, Packet},
    queues::Queues,
    tags::{self, Tags},
};

/// Fractions of a byte in virtual time, so that length / weight is not rounded to bytes.
const FRACTION_BITS: u32 = 20;
const _: () = assert!((MAX_PACKET_BYTES as u64) << FRACTION_BITS < tags::SPAN);
/// Virtual time starts afresh before it could overflow: at 100 Gbit/s and weight 1 after six minutes.
const REBASE_ABOVE: u64 = 1 << 62;

#[derive(Debug, Clone)]
pub(crate) struct Wfq {
    /// Backlogged flows by the start tags of their heads.
    heads: Tags,
    flows: Vec<Flow>,
    virtual_time: u64,
    /// The latest finish tag of a packet served: where virtual time goes when all is quiet.
    last_finish: u64,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    finish: u64,
    weight: u32,
    /// What the last division left over; less than the weight.
    remainder: u32,
}

impl Wfq {
    pub(crate) fn new(flows: u32) -> Self {
        Self {
            heads: Tags::new(flows),
            flows: vec![Flow { finish: 0, weight: 1, remainder: 0 }; flows as usize],
            virtual_time: 0,
            last_finish: 0,
        }
    }

    /// Once in 2^62 units: O(n), and nothing that is compared changes its order.
    #[cold]
    fn rebase(&mut self) {
        // A multiple of what tags are kept of changes nothing there.
        let by = self.virtual_time & !tags::TAG_MASK;
        for flow in &mut self.flows {
            flow.finish = flow.finish.saturating_sub(by);
        }
        self.last_finish -= by;
        self.virtual_time -= by;
        self.heads.advance(self.virtual_time);
    }
}

impl Flow {
    /// The finish tag of a packet with this start tag.
    #[expect(clippy::cast_possible_truncation, reason = "a remainder is less than its divisor")]
    fn finish_from(&mut self, start: u64, bytes: u32) -> u64 {
        let scaled = (u64::from(bytes) << FRACTION_BITS) + u64::from(self.remainder);
        let weight = u64::from(self.weight);
        self.remainder = (scaled % weight) as u32;
        self.finish = start + scaled / weight;
        self.finish
    }
}

impl Decide for Wfq {
    #[inline]
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        let start = self.virtual_time.max(self.flows[flow as usize].finish);
        self.heads.push(start, flow);
    }

    #[inline]
    fn choose<P: Packet>(&mut self, queues: &Queues<P>, _now_ns: u64) -> Choice {
        for flow in self.heads.refill() {
            black_box(self.flows[flow as usize].weight);
            queues.look_at(flow);
        }
        let first = self.heads.first();
        if first.is_none() {
            // Asked at the end of the last transmission: only now the busy period is over.
            self.virtual_time = self.last_finish;
            self.heads.advance(self.virtual_time);
        }
        first.map(|(_, flow)| flow).into()
    }

    #[inline]
    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, bytes: u32, _now_ns: u64) {
        let (start, _) = self.heads.first().expect("the flow chosen is the first");
        let finish = self.flows[flow as usize].finish_from(start, bytes);
        self.virtual_time = start;
        self.last_finish = self.last_finish.max(finish);
        self.heads.take_first((!queues.is_empty(flow)).then_some(finish));
        self.heads.advance(start);
        if self.virtual_time > REBASE_ABOVE {
            self.rebase();
        }
    }

    fn set<P: Packet>(&mut self, _: &Queues<P>, flow: u32, settings: &FlowSettings, _now_ns: u64) {
        let flow = &mut self.flows[flow as usize];
        flow.weight = settings.weight;
        flow.remainder = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Kind, Next, Scheduler, discipline::Discipline};

    /// The order of service with virtual time near its end is that from zero.
    #[test]
    fn rebasing_changes_no_decision() {
        let served = |shift: u64| {
            let mut scheduler = Scheduler::new(Config::new(3, Kind::Wfq)).unwrap();
            if let Discipline::Wfq(wfq) = scheduler.discipline_mut() {
                wfq.virtual_time = shift;
                wfq.last_finish = shift;
                wfq.heads.advance(shift);
            }
            for packet in 0..300 {
                scheduler.enqueue((packet % 3, 64 + packet * 37 % 1_400), 0).unwrap();
            }
            let order: Vec<_> = std::iter::from_fn(|| match scheduler.dequeue(0) {
                Next::Packet(packet) => Some(packet),
                _ => None,
            })
            .collect();
            let Discipline::Wfq(wfq) = scheduler.discipline_mut() else { unreachable!() };
            (order, wfq.virtual_time)
        };
        let (from_zero, _) = served(0);
        let (near_the_end, virtual_time) = served(super::REBASE_ABOVE - 1_000_000_000);
        assert_eq!(from_zero, near_the_end);
        assert!(virtual_time < super::REBASE_ABOVE / 2, "it was rebased: {virtual_time}");
    }
}
