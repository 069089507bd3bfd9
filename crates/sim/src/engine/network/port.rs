//! A port: a queue and a wire on which frames leave. It is updated lazily; only a port whose departures wake
//! senders, or feed another host's ring, needs events.

use std::collections::VecDeque;

use isolane_sched::Next;

use super::{
    admission::Admissions,
    buffer::{Buffer, Occupancy},
    line::Line,
    qdisc::Qdisc,
    sources::{Feed, Source},
};
use crate::engine::{
    frame::{Frame, NEVER},
    ids::{ContextId, FlowId, RingId, RouterId, Table, WorkerId},
};

/// Where a port's wire leads, by router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Out of the model.
    Receiver,
    /// To another host's ring.
    Ring(RingId),
}

/// A frame that leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Departure {
    pub(crate) frame: Frame,
    /// When it is where the wire leads.
    pub(crate) arrival_ns: u64,
}

/// A frame that is being sent, or waits in a line whose order does not change any more.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    gone_ns: u64,
    frame: Frame,
}

#[derive(Debug)]
pub(crate) struct Port {
    /// Sources that lead straight here, without a NIC.
    feed: Feed<()>,
    line: Line,
    latency_ns: u64,
    capacity: usize,
    /// With a packet scheduler: what waits. Without: unused, as all waits in `leaving`.
    qdisc: Option<Qdisc>,
    admissions: Admissions,
    /// What is being sent; without a scheduler also what waits, with the time at which it will be gone.
    leaving: VecDeque<Leaving>,
    /// When the wire is free.
    free_ns: u64,
    /// With a scheduler: it said to ask again then.
    asked_ns: u64,
    beyond: Table<RouterId, Beyond>,
    /// Departures need events: others wait for them.
    needs_events: bool,
    /// When its event is due.
    event_ns: u64,
    /// Workers that wait for room.
    pub(super) waiting: Vec<WorkerId>,
    occupancy: Occupancy,
}

impl Port {
    pub(crate) fn new(
        line: Line,
        latency_ns: u64,
        capacity: u32,
        qdisc: Option<Qdisc>,
        admissions: Admissions,
    ) -> Self {
        Self {
            feed: Feed::default(),
            line,
            latency_ns,
            capacity: capacity as usize,
            qdisc,
            admissions,
            leaving: VecDeque::new(),
            free_ns: 0,
            asked_ns: 0,
            beyond: Table::default(),
            needs_events: false,
            event_ns: NEVER,
            waiting: Vec::new(),
            occupancy: Occupancy::default(),
        }
    }

    /// With so many routers' frames passing it, all of them out of the model.
    pub(crate) fn for_routers(mut self, routers: usize) -> Self {
        self.beyond = Table::filled(Beyond::Receiver, routers);
        self
    }

    /// This router's frames go on to another host's ring.
    pub(super) fn connect(&mut self, router: RouterId, ring: RingId) {
        self.beyond[router] = Beyond::Ring(ring);
        self.needs_events = true;
    }

    /// Senders wait for their frames to be sent: with a packet scheduler that needs events.
    pub(super) fn tell_senders(&mut self) {
        self.needs_events |= self.qdisc.is_some();
    }

    /// Requests that come out have further turns.
    pub(super) fn tell_requests(&mut self) {
        self.needs_events = true;
    }

    pub(super) fn add_source(&mut self, source: Source<()>) {
        self.feed.add(source);
    }

    pub(super) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        self.feed.set_rate(flow, rate_millipps);
    }

    pub(super) fn qdisc_mut(&mut self) -> Option<&mut Qdisc> {
        self.qdisc.as_mut()
    }

    /// After all sources are there.
    pub(super) fn begin(&mut self) {
        self.feed.sort();
    }

    /// The next frame that its own sources have sent by now.
    #[inline]
    pub(super) fn next_from_source(&mut self, now_ns: u64) -> Option<Frame> {
        (self.feed.next_ns() <= now_ns).then(|| self.feed.pop().0)
    }

    /// Whether the frame is let in; its tokens are taken then.
    #[inline]
    pub(super) fn admit(
        &mut self,
        frame: &Frame,
        cpu_ns: impl FnOnce(ContextId) -> u64,
        now_ns: u64,
    ) -> bool {
        let (qdisc, leaving) = (&self.qdisc, &self.leaving);
        let waiting = || qdisc.as_ref().map_or(leaving.len(), |qdisc| qdisc.waiting(frame));
        self.admissions.admit(frame, waiting, cpu_ns, now_ns)
    }

    #[inline]
    fn transmit(&mut self, frame: Frame, from_ns: u64) {
        self.free_ns = from_ns.max(self.free_ns) + self.line.transmission_ns(frame.bytes);
        self.leaving.push_back(Leaving { gone_ns: self.free_ns, frame });
    }

    /// With a scheduler: begins the first transmission that could begin by now, if any.
    #[inline]
    fn begin_next(&mut self, now_ns: u64) -> bool {
        let Some(qdisc) = &mut self.qdisc else { return false };
        loop {
            let at_ns = self.free_ns.max(self.asked_ns);
            if at_ns > now_ns || qdisc.len() == 0 {
                return false;
            }
            match qdisc.dequeue(at_ns) {
                Next::Packet(frame) => {
                    self.transmit(frame, at_ns);
                    return true;
                }
                Next::Wait { until_ns } => self.asked_ns = until_ns,
                Next::Empty => return false,
            }
        }
    }

    /// The next frame that has left by now.
    #[inline]
    pub(super) fn next_departure(&mut self, now_ns: u64) -> Option<Departure> {
        if self.qdisc.is_some() {
            while self.begin_next(now_ns) {}
        }
        let &Leaving { gone_ns, frame } = self.leaving.front()?;
        if gone_ns > now_ns {
            return None;
        }
        self.leaving.pop_front();
        let arrival_ns = gone_ns + self.latency_ns;
        Some(Departure { frame, arrival_ns })
    }

    /// Where this router's frames are then.
    #[inline]
    pub(super) fn beyond(&self, router: RouterId) -> Beyond {
        self.beyond[router]
    }

    #[inline]
    pub(super) fn has_space(&self, frame: &Frame) -> bool {
        match &self.qdisc {
            Some(qdisc) => qdisc.has_space(frame),
            None => self.leaving.len() < self.capacity,
        }
    }

    #[inline]
    pub(super) fn needs_events(&self) -> bool {
        self.needs_events
    }

    /// When an event is needed, besides the one that is planned: at the end of the transmission under way.
    pub(super) fn plan(&mut self) -> Option<u64> {
        let next_ns = match (&self.qdisc, self.leaving.front()) {
            (_, Some(leaving)) => leaving.gone_ns,
            (Some(qdisc), None) if qdisc.len() > 0 => self.free_ns.max(self.asked_ns),
            _ => return None,
        };
        (next_ns < self.event_ns).then(|| {
            self.event_ns = next_ns;
            next_ns
        })
    }

    /// Whether its event is due, and not one that was planned before that.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let due = self.event_ns == now_ns;
        if due {
            self.event_ns = NEVER;
        }
        due
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self, mut tell: impl FnMut(FlowId)) {
        self.leaving.drain(..).for_each(|leaving| tell(leaving.frame.flow));
        if let Some(qdisc) = &mut self.qdisc {
            qdisc.drain(tell);
        }
    }
}

impl Buffer for Port {
    #[inline]
    fn accept(&mut self, frame: Frame, now_ns: u64) -> bool {
        let Some(qdisc) = &mut self.qdisc else {
            let fits = self.leaving.len() < self.capacity;
            if fits {
                self.transmit(frame, now_ns);
            }
            return fits;
        };
        let idle = qdisc.len() == 0;
        if !qdisc.enqueue(frame, now_ns) {
            return false;
        }
        if idle || self.asked_ns > now_ns {
            // It may go before those for which the scheduler said to wait.
            self.asked_ns = now_ns;
        }
        self.begin_next(now_ns);
        true
    }

    #[inline]
    fn len(&self) -> usize {
        self.leaving.len() + self.qdisc.as_ref().map_or(0, Qdisc::len)
    }

    #[inline]
    fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    #[inline]
    fn occupancy_mut(&mut self) -> &mut Occupancy {
        &mut self.occupancy
    }
}
