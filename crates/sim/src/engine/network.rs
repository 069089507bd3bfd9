//! Wires, rings and ports. All are lazy: what has come or gone meanwhile is worked out when somebody
//! looks. Only an armed ring, and a port for which somebody waits, need events.

use std::collections::VecDeque;

use isolane_sched::Next;

use super::{
    Engine,
    admission::{self, Admission},
    backlog::Backlog,
    events::Event,
    ids::{DropPointId, FlowId, PortId, RingId, RouterId, Table, WireId, WorkerId},
    line::Line,
    sources::{Feed, Frame, NEVER},
    worker::Work,
};

/// A NIC's wire, with the sources that send on it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) feed: Feed<RingId>,
    pub(crate) line: Line,
    pub(crate) latency_ns: u64,
    /// When the latest transmission ends.
    pub(crate) free_ns: u64,
    /// When the next frame is in its ring.
    pub(crate) due_ns: u64,
}

impl Wire {
    pub(crate) fn new(line: Line, latency_ns: u64) -> Self {
        Self { feed: Feed::default(), line, latency_ns, free_ns: 0, due_ns: NEVER }
    }

    /// After the feed has changed.
    pub(crate) fn look(&mut self) {
        let next_ns = self.feed.next_ns();
        self.due_ns =
            if next_ns == NEVER { NEVER } else { self.arrival_ns(next_ns, self.feed.next_bytes()) };
    }

    /// The earliest time at which a frame that is due then could be in its ring.
    fn arrival_ns(&self, due_ns: u64, bytes: u16) -> u64 {
        due_ns.max(self.free_ns) + self.line.at_least_ns(bytes) + self.latency_ns
    }

    /// A lower bound for this ring's next frame. Nothing comes before what is first on the wire.
    fn next_for(&self, ring: RingId) -> Option<u64> {
        let (due_ns, bytes) = self.feed.next_for(ring)?;
        Some(self.arrival_ns(due_ns, bytes).max(self.due_ns))
    }

    /// Sends the next frame: it, its ring, and when it is there.
    #[inline]
    fn send(&mut self) -> (Frame, RingId, u64) {
        let (mut frame, ring) = self.feed.pop();
        // The sender's time stamp is that of the first bit.
        frame.stamp_ns = frame.stamp_ns.max(self.free_ns);
        self.free_ns = frame.stamp_ns + self.line.transmission_ns(frame.bytes);
        let arrival_ns = self.free_ns + self.latency_ns;
        self.look();
        (frame, ring, arrival_ns)
    }
}

/// A receive ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) frames: VecDeque<Frame>,
    pub(crate) capacity: usize,
    /// So many empty slots are given back at a time.
    pub(crate) refill: usize,
    /// Taken, but not given back yet.
    pub(crate) empty_slots: usize,
    pub(crate) wire: WireId,
    pub(crate) drop_point: DropPointId,
    pub(crate) moderation_ns: u64,
    pub(crate) irq_ns: u64,
    pub(crate) worker: Option<WorkerId>,
    /// Whether it raises an interrupt when a frame comes.
    pub(crate) armed: bool,
    /// When it may raise the next.
    pub(crate) quiet_until_ns: u64,
    /// When it is looked at next, if armed.
    pub(crate) check_ns: u64,
    /// Frames on the way here from a port, and when they are there.
    pub(crate) coming: VecDeque<(u64, Frame)>,
    pub(crate) entered: u64,
    pub(crate) most: usize,
}

/// A frame that is being sent, or waits in a line whose order is settled.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    gone_ns: u64,
    frame: Frame,
}

/// Where a port's wire leads, by router: out of the model, or to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    Receiver,
    Ring(RingId),
}

#[derive(Debug)]
pub(crate) struct Port {
    /// Sources that lead straight here, without a NIC.
    pub(crate) feed: Feed<()>,
    line: Line,
    latency_ns: u64,
    capacity: usize,
    /// With a scheduler: what waits. Without: unused, as all waits in `leaving`.
    pub(crate) backlog: Option<Backlog>,
    /// By router; empty: all are welcome.
    pub(crate) admission: Table<RouterId, Option<Box<Admission>>>,
    /// What is being sent; without a scheduler also what waits, with the time at which it will be gone.
    leaving: VecDeque<Leaving>,
    /// When the wire is free.
    free_ns: u64,
    /// With a scheduler: it said to ask again then.
    asked_ns: u64,
    pub(crate) beyond: Table<RouterId, Beyond>,
    pub(crate) drop_point: DropPointId,
    /// Whether what leaves matters before somebody looks.
    pub(crate) eager: bool,
    /// When its event is due.
    event_ns: u64,
    /// Workers that wait for room.
    waiting: Vec<WorkerId>,
    pub(crate) entered: u64,
    pub(crate) most: usize,
}

impl Port {
    pub(crate) fn new(
        line: Line,
        latency_ns: u64,
        capacity: u32,
        backlog: Option<Backlog>,
        drop_point: DropPointId,
    ) -> Self {
        Self {
            feed: Feed::default(),
            line,
            latency_ns,
            capacity: capacity as usize,
            backlog,
            admission: Table::default(),
            leaving: VecDeque::new(),
            free_ns: 0,
            asked_ns: 0,
            beyond: Table::default(),
            drop_point,
            eager: false,
            event_ns: NEVER,
            waiting: Vec::new(),
            entered: 0,
            most: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.leaving.len() + self.backlog.as_ref().map_or(0, Backlog::len)
    }

    #[inline]
    fn transmit(&mut self, frame: Frame, from_ns: u64) {
        self.free_ns = from_ns.max(self.free_ns) + self.line.transmission_ns(frame.bytes);
        self.leaving.push_back(Leaving { gone_ns: self.free_ns, frame });
    }

    /// With a scheduler: begins the first transmission that could begin by now, if any.
    #[inline]
    fn begin_next(&mut self, now_ns: u64) -> bool {
        let Some(backlog) = &mut self.backlog else { return false };
        loop {
            let at_ns = self.free_ns.max(self.asked_ns);
            if at_ns > now_ns || backlog.len() == 0 {
                return false;
            }
            match backlog.pop(at_ns) {
                Next::Packet(frame) => {
                    self.transmit(frame, at_ns);
                    return true;
                }
                Next::Wait { until_ns } => self.asked_ns = until_ns,
                Next::Empty => return false,
            }
        }
    }

    /// Whether the frame was taken.
    #[inline]
    fn accept(&mut self, frame: Frame, now_ns: u64) -> bool {
        if let Some(backlog) = &mut self.backlog {
            let idle = backlog.len() == 0;
            if !backlog.push(frame, now_ns) {
                return false;
            }
            if idle || self.asked_ns > now_ns {
                // It may go before those for which the scheduler said to wait.
                self.asked_ns = now_ns;
            }
            self.begin_next(now_ns);
            return true;
        }
        let room = self.leaving.len() < self.capacity;
        if room {
            self.transmit(frame, now_ns);
        }
        room
    }

    #[inline]
    fn has_room(&self, frame: &Frame) -> bool {
        match &self.backlog {
            Some(backlog) => backlog.has_room(frame),
            None => self.leaving.len() < self.capacity,
        }
    }

    pub(crate) fn drain(&mut self, mut tell: impl FnMut(FlowId)) {
        self.leaving.drain(..).for_each(|leaving| tell(leaving.frame.flow));
        if let Some(backlog) = &mut self.backlog {
            backlog.drain(tell);
        }
    }
}

impl Engine {
    /// Lets all frames come that are in their rings by now.
    pub(crate) fn advance_wire(&mut self, wire: WireId, now_ns: u64) {
        while self.wires[wire].due_ns <= now_ns {
            let (frame, ring, arrival_ns) = self.wires[wire].send();
            self.accounting.offer(frame.flow, frame.bytes, frame.stamp_ns);
            self.put_into_ring(ring, frame, arrival_ns);
        }
    }

    fn put_into_ring(&mut self, ring: RingId, frame: Frame, now_ns: u64) {
        let to = &mut self.rings[ring];
        to.entered += 1;
        if to.frames.len() + to.empty_slots >= to.capacity {
            let place = to.drop_point;
            self.lose(frame, place, now_ns);
            return;
        }
        to.frames.push_back(frame);
        to.most = to.most.max(to.frames.len());
    }

    /// Lets all frames come to the ring that are there by now.
    pub(crate) fn advance_ring(&mut self, ring: RingId, now_ns: u64) {
        let wire = self.rings[ring].wire;
        if self.wires[wire].due_ns <= now_ns {
            self.advance_wire(wire, now_ns);
        }
        while let Some(&(arrival_ns, frame)) = self.rings[ring].coming.front() {
            if arrival_ns > now_ns {
                break;
            }
            self.rings[ring].coming.pop_front();
            self.put_into_ring(ring, frame, arrival_ns);
        }
    }

    /// The ring is to raise an interrupt as soon as there is a frame and moderation allows it.
    pub(crate) fn arm(&mut self, ring: RingId, now_ns: u64) {
        self.rings[ring].armed = true;
        self.advance_ring(ring, now_ns);
        self.plan_check(ring, now_ns);
    }

    fn plan_check(&mut self, index: RingId, now_ns: u64) {
        let ring = &self.rings[index];
        let check_ns = if ring.frames.is_empty() {
            let from_port = ring.coming.front().map(|&(arrival_ns, _)| arrival_ns);
            let from_wire = self.wires[ring.wire].next_for(index);
            let first = from_port.into_iter().chain(from_wire).min();
            first.map(|first_ns| first_ns.max(ring.quiet_until_ns))
        } else {
            Some(ring.quiet_until_ns.max(now_ns))
        };
        self.rings[index].check_ns = check_ns.unwrap_or(NEVER);
        if let Some(check_ns) = check_ns {
            self.events.push(check_ns, Event::Ring(index));
        }
    }

    /// The time at which something may be in an armed ring.
    pub(crate) fn check_ring(&mut self, index: RingId, now_ns: u64) {
        if !self.rings[index].armed || self.rings[index].check_ns != now_ns {
            return;
        }
        self.advance_ring(index, now_ns);
        let ring = &mut self.rings[index];
        if ring.frames.is_empty() || ring.quiet_until_ns > now_ns {
            self.plan_check(index, now_ns);
            return;
        }
        ring.armed = false;
        ring.quiet_until_ns = now_ns + ring.moderation_ns;
        let (worker, cost_ns) = (ring.worker.expect("only served rings are armed"), ring.irq_ns);
        let core = self.core_of(self.workers[worker].context);
        self.interrupt(core, Work::Ring(index), cost_ns, now_ns);
    }

    /// Lets leave what has left by now.
    #[inline]
    pub(crate) fn advance_port(&mut self, port: PortId, now_ns: u64) {
        if self.ports[port].feed.next_ns() <= now_ns {
            self.advance_feed(port, now_ns);
        }
        self.advance_queue(port, now_ns);
    }

    fn advance_feed(&mut self, port: PortId, now_ns: u64) {
        while self.ports[port].feed.next_ns() <= now_ns {
            let (frame, ()) = self.ports[port].feed.pop();
            self.accounting.offer(frame.flow, frame.bytes, frame.stamp_ns);
            self.advance_queue(port, frame.stamp_ns);
            self.put_into_port(port, frame, frame.stamp_ns);
        }
    }

    #[inline]
    fn advance_queue(&mut self, index: PortId, now_ns: u64) {
        loop {
            let port = &mut self.ports[index];
            while port.begin_next(now_ns) {}
            let Some(&Leaving { gone_ns, frame }) = port.leaving.front() else { return };
            if gone_ns > now_ns {
                return;
            }
            port.leaving.pop_front();
            let arrival_ns = gone_ns + port.latency_ns;
            match port.beyond[frame.router] {
                Beyond::Receiver => {
                    self.accounting.receive(frame.flow, frame.bytes, frame.stamp_ns, arrival_ns);
                }
                Beyond::Ring(ring) => self.travel(ring, frame, arrival_ns, now_ns),
            }
            if frame.connection.is_some() {
                self.release(&frame, true, now_ns);
            }
        }
    }

    /// On to the ring of another NIC.
    fn travel(&mut self, index: RingId, frame: Frame, arrival_ns: u64, now_ns: u64) {
        let ring = &mut self.rings[index];
        ring.coming.push_back((arrival_ns, frame));
        if ring.armed && arrival_ns.max(ring.quiet_until_ns) < ring.check_ns {
            self.plan_check(index, now_ns);
        }
    }

    /// The frame may be dropped here.
    #[inline]
    pub(crate) fn send(&mut self, port: PortId, frame: Frame, now_ns: u64) {
        self.advance_port(port, now_ns);
        self.put_into_port(port, frame, now_ns);
    }

    #[inline]
    fn put_into_port(&mut self, index: PortId, frame: Frame, now_ns: u64) {
        let port = &mut self.ports[index];
        port.entered += 1;
        let let_in = admission::of(&mut port.admission, &frame).is_none_or(|admission| {
            let waiting = port.backlog.as_ref().map_or(port.leaving.len(), |b| b.waiting(&frame));
            admission.admits(waiting, &frame, &self.contexts, now_ns)
        });
        if !let_in || !port.accept(frame, now_ns) {
            let place = port.drop_point;
            self.lose(frame, place, now_ns);
            return;
        }
        port.most = port.most.max(port.len());
        if port.eager {
            self.plan_port(index);
        }
    }

    /// When an eager port has to look again: at the end of the transmission under way.
    fn plan_port(&mut self, index: PortId) {
        let port = &mut self.ports[index];
        let next_ns = match (&port.backlog, port.leaving.front()) {
            (_, Some(leaving)) => leaving.gone_ns,
            (Some(backlog), None) if backlog.len() > 0 => port.free_ns.max(port.asked_ns),
            _ => return,
        };
        if next_ns < port.event_ns {
            port.event_ns = next_ns;
            self.events.push(next_ns, Event::Port(index));
        }
    }

    pub(crate) fn port_due(&mut self, index: PortId, now_ns: u64) {
        if self.ports[index].event_ns != now_ns {
            return;
        }
        self.ports[index].event_ns = NEVER;
        self.advance_port(index, now_ns);
        let mut waiting = std::mem::take(&mut self.ports[index].waiting);
        waiting.drain(..).for_each(|waiting| self.raise(waiting, now_ns));
        // Raising lets nobody wait; what the list has reserved stays.
        self.ports[index].waiting = waiting;
        self.plan_port(index);
    }

    /// Whether the port would take the frame; if not, the worker is told when it may.
    #[inline]
    pub(crate) fn port_has_room(
        &mut self,
        index: PortId,
        frame: &Frame,
        worker: WorkerId,
        now_ns: u64,
    ) -> bool {
        self.advance_port(index, now_ns);
        let room = self.ports[index].has_room(frame);
        if !room && !self.ports[index].waiting.contains(&worker) {
            self.ports[index].waiting.push(worker);
            self.plan_port(index);
        }
        room
    }

    /// The frame ends here.
    #[inline]
    pub(crate) fn lose(&mut self, frame: Frame, place: DropPointId, now_ns: u64) {
        self.accounting.drop_at(place, frame.flow, frame.stamp_ns);
        if frame.connection.is_some() {
            self.release(&frame, true, now_ns);
        }
    }
}
