//! Round robin: one packet of each backlogged flow in turn (Nagle, RFC 970).

use super::{Choice, Decide};
use crate::{packet::Packet, queues::Queues, turns::Turns};

#[derive(Debug, Clone)]
pub(crate) struct RoundRobin {
    active: Turns,
}

impl RoundRobin {
    pub(crate) fn new(flows: u32) -> Self {
        Self { active: Turns::new(flows) }
    }
}

impl Decide for RoundRobin {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        self.active.insert(flow);
    }

    fn choose<P: Packet>(&mut self, _: &Queues<P>, _now_ns: u64) -> Choice {
        self.active.next().into()
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, _bytes: u32, _now_ns: u64) {
        self.active.begin(flow);
        if queues.is_empty(flow) {
            self.active.remove(flow);
        }
    }
}
