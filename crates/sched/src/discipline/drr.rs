//! Deficit round robin (Shreedhar and Varghese, IEEE/ACM Trans. Networking 4(3), 1996, figure 2).
//!
//! Each backlogged flow, in turn, may send its quantum of bytes per round, and what it could not
//! use because its next packet was longer is kept for the next round. O(1) if no packet is longer
//! than the smallest quantum; else a decision may take several rounds.

use super::{Choice, Decide};
use crate::{
    config::FlowSettings,
    links::{Links, List},
    packet::Packet,
    queues::Queues,
};

#[derive(Debug, Clone)]
pub(crate) struct Drr {
    quantum_bytes: u64,
    links: Links,
    active: List,
    flows: Vec<Flow>,
    /// Whether the first of `active` has got this round's quantum.
    granted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    quantum_bytes: u64,
    deficit_bytes: u64,
}

impl Drr {
    pub(crate) fn new(flows: u32, quantum_bytes: u32) -> Self {
        let flow = Flow { quantum_bytes: quantum_bytes.into(), deficit_bytes: 0 };
        Self {
            quantum_bytes: quantum_bytes.into(),
            links: Links::new(flows),
            active: List::EMPTY,
            flows: vec![flow; flows as usize],
            granted: false,
        }
    }
}

impl Decide for Drr {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        self.active.push(&mut self.links, flow);
    }

    fn choose<P: Packet>(&mut self, queues: &Queues<P>, _now_ns: u64) -> Choice {
        while let Some(first) = self.active.first() {
            let flow = &mut self.flows[first as usize];
            if !self.granted {
                flow.deficit_bytes += flow.quantum_bytes;
                self.granted = true;
            }
            let bytes = queues.head_bytes(first).expect("an active flow is backlogged");
            if u64::from(bytes) <= flow.deficit_bytes {
                return Choice::Serve(first);
            }
            self.active.rotate(&mut self.links);
            self.granted = false;
        }
        Choice::Empty
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, bytes: u32, _now_ns: u64) {
        let state = &mut self.flows[flow as usize];
        state.deficit_bytes -= u64::from(bytes);
        if queues.is_empty(flow) {
            state.deficit_bytes = 0;
            self.active.remove(&mut self.links, flow);
            self.granted = false;
        }
    }

    fn set<P: Packet>(&mut self, _: &Queues<P>, flow: u32, settings: &FlowSettings, _now_ns: u64) {
        let flow = &mut self.flows[flow as usize];
        flow.quantum_bytes = self.quantum_bytes * u64::from(settings.weight);
        // Else a turn under way would go on for as long as the old weight gave it.
        flow.deficit_bytes = flow.deficit_bytes.min(flow.quantum_bytes);
    }
}
