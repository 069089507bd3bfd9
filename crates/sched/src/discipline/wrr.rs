//! Weighted round robin, algorithm 1 of Adamczyk and Chydzinski (2012).
//!
//! A flow's turn is `packets to serve` = w / min(w) packets, w = weight / mean packet length, min
//! over all flows. As the paper's counter is a whole number that is compared with the ratio, a
//! ratio of 1.5 serves 2. A turn is not over when the queue is empty but when the transmission of
//! its last packet is: what arrives in the meantime still belongs to it.
//!
//! One difference: printed as it is, the inner loop waits for ever when a queue has run dry within its turn
//! with no transmission under way. The text says "so that all transmitted packets are actually sent
//! before switching to the next queue", and that is what is done here.

use std::cmp::Ordering;

use super::{Choice, Decide};
use crate::{
    BYTE_NS,
    config::{FlowSettings, Transmission},
    packet::Packet,
    queues::Queues,
    turns::Turns,
};

#[derive(Debug, Clone)]
pub(crate) struct Wrr {
    transmission: Option<Transmission>,
    /// Backlogged flows.
    active: Turns,
    flows: Vec<Flow>,
    /// The smallest of all flows' weights, and how many flows have it.
    smallest: Ratio,
    at_smallest: usize,
    /// Packets of the last turn whose transmission has begun.
    counter: u64,
    /// Whether that turn is over, whatever the counter says.
    over: bool,
    /// End of the transmission under way, ns.
    busy_until_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    weight: Ratio,
    packets_to_serve: u64,
}

/// `weight` / `mean_packet_bytes`, exact.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    weight: u32,
    mean_packet_bytes: u32,
}

impl Ratio {
    fn of(settings: &FlowSettings) -> Self {
        Self { weight: settings.weight, mean_packet_bytes: settings.mean_packet_bytes }
    }

    fn compare(self, other: Self) -> Ordering {
        let left = u64::from(self.weight) * u64::from(other.mean_packet_bytes);
        left.cmp(&(u64::from(other.weight) * u64::from(self.mean_packet_bytes)))
    }

    /// self / smallest, rounded up.
    fn packets(self, smallest: Self) -> u64 {
        let dividend = u64::from(self.weight) * u64::from(smallest.mean_packet_bytes);
        dividend.div_ceil(u64::from(self.mean_packet_bytes) * u64::from(smallest.weight))
    }
}

impl Wrr {
    pub(crate) fn new(flows: u32, transmission: Option<Transmission>) -> Self {
        let weight = Ratio::of(&FlowSettings::default());
        Self {
            transmission,
            active: Turns::new(flows),
            flows: vec![Flow { weight, packets_to_serve: 1 }; flows as usize],
            smallest: weight,
            at_smallest: flows as usize,
            counter: 0,
            over: true,
            busy_until_ns: 0,
        }
    }

    #[inline]
    fn turn_goes_on(&self) -> bool {
        !self.over && self.counter < self.flows[self.active.last() as usize].packets_to_serve
    }

    /// All flows have `weight` or more, and one has it: finds out how many do, and what that
    /// means for all.
    fn set_smallest(&mut self, weight: Ratio) {
        self.smallest = weight;
        self.at_smallest = 0;
        for flow in &mut self.flows {
            flow.packets_to_serve = flow.weight.packets(weight);
            self.at_smallest += usize::from(flow.weight.compare(weight).is_eq());
        }
    }
}

impl Decide for Wrr {
    #[inline]
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, now_ns: u64) {
        // Too late for the turn: its last transmission has ended. Without a transmission time the
        // next question is that end.
        if flow == self.active.last() && self.transmission.is_some() && now_ns > self.busy_until_ns
        {
            self.over = true;
        }
        self.active.insert(flow);
    }

    #[inline]
    fn choose<P: Packet>(&mut self, queues: &Queues<P>, now_ns: u64) -> Choice {
        if now_ns < self.busy_until_ns {
            return Choice::Wait { until_ns: self.busy_until_ns };
        }
        let last = self.active.last();
        if self.turn_goes_on() && !queues.is_empty(last) {
            return Choice::Serve(last);
        }
        self.over = true;
        let Some(next) = self.active.next() else { return Choice::Empty };
        self.active.begin(next);
        self.counter = 0;
        self.over = false;
        Choice::Serve(next)
    }

    #[inline]
    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, bytes: u32, now_ns: u64) {
        self.counter += 1;
        if queues.is_empty(flow) {
            self.active.remove(flow);
        }
        if let Some(Transmission { rate_bps, overhead_bytes }) = self.transmission {
            let bytes = u64::from(bytes) + u64::from(overhead_bytes);
            self.busy_until_ns = now_ns.saturating_add((bytes * BYTE_NS).div_ceil(rate_bps));
        }
    }

    /// O(1), or O(n) when the smallest weight of all changes.
    fn set<P: Packet>(&mut self, _: &Queues<P>, flow: u32, settings: &FlowSettings, _now_ns: u64) {
        let weight = Ratio::of(settings);
        let state = &mut self.flows[flow as usize];
        let was_smallest = state.weight.compare(self.smallest).is_eq();
        *state = Flow { weight, packets_to_serve: weight.packets(self.smallest) };
        self.at_smallest -= usize::from(was_smallest);
        match weight.compare(self.smallest) {
            Ordering::Less => self.set_smallest(weight),
            Ordering::Equal => self.at_smallest += 1,
            Ordering::Greater => {}
        }
        if self.at_smallest == 0 {
            let weights = self.flows.iter().map(|flow| flow.weight);
            let smallest = weights.min_by(|&a, &b| a.compare(b)).expect("there is a flow");
            self.set_smallest(smallest);
        }
    }
}
