//! Steps 1 and 2: from a wire into a receive ring, and the interrupt that has it polled.

use super::Host;
use crate::engine::{
    cpu::{Job, Work},
    events::Event,
    ids::{RingId, WireId, WorkerId},
    network::DropPoint,
};

/// 1. From a wire into a receive ring. A wire is updated lazily: it needs no event for each frame.
impl Host {
    /// Brings a wire up to now: puts the frames that have arrived into their rings.
    #[inline]
    pub(crate) fn advance_wire(&mut self, wire: WireId, now_ns: u64) {
        while let Some((frame, ring, arrival_ns)) = self.network.next_arrival(wire, now_ns) {
            self.accounting.offer(frame.flow, frame.bytes, frame.stamp_ns);
            self.put(DropPoint::Ring(ring), frame, arrival_ns);
        }
    }

    /// Brings a ring up to now: puts in what has arrived over its wire and from another host's port.
    pub(super) fn advance_ring(&mut self, ring: RingId, now_ns: u64) {
        self.advance_wire(self.network.wire_of(ring), now_ns);
        while let Some((arrival_ns, frame)) = self.network.next_from_port(ring, now_ns) {
            self.put(DropPoint::Ring(ring), frame, arrival_ns);
        }
    }
}

/// 2. The ring's interrupt, which schedules a poll.
impl Host {
    /// The ring is to raise an interrupt as soon as there is a frame and moderation allows it.
    pub(crate) fn arm(&mut self, ring: RingId, now_ns: u64) {
        self.network.arm(ring, now_ns);
        self.advance_ring(ring, now_ns);
        self.network.plan_ring(ring, &mut self.events, now_ns);
    }

    /// An armed ring may have its first frame now.
    pub(crate) fn ring_due(&mut self, ring: RingId, now_ns: u64) {
        if !self.network.ring_is_due(ring, now_ns) {
            return;
        }
        self.advance_ring(ring, now_ns);
        if let Some(interrupt) = self.network.interrupt(ring, &mut self.events, now_ns) {
            let core = self.cpu.core_of(self.cpu.context_of(interrupt.worker));
            let job = Job { work: Work::Ring(ring), cost_ns: interrupt.cost_ns };
            self.cpu.interrupt(core, job, now_ns);
        }
    }

    /// There may be work for this worker: it is polled when its context has a core.
    #[inline]
    pub(crate) fn schedule_poll(&mut self, worker: WorkerId, now_ns: u64) {
        self.cpu.schedule_poll(worker, &mut self.events, now_ns);
    }

    /// The worker is to be polled then at the latest.
    #[inline]
    pub(crate) fn plan_retry(&mut self, worker: WorkerId, at_ns: u64) {
        if self.workers[worker].plan_retry(at_ns) {
            self.events.push(at_ns, Event::Retry(worker));
        }
    }

    pub(crate) fn retry(&mut self, worker: WorkerId, now_ns: u64) {
        self.workers[worker].retry(now_ns);
        self.schedule_poll(worker, now_ns);
    }
}
