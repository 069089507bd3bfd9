//! Wires and rings: what arrives, and when a ring is looked at.

use super::{Network, port::Departure, ring::Interrupt};
use crate::engine::{
    events::{Event, Events},
    frame::Frame,
    ids::{RingId, WireId},
};

/// Wires and rings.
impl Network {
    pub(crate) fn wires(&self) -> impl Iterator<Item = WireId> + use<> {
        self.wires.ids()
    }

    /// Rings that a worker polls.
    pub(crate) fn polled_rings(&self) -> impl Iterator<Item = RingId> {
        self.rings.enumerate().filter(|(_, ring)| ring.worker.is_some()).map(|(ring, _)| ring)
    }

    #[inline]
    pub(crate) fn wire_of(&self, ring: RingId) -> WireId {
        self.rings[ring].wire
    }

    /// The next frame that is at the end of the wire by now: it, its ring, and when it came.
    #[inline]
    pub(crate) fn next_arrival(
        &mut self,
        wire: WireId,
        now_ns: u64,
    ) -> Option<(Frame, RingId, u64)> {
        self.wires[wire].next_arrival(now_ns)
    }

    /// The next frame from another host's port that is here by now, and since when.
    #[inline]
    pub(crate) fn next_from_port(&mut self, ring: RingId, now_ns: u64) -> Option<(u64, Frame)> {
        self.rings[ring].next_from_port(now_ns)
    }

    /// A frame goes on to another host's ring, from a port or from outside of the model; it will be there then.
    pub(crate) fn go_on(
        &mut self,
        ring: RingId,
        departure: Departure,
        events: &mut Events,
        now_ns: u64,
    ) {
        if self.rings[ring].expect(departure.frame, departure.arrival_ns) {
            self.plan_ring(ring, events, now_ns);
        }
    }

    #[inline]
    pub(crate) fn pop_from_ring(&mut self, ring: RingId) -> Option<Frame> {
        self.rings[ring].pop()
    }

    /// The ring may raise an interrupt again; its frames are all there.
    pub(crate) fn arm(&mut self, ring: RingId, now_ns: u64) {
        self.rings[ring].arm(now_ns);
    }

    /// Plans when an armed ring is looked at.
    pub(crate) fn plan_ring(&mut self, index: RingId, events: &mut Events, now_ns: u64) {
        let ring = &mut self.rings[index];
        let from_wire = self.wires[ring.wire].next_for(index);
        if let Some(check_ns) = ring.plan(from_wire, now_ns) {
            events.push(check_ns, Event::Ring(index));
        }
    }

    /// Whether the ring is to be looked at now, and that was not put off.
    pub(crate) fn ring_is_due(&self, ring: RingId, now_ns: u64) -> bool {
        self.rings[ring].is_due(now_ns)
    }

    /// The interrupt that an armed ring raises now; if none, it is looked at again later.
    pub(crate) fn interrupt(
        &mut self,
        ring: RingId,
        events: &mut Events,
        now_ns: u64,
    ) -> Option<Interrupt> {
        let interrupt = self.rings[ring].raise(now_ns);
        if interrupt.is_none() {
            self.plan_ring(ring, events, now_ns);
        }
        interrupt
    }
}
