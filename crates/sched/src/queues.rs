//! The queues of all flows: linked lists in one pool of places, reserved once.

use std::hint::black_box;

use crate::{
    counters::{DropReason, FlowCounters, Totals},
    links::NIL,
    packet::{MAX_PACKET_BYTES, Packet},
};

/// A place in the pool.
#[derive(Debug, Clone)]
struct Place<P> {
    packet: Option<P>,
    /// The one behind it in its queue, or in the list of free places.
    next: u32,
    /// That one's length: who becomes head is known without touching its place.
    next_bytes: u32,
}

/// A flow's queue and counters: 64 bytes, so that a decision touches one cache line of it.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Queue {
    head: u32,
    tail: u32,
    head_bytes: u32,
    counters: FlowCounters,
}

/// Which list packets of flow `f` are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// List `f`.
    PerFlow,
    /// List 0, whatever the flow.
    One,
}

#[derive(Debug, Clone)]
pub(crate) struct Queues<P> {
    places: Vec<Place<P>>,
    free: u32,
    flows: Vec<Queue>,
    sharing: Sharing,
    queue_packets: u32,
    pool_packets: u32,
    totals: Totals,
}

impl<P: Packet> Queues<P> {
    pub(crate) fn new(config: &crate::Config, sharing: Sharing) -> Self {
        let counters = FlowCounters::default();
        let empty = Queue { head: NIL, tail: NIL, head_bytes: 0, counters };
        Self {
            places: Vec::with_capacity(config.pool_packets as usize),
            free: NIL,
            flows: vec![empty; config.flows as usize],
            sharing,
            queue_packets: config.queue_packets,
            pool_packets: config.pool_packets,
            totals: Totals::default(),
        }
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn counters(&self, flow: u32) -> Option<FlowCounters> {
        self.flows.get(flow as usize).map(|queue| queue.counters)
    }

    /// Length of the list's first packet, bytes; `None` if it is empty.
    pub(crate) fn head_bytes(&self, list: u32) -> Option<u32> {
        let queue = &self.flows[list as usize];
        (queue.head != NIL).then_some(queue.head_bytes)
    }

    pub(crate) fn is_empty(&self, list: u32) -> bool {
        self.flows[list as usize].head == NIL
    }

    /// Puts a packet into its list: the list's number, and whether it was empty. Or gives the
    /// packet back, with the reason, counted.
    pub(crate) fn push(&mut self, packet: P) -> Result<(u32, bool), (P, DropReason)> {
        let (flow, bytes) = (packet.flow(), packet.len_bytes());
        self.totals.offered.add(bytes);
        if let Some(queue) = self.flows.get_mut(flow as usize) {
            queue.counters.offered += 1;
        }
        if let Some(reason) = self.refusal(flow, bytes) {
            self.totals.dropped[reason as usize].add(bytes);
            if let Some(queue) = self.flows.get_mut(flow as usize) {
                queue.counters.dropped_at_enqueue += 1;
            }
            return Err((packet, reason));
        }
        self.totals.backlog.add(bytes);
        self.flows[flow as usize].counters.backlog += 1;
        let list = if self.sharing == Sharing::One { 0 } else { flow };
        let place = self.store(packet);
        Ok((list, self.append(list, place, bytes)))
    }

    /// Takes the list's first packet, which must be there, out, with its flow. It is still to be
    /// counted as sent or lost.
    pub(crate) fn pop(&mut self, list: u32) -> (P, u32) {
        let queue = &mut self.flows[list as usize];
        let at = queue.head;
        let place = &mut self.places[at as usize];
        let packet = place.packet.take().expect("a backlogged list has a head");
        queue.head = place.next;
        queue.head_bytes = place.next_bytes;
        if queue.head == NIL {
            queue.tail = NIL;
        }
        place.next = self.free;
        self.free = at;
        self.totals.backlog.subtract(packet.len_bytes());
        // Where the list is the flow, its address does not wait for the packet to come from memory.
        let flow = if self.sharing == Sharing::One { packet.flow() } else { list };
        self.flows[flow as usize].counters.backlog -= 1;
        (packet, flow)
    }

    /// Has the memory of the list's head fetched, because it is soon needed: it is read, and nobody
    /// waits for the result. With 65,536 flows each miss that is not overlapped costs some 100 ns.
    pub(crate) fn fetch(&self, list: u32) {
        let head = self.flows[list as usize].head;
        if let Some(place) = self.places.get(head as usize) {
            black_box(place.next);
        }
    }

    pub(crate) fn count_sent(&mut self, flow: u32, bytes: u32) {
        self.totals.sent.add(bytes);
        let counters = &mut self.flows[flow as usize].counters;
        counters.sent += 1;
        counters.sent_bytes += u64::from(bytes);
    }

    pub(crate) fn count_lost(&mut self, flow: u32, bytes: u32) {
        self.totals.dropped[DropReason::OutputFull as usize].add(bytes);
        self.flows[flow as usize].counters.dropped_at_dequeue += 1;
    }

    fn refusal(&self, flow: u32, bytes: u32) -> Option<DropReason> {
        let all = self.totals.backlog.packets;
        let Some(queue) = self.flows.get(flow as usize) else {
            return Some(DropReason::NoSuchFlow);
        };
        let queued = match self.sharing {
            Sharing::PerFlow => queue.counters.backlog.into(),
            Sharing::One => all,
        };
        if bytes > MAX_PACKET_BYTES {
            Some(DropReason::TooLong)
        } else if queued >= self.queue_packets.into() {
            Some(DropReason::QueueFull)
        } else if all >= self.pool_packets.into() {
            Some(DropReason::PoolFull)
        } else {
            None
        }
    }

    fn store(&mut self, packet: P) -> u32 {
        let at = self.free;
        if at == NIL {
            let at = u32::try_from(self.places.len()).expect("pool_packets is a u32");
            // Within the capacity reserved: refusal() keeps the pool's limit.
            self.places.push(Place { packet: Some(packet), next: NIL, next_bytes: 0 });
            return at;
        }
        let place = &mut self.places[at as usize];
        self.free = place.next;
        *place = Place { packet: Some(packet), next: NIL, next_bytes: 0 };
        at
    }

    /// Whether the list was empty.
    fn append(&mut self, list: u32, at: u32, bytes: u32) -> bool {
        let queue = &mut self.flows[list as usize];
        let was_empty = queue.head == NIL;
        if was_empty {
            queue.head = at;
            queue.head_bytes = bytes;
        } else {
            let tail = &mut self.places[queue.tail as usize];
            tail.next = at;
            tail.next_bytes = bytes;
        }
        queue.tail = at;
        was_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Kind};

    #[test]
    fn a_flow_is_one_cache_line() {
        assert_eq!(size_of::<Queue>(), 64);
    }

    #[test]
    fn the_pool_never_grows() {
        let config = Config { flows: 3, queue_packets: 4, pool_packets: 7, kind: Kind::Fifo };
        let mut queues = Queues::new(&config, Sharing::PerFlow);
        let reserved = queues.places.capacity();
        for round in 0..100 {
            for flow in 0..3 {
                let _ = queues.push((flow, 64 + round));
            }
            if round % 2 == 0 && !queues.is_empty(round % 3) {
                let (packet, flow) = queues.pop(round % 3);
                queues.count_sent(flow, packet.len_bytes());
            }
            assert!(queues.totals().is_conserved());
        }
        assert_eq!((queues.places.len(), queues.places.capacity()), (7, reserved));
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let config = Config { flows: 2, queue_packets: 2, pool_packets: 3, kind: Kind::Fifo };
        let mut queues = Queues::new(&config, Sharing::PerFlow);
        let mut push = |flow, bytes| queues.push((flow, bytes)).map_err(|(_, reason)| reason);
        assert_eq!(push(0, 100), Ok((0, true)));
        assert_eq!(push(0, 100), Ok((0, false)));
        assert_eq!(push(0, 100), Err(DropReason::QueueFull));
        assert_eq!(push(1, 100), Ok((1, true)));
        assert_eq!(push(1, 100), Err(DropReason::PoolFull));
        assert_eq!(push(2, 100), Err(DropReason::NoSuchFlow));
        assert_eq!(push(1, MAX_PACKET_BYTES + 1), Err(DropReason::TooLong));
        assert_eq!(queues.totals().dropped_at_enqueue().packets, 4);
        assert!(queues.totals().is_conserved());
    }
}
