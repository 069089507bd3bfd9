//! Strict priority: a flow is served only while none of a lower number is backlogged; those of the
//! same priority take turns, packet by packet.

use super::{Choice, Decide};
use crate::{
    config::{FlowSettings, PRIORITIES},
    links::{Links, List},
    packet::Packet,
    queues::Queues,
};

#[derive(Debug, Clone)]
pub(crate) struct StrictPriority {
    links: Links,
    active: [List; PRIORITIES as usize],
    priority: Vec<u8>,
}

impl StrictPriority {
    pub(crate) fn new(flows: u32) -> Self {
        Self {
            links: Links::new(flows),
            active: [List::EMPTY; PRIORITIES as usize],
            priority: vec![0; flows as usize],
        }
    }

    fn list_of(&mut self, flow: u32) -> (&mut List, &mut Links) {
        (&mut self.active[self.priority[flow as usize] as usize], &mut self.links)
    }
}

impl Decide for StrictPriority {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        let (list, links) = self.list_of(flow);
        list.push(links, flow);
    }

    fn choose<P: Packet>(&mut self, _: &Queues<P>, _now_ns: u64) -> Choice {
        self.active.iter().find_map(|list| list.first()).into()
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, _bytes: u32, _now_ns: u64) {
        let (list, links) = self.list_of(flow);
        if queues.is_empty(flow) {
            list.remove(links, flow);
        } else {
            list.rotate(links);
        }
    }

    fn set<P: Packet>(
        &mut self,
        queues: &Queues<P>,
        flow: u32,
        settings: &FlowSettings,
        now_ns: u64,
    ) {
        if !queues.is_empty(flow) {
            let (list, links) = self.list_of(flow);
            list.remove(links, flow);
        }
        self.priority[flow as usize] = settings.priority;
        if !queues.is_empty(flow) {
            self.backlogged(queues, flow, now_ns);
        }
    }
}
