//! Ports: what leaves, and when.

use super::{
    Network,
    port::{Beyond, Departure},
};
use crate::engine::{
    events::{Event, Events},
    frame::Frame,
    ids::{PortId, RouterId},
};

/// Ports.
impl Network {
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        self.ports.ids()
    }

    /// The next frame that a port's own sources have sent by now.
    #[inline]
    pub(crate) fn next_from_source(&mut self, port: PortId, now_ns: u64) -> Option<Frame> {
        self.ports[port].next_from_source(now_ns)
    }

    /// The next frame that has left the port by now.
    #[inline]
    pub(crate) fn next_departure(&mut self, port: PortId, now_ns: u64) -> Option<Departure> {
        self.ports[port].next_departure(now_ns)
    }

    /// Where this router's frames are when they have left.
    #[inline]
    pub(crate) fn beyond(&self, port: PortId, router: RouterId) -> Beyond {
        self.ports[port].beyond(router)
    }

    /// A frame has come into a port: its departure may need an event.
    #[inline]
    pub(crate) fn plan_departure(&mut self, port: PortId, events: &mut Events) {
        if self.ports[port].needs_events() {
            self.plan_port(port, events);
        }
    }

    pub(crate) fn plan_port(&mut self, port: PortId, events: &mut Events) {
        if let Some(next_ns) = self.ports[port].plan() {
            events.push(next_ns, Event::Port(port));
        }
    }

    /// Whether the port's event is due, and not one that was planned before that.
    pub(crate) fn port_is_due(&mut self, port: PortId, now_ns: u64) -> bool {
        self.ports[port].is_due(now_ns)
    }
}
