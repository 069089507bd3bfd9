//! The queues of all flows: a ring each and a common pool, reserved once.

use crate::{
    counters::{DropReason, FlowCounters, Totals},
    links::NIL,
    packet::{MAX_PACKET_BYTES, Packet},
};

/// What does not fit a list's ring waits in slots of the pool.
#[derive(Debug, Clone)]
struct PoolSlot<P> {
    packet: Option<P>,
    /// The one behind it in its list, or in the list of free slots.
    next: u32,
}

/// A flow's queue and counters: 64 bytes, so that a decision touches one cache line of it.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Queue {
    /// Where in the list's ring its head is.
    at: u32,
    /// Packets in the ring.
    in_ring: u32,
    /// First and last slot in the pool of those that come after the ring's.
    first: u32,
    last: u32,
    counters: FlowCounters,
}

/// A ring holds no fewer than that.
const RING_PACKETS: u32 = 8;

/// Which list packets of flow `f` are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// List `f`.
    PerFlow,
    /// List 0, whatever the flow.
    One,
}

/// The first packets of each list are in a ring of its own, lists side by side: what a decision
/// needs of the next flow lies beside what it needed of this one, which is what keeps it cheap with 65,536
/// flows. Only what is longer than its ring goes through the pool.
#[derive(Debug, Clone)]
pub(crate) struct Queues<P> {
    rings: Vec<Option<P>>,
    /// Packets that a ring holds; a power of two.
    ring_packets: u32,
    pool: Vec<PoolSlot<P>>,
    free: u32,
    flows: Vec<Queue>,
    sharing: Sharing,
    queue_packets: u32,
    pool_packets: u32,
    totals: Totals,
}

/// Whole queues where the pool is large enough for that.
fn ring_packets(config: &crate::Config, lists: u32) -> u32 {
    let share = (config.pool_packets / lists).max(RING_PACKETS);
    share.min(config.queue_packets).min(1 << 30).next_power_of_two()
}

impl<P: Packet> Queues<P> {
    pub(crate) fn new(config: &crate::Config, sharing: Sharing) -> Self {
        let counters = FlowCounters::default();
        let empty = Queue { at: 0, in_ring: 0, first: NIL, last: NIL, counters };
        let lists = if sharing == Sharing::One { 1 } else { config.flows };
        let ring_packets = ring_packets(config, lists);
        let slots = lists as usize * ring_packets as usize;
        Self {
            rings: std::iter::repeat_with(|| None).take(slots).collect(),
            ring_packets,
            pool: Vec::with_capacity(config.pool_packets as usize),
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

    #[inline]
    pub(crate) fn queued(&self, flow: u32) -> Option<u32> {
        self.flows.get(flow as usize).map(|queue| queue.counters.backlog)
    }

    /// Whether no packet waits in any list.
    #[inline]
    pub(crate) fn are_empty(&self) -> bool {
        self.totals.backlog.packets == 0
    }

    /// Length of the list's first packet, bytes; `None` if it is empty.
    #[inline]
    pub(crate) fn head_bytes(&self, list: u32) -> Option<u32> {
        self.rings[self.slot(list, 0)].as_ref().map(P::len_bytes)
    }

    /// Has the processor fetch what a decision on the list will need. (A load whose result is not
    /// needed is as near to a prefetch as safe code gets.)
    #[inline]
    pub(crate) fn look_at(&self, list: u32) {
        std::hint::black_box(self.rings[self.slot(list, 0)].is_some());
    }

    #[inline]
    pub(crate) fn is_empty(&self, list: u32) -> bool {
        self.flows[list as usize].in_ring == 0
    }

    /// Puts a packet into its list: the list's number, and whether it was empty. Or gives the
    /// packet back, with the reason, counted.
    #[inline]
    pub(crate) fn push(&mut self, packet: P) -> Result<(u32, bool), (P, DropReason)> {
        let (flow, bytes) = (packet.flow(), packet.len_bytes());
        self.totals.offered.add(bytes);
        let all = self.totals.backlog.packets;
        let Some(queue) = self.flows.get_mut(flow as usize) else {
            return Err(self.refuse(packet, DropReason::NoSuchFlow));
        };
        queue.counters.offered += 1;
        let queued = match self.sharing {
            Sharing::PerFlow => queue.counters.backlog.into(),
            Sharing::One => all,
        };
        if bytes > MAX_PACKET_BYTES {
            return Err(self.refuse(packet, DropReason::TooLong));
        }
        if queued >= self.queue_packets.into() {
            return Err(self.refuse(packet, DropReason::QueueFull));
        }
        if all >= self.pool_packets.into() {
            return Err(self.refuse(packet, DropReason::PoolFull));
        }
        queue.counters.backlog += 1;
        self.totals.backlog.add(bytes);
        let list = if self.sharing == Sharing::One { 0 } else { flow };
        Ok((list, self.append(list, packet)))
    }

    /// Takes the list's first packet, which must be there, out, with its flow. It is still to be
    /// counted as sent or lost.
    #[inline]
    pub(crate) fn pop(&mut self, list: u32) -> (P, u32) {
        let slot = self.slot(list, 0);
        let packet = self.rings[slot].take().expect("a backlogged list has a head");
        self.totals.backlog.subtract(packet.len_bytes());
        // Where the list is the flow, its address does not wait for the packet to come from memory.
        let flow = if self.sharing == Sharing::One { packet.flow() } else { list };
        self.flows[flow as usize].counters.backlog -= 1;
        let queue = &mut self.flows[list as usize];
        queue.in_ring -= 1;
        // An empty one begins where the processor's cache still knows it.
        queue.at = if queue.in_ring == 0 { 0 } else { queue.at.wrapping_add(1) };
        if queue.first != NIL {
            self.refill(list);
        }
        (packet, flow)
    }

    #[inline]
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

    /// Gives a packet back, counted.
    #[cold]
    fn refuse(&mut self, packet: P, reason: DropReason) -> (P, DropReason) {
        self.totals.dropped[reason as usize].add(packet.len_bytes());
        if let Some(queue) = self.flows.get_mut(packet.flow() as usize) {
            queue.counters.dropped_at_enqueue += 1;
        }
        (packet, reason)
    }

    /// Where in `rings` the list's packet number `index` is.
    #[inline]
    fn slot(&self, list: u32, index: u32) -> usize {
        let in_ring = self.flows[list as usize].at.wrapping_add(index) & (self.ring_packets - 1);
        list as usize * self.ring_packets as usize + in_ring as usize
    }

    /// Whether the list was empty.
    #[inline]
    fn append(&mut self, list: u32, packet: P) -> bool {
        let queue = &mut self.flows[list as usize];
        let in_ring = queue.in_ring;
        if queue.first == NIL && in_ring < self.ring_packets {
            queue.in_ring += 1;
            let slot = self.slot(list, in_ring);
            self.rings[slot] = Some(packet);
        } else {
            self.append_to_pool(list, packet);
        }
        in_ring == 0
    }

    fn append_to_pool(&mut self, list: u32, packet: P) {
        let at = self.store(packet);
        let queue = &mut self.flows[list as usize];
        if queue.first == NIL {
            queue.first = at;
        } else {
            self.pool[queue.last as usize].next = at;
        }
        queue.last = at;
    }

    fn store(&mut self, packet: P) -> u32 {
        let stored = PoolSlot { packet: Some(packet), next: NIL };
        let at = self.free;
        if at == NIL {
            // Never allocates: push() refuses what would be more than `pool_packets`, and that many are reserved.
            self.pool.push(stored);
            return u32::try_from(self.pool.len() - 1).expect("pool_packets is a u32");
        }
        self.free = self.pool[at as usize].next;
        self.pool[at as usize] = stored;
        at
    }

    /// Moves the first of those in the pool into the ring, which has a free slot.
    fn refill(&mut self, list: u32) {
        let slot = self.slot(list, self.flows[list as usize].in_ring);
        let queue = &mut self.flows[list as usize];
        let at = queue.first;
        let stored = &mut self.pool[at as usize];
        self.rings[slot] = stored.packet.take();
        queue.first = stored.next;
        queue.in_ring += 1;
        stored.next = self.free;
        self.free = at;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::{Config, Kind};

    #[test]
    fn a_flow_is_one_cache_line() {
        assert_eq!(size_of::<Queue>(), 64);
    }

    #[test]
    fn nothing_grows() {
        let kind = Kind::Fifo;
        let config = Config { flows: 3, queue_packets: 40, pool_packets: 70, kind };
        let mut queues = Queues::new(&config, Sharing::PerFlow);
        let reserved = (queues.pool.capacity(), queues.rings.capacity());
        for round in 0..1_000 {
            for flow in 0..3 {
                let _ = queues.push((flow, 64 + round % 700));
            }
            for list in 0..round % 4 {
                if list < 3 && !queues.is_empty(list) {
                    let (packet, flow) = queues.pop(list);
                    queues.count_sent(flow, packet.len_bytes());
                }
            }
            assert!(queues.totals().is_conserved());
        }
        assert_eq!((queues.pool.capacity(), queues.rings.capacity()), reserved);
        assert!(queues.totals().dropped(DropReason::PoolFull).packets > 0);
    }

    proptest! {
        /// Rings of 8, so that packets go through the pool as well.
        #[test]
        fn each_list_is_first_in_first_out(steps in prop::collection::vec((0..3u32, 0..5), 1..500)) {
            let kind = Kind::Fifo;
            let config = Config { flows: 3, queue_packets: 30, pool_packets: 24, kind };
            let mut queues = Queues::new(&config, Sharing::PerFlow);
            assert_eq!(queues.ring_packets, 8);
            let mut model = [const { VecDeque::new() }; 3];
            for (bytes, (list, step)) in (1..).zip(steps) {
                let expected = &mut model[list as usize];
                if step < 3 {
                    if queues.push((list, bytes)).is_ok() {
                        expected.push_back(bytes);
                    }
                } else if let Some(bytes) = expected.pop_front() {
                    prop_assert_eq!(queues.pop(list), ((list, bytes), list));
                }
                prop_assert_eq!(queues.head_bytes(list), expected.front().copied());
                prop_assert_eq!(queues.is_empty(list), expected.is_empty());
            }
        }
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
