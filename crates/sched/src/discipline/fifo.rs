//! First in, first out: all packets are in list 0, in the order of their arrival.

use super::{Choice, Decide};
use crate::{packet::Packet, queues::Queues};

#[derive(Debug, Clone)]
pub(crate) struct Fifo;

impl Decide for Fifo {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, _list: u32, _now_ns: u64) {}

    fn choose<P: Packet>(&mut self, queues: &Queues<P>, _now_ns: u64) -> Choice {
        if queues.is_empty(0) { Choice::Empty } else { Choice::Serve(0) }
    }

    fn served<P: Packet>(&mut self, _: &Queues<P>, _list: u32, _bytes: u32, _now_ns: u64) {}
}
