//! Minimum rates first, the rest by priority and weight, none above its maximum.
//!
//! Two schedulers in one. **Minimum:** each flow with `rate_min_bps` has a virtual clock (Zhang,
//! SIGCOMM 1990): its head is due by `clock + length / rate_min` and may be served for its minimum
//! from `clock` on; among those that may, the earliest deadline goes first, which meets all
//! deadlines within one packet as long as the minimum rates sum to no more than the link's
//! (the real-time criterion of HFSC: Stoica, Zhang and Ng, SIGCOMM 1997). **Rest:** when none may,
//! DRR by weight among the flows of the lowest priority number; it does not touch the clocks, so
//! that the rest comes on top of the minimum, as in Linux's HTB.
//!
//! A flow above its maximum (a token bucket) takes part in neither until its next packet conforms.

use super::{Choice, Decide};
use crate::{
    BYTE_NS, TokenBucket,
    config::{FlowSettings, PRIORITIES},
    heap::Heap,
    packet::Packet,
    queues::Queues,
    turns::Turns,
};

/// Service owed for a minimum rate that could not be met is not owed for longer than this.
const MEMORY_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Hierarchical {
    quantum_bytes: u64,
    burst_bytes: u64,
    flows: Vec<Flow>,
    /// Flows that may be served for their minimum now, by deadline, ns.
    due: Heap,
    /// Flows that may do something later that they may not do now, by that time, ns.
    later: Heap,
    /// Flows that may have of the rest.
    rest: [Turns; PRIORITIES as usize],
    /// Whether the flow chosen was chosen for its minimum.
    chosen_for_minimum: bool,
}

#[derive(Debug, Clone)]
struct Flow {
    weight: u64,
    priority: u8,
    rate_min_bps: u64,
    maximum: Option<TokenBucket>,
    /// When the minimum served so far would have been served at exactly its rate, ns.
    clock_ns: u64,
    /// What the clock's last division left over; less than `rate_min_bps`.
    clock_remainder: u64,
    deficit_bytes: u64,
    /// Whether its turn in DRR is on: the quantum has been given.
    turn_on: bool,
}

impl Flow {
    /// When a packet would be through at the minimum rate, and what the division left over.
    fn through(&self, bytes: u32) -> (u64, u64) {
        let units = u64::from(bytes) * BYTE_NS + self.clock_remainder;
        let rate_bps = self.rate_min_bps;
        (self.clock_ns.saturating_add(units / rate_bps), units % rate_bps)
    }

    fn set_maximum(&mut self, rate_max_bps: Option<u64>, burst_bytes: u64, now_ns: u64) {
        match (&mut self.maximum, rate_max_bps) {
            (Some(bucket), Some(rate_bps)) => {
                bucket.set_rate(rate_bps, now_ns);
                let set = bucket.set_burst(burst_bytes, now_ns);
                set.expect("the burst was checked with the configuration");
            }
            (maximum, Some(rate_bps)) => {
                let bucket = TokenBucket::new(rate_bps, burst_bytes, now_ns);
                *maximum = Some(bucket.expect("the burst was checked with the configuration"));
            }
            (maximum, None) => *maximum = None,
        }
    }
}

impl Hierarchical {
    pub(crate) fn new(flows: u32, quantum_bytes: u32, burst_bytes: u32) -> Self {
        let flow = Flow {
            weight: 1,
            priority: 0,
            rate_min_bps: 0,
            maximum: None,
            clock_ns: 0,
            clock_remainder: 0,
            deficit_bytes: 0,
            turn_on: false,
        };
        Self {
            quantum_bytes: quantum_bytes.into(),
            burst_bytes: burst_bytes.into(),
            flows: vec![flow; flows as usize],
            due: Heap::new(flows),
            later: Heap::new(flows),
            rest: std::array::from_fn(|_| Turns::new(flows)),
            chosen_for_minimum: false,
        }
    }

    /// Puts a flow into the heap or the turn that it belongs to, given its head's length (`None`: its queue is empty).
    fn classify(&mut self, id: u32, head_bytes: Option<u32>, now_ns: u64) {
        self.due.remove(id);
        self.later.remove(id);
        let Some(bytes) = head_bytes else { return self.leave_rest(id) };
        let flow = &mut self.flows[id as usize];
        let conforms_ns = match &mut flow.maximum {
            Some(bucket) => bucket.ready_ns(bytes, now_ns).unwrap_or(u64::MAX),
            None => now_ns,
        };
        if conforms_ns > now_ns {
            self.leave_rest(id);
            self.later.push(conforms_ns, id);
            return;
        }
        if flow.rate_min_bps > 0 {
            flow.clock_ns = flow.clock_ns.max(now_ns.saturating_sub(MEMORY_NS));
            if flow.clock_ns <= now_ns {
                self.due.push(flow.through(bytes).0, id);
            } else {
                self.later.push(flow.clock_ns, id);
            }
        }
        self.rest[self.flows[id as usize].priority as usize].insert(id);
    }

    fn leave_rest(&mut self, id: u32) {
        let flow = &mut self.flows[id as usize];
        flow.deficit_bytes = 0;
        flow.turn_on = false;
        self.rest[flow.priority as usize].remove(id);
    }

    fn choose_of_rest<P: Packet>(&mut self, queues: &Queues<P>) -> Option<u32> {
        let (priority, turns) = (0..).zip(&mut self.rest).find(|(_, turns)| !turns.is_empty())?;
        let mut id = turns.last();
        loop {
            let flow = &mut self.flows[id as usize];
            // Whose turn it was last here may be in the middle of one at another priority by now.
            if flow.turn_on && flow.priority == priority {
                let bytes = queues.head_bytes(id).expect("whose turn is on is backlogged");
                if u64::from(bytes) <= flow.deficit_bytes {
                    return Some(id);
                }
                flow.turn_on = false;
            }
            id = turns.next()?;
            turns.begin(id);
            let flow = &mut self.flows[id as usize];
            flow.deficit_bytes += self.quantum_bytes * flow.weight;
            flow.turn_on = true;
        }
    }
}

impl Decide for Hierarchical {
    fn backlogged<P: Packet>(&mut self, queues: &Queues<P>, id: u32, now_ns: u64) {
        let flow = &mut self.flows[id as usize];
        // What an idle flow did not use is not owed to it.
        if flow.clock_ns < now_ns {
            flow.clock_ns = now_ns;
            flow.clock_remainder = 0;
        }
        self.classify(id, queues.head_bytes(id), now_ns);
    }

    fn choose<P: Packet>(&mut self, queues: &Queues<P>, now_ns: u64) -> Choice {
        while let Some((_, id)) = self.later.pop_until(now_ns) {
            self.classify(id, queues.head_bytes(id), now_ns);
        }
        if let Some((_, id)) = self.due.first() {
            self.chosen_for_minimum = true;
            return Choice::Serve(id);
        }
        self.chosen_for_minimum = false;
        if let Some(id) = self.choose_of_rest(queues) {
            return Choice::Serve(id);
        }
        self.later.first().map_or(Choice::Empty, |(until_ns, _)| Choice::Wait { until_ns })
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, id: u32, bytes: u32, now_ns: u64) {
        let flow = &mut self.flows[id as usize];
        if self.chosen_for_minimum {
            (flow.clock_ns, flow.clock_remainder) = flow.through(bytes);
        } else {
            flow.deficit_bytes -= u64::from(bytes);
        }
        if let Some(bucket) = &mut flow.maximum {
            bucket.charge(bytes, now_ns);
        }
        self.classify(id, queues.head_bytes(id), now_ns);
    }

    fn set<P: Packet>(
        &mut self,
        queues: &Queues<P>,
        id: u32,
        settings: &FlowSettings,
        now_ns: u64,
    ) {
        let flow = &mut self.flows[id as usize];
        flow.weight = settings.weight.into();
        // As in DRR: a turn under way has the new length.
        flow.deficit_bytes = flow.deficit_bytes.min(self.quantum_bytes * flow.weight);
        let burst_bytes = settings.burst_bytes.map_or(self.burst_bytes, u64::from);
        flow.set_maximum(settings.rate_max_bps, burst_bytes, now_ns);
        if flow.rate_min_bps != settings.rate_min_bps {
            flow.rate_min_bps = settings.rate_min_bps;
            flow.clock_ns = now_ns;
            flow.clock_remainder = 0;
        }
        if flow.priority != settings.priority {
            self.leave_rest(id);
            self.flows[id as usize].priority = settings.priority;
        }
        self.classify(id, queues.head_bytes(id), now_ns);
    }
}
