//! Strict priority: a flow is served only while none of a lower number is backlogged; those of the
//! same priority take turns, packet by packet.

use super::{Choice, Decide};
use crate::{
    config::{FlowSettings, PRIORITIES},
    packet::Packet,
    queues::Queues,
    turns::Turns,
};

#[derive(Debug, Clone)]
pub(crate) struct StrictPriority {
    /// Backlogged flows, by priority.
    active: [Turns; PRIORITIES as usize],
    priority: Vec<u8>,
}

impl StrictPriority {
    pub(crate) fn new(flows: u32) -> Self {
        Self {
            active: std::array::from_fn(|_| Turns::new(flows)),
            priority: vec![0; flows as usize],
        }
    }

    fn turns_of(&mut self, flow: u32) -> &mut Turns {
        &mut self.active[self.priority[flow as usize] as usize]
    }
}

impl Decide for StrictPriority {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        self.turns_of(flow).insert(flow);
    }

    fn choose<P: Packet>(&mut self, _: &Queues<P>, _now_ns: u64) -> Choice {
        self.active.iter().find(|turns| !turns.is_empty()).and_then(Turns::next).into()
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, _bytes: u32, _now_ns: u64) {
        let turns = self.turns_of(flow);
        turns.begin(flow);
        if queues.is_empty(flow) {
            turns.remove(flow);
        }
    }

    fn set<P: Packet>(
        &mut self,
        queues: &Queues<P>,
        flow: u32,
        settings: &FlowSettings,
        _now_ns: u64,
    ) {
        self.turns_of(flow).remove(flow);
        self.priority[flow as usize] = settings.priority;
        if !queues.is_empty(flow) {
            self.turns_of(flow).insert(flow);
        }
    }
}
