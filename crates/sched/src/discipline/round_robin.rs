//! Round robin: one packet of each backlogged flow in turn (Nagle, RFC 970).

use super::{Choice, Decide};
use crate::{
    links::{Links, List},
    packet::Packet,
    queues::Queues,
};

#[derive(Debug, Clone)]
pub(crate) struct RoundRobin {
    links: Links,
    active: List,
}

impl RoundRobin {
    pub(crate) fn new(flows: u32) -> Self {
        Self { links: Links::new(flows), active: List::EMPTY }
    }
}

impl Decide for RoundRobin {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        self.active.push(&mut self.links, flow);
    }

    fn choose<P: Packet>(&mut self, _: &Queues<P>, _now_ns: u64) -> Choice {
        self.active.first().into()
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, _bytes: u32, _now_ns: u64) {
        if queues.is_empty(flow) {
            self.active.remove(&mut self.links, flow);
        } else {
            self.active.rotate(&mut self.links);
        }
    }
}
