//! Deficit round robin (Shreedhar and Varghese, IEEE/ACM Trans. Networking 4(3), 1996, figure 2).
//!
//! Each backlogged flow, in turn, may send its quantum of bytes per round, and what it could not
//! use because its next packet was longer is kept for the next round. O(1) if no packet is longer
//! than the smallest quantum; else a decision may take several rounds.

use super::{Choice, Decide};
use crate::{config::FlowSettings, packet::Packet, queues::Queues, turns::Turns};

#[derive(Debug, Clone)]
pub(crate) struct Drr {
    quantum_bytes: u64,
    active: Turns,
    flows: Vec<Flow>,
    /// Whether the turn of the last of `active` is still on.
    on: bool,
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
            active: Turns::new(flows),
            flows: vec![flow; flows as usize],
            on: false,
        }
    }

    /// Gives the next flow its quantum: its turn begins.
    #[inline]
    fn begin_turn(&mut self) -> Option<u32> {
        let id = self.active.next()?;
        self.active.begin(id);
        self.on = true;
        let flow = &mut self.flows[id as usize];
        flow.deficit_bytes += flow.quantum_bytes;
        Some(id)
    }
}

impl Decide for Drr {
    #[inline]
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        self.active.insert(flow);
    }

    #[inline]
    fn choose<P: Packet>(&mut self, queues: &Queues<P>, _now_ns: u64) -> Choice {
        let mut turn = if self.on { Some(self.active.last()) } else { self.begin_turn() };
        while let Some(id) = turn {
            let bytes = queues.head_bytes(id).expect("an active flow is backlogged");
            if u64::from(bytes) <= self.flows[id as usize].deficit_bytes {
                break;
            }
            turn = self.begin_turn();
        }
        turn.into()
    }

    #[inline]
    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, bytes: u32, _now_ns: u64) {
        let state = &mut self.flows[flow as usize];
        state.deficit_bytes -= u64::from(bytes);
        if queues.is_empty(flow) {
            state.deficit_bytes = 0;
            self.active.remove(flow);
            self.on = false;
        }
    }

    fn set<P: Packet>(&mut self, _: &Queues<P>, flow: u32, settings: &FlowSettings, _now_ns: u64) {
        let flow = &mut self.flows[flow as usize];
        flow.quantum_bytes = self.quantum_bytes * u64::from(settings.weight);
        // Else a turn under way would go on for as long as the old weight gave it.
        flow.deficit_bytes = flow.deficit_bytes.min(flow.quantum_bytes);
    }
}
