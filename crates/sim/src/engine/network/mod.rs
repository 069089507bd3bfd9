//! The network: wires, rings, queues and ports. It knows where frames are, how long they take on wires, and
//! where there is room; not who works on them, nor when ([`super::frame_path`]).

pub(crate) mod admission;
mod buffer;
pub(crate) mod line;
pub(crate) mod port;
pub(crate) mod qdisc;
pub(crate) mod queue;
pub(crate) mod ring;
mod shared_backlog;
pub(crate) mod sources;
pub(crate) mod wire;

use isolane_sched::{FlowSettings, Next};

use self::{
    buffer::{Buffer, Occupancy},
    port::{Beyond, Departure, Port},
    queue::Queue,
    ring::{Interrupt, Ring},
    shared_backlog::SharedBacklog,
    sources::Source,
    wire::Wire,
};
use super::{
    events::{Event, Events},
    frame::Frame,
    ids::{
        BacklogId, ContextId, DropPointId, FlowId, Id, PortId, QueueId, RingId, RouterId, Table,
        WireId, WorkerId,
    },
};

/// Where frames wait, and are dropped when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropPoint {
    Ring(RingId),
    Queue(QueueId),
    Port(PortId),
}

/// Where a worker puts frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Port(PortId),
    Queue(QueueId),
}

impl From<Output> for DropPoint {
    #[inline]
    fn from(output: Output) -> Self {
        match output {
            Output::Port(port) => Self::Port(port),
            Output::Queue(queue) => Self::Queue(queue),
        }
    }
}

/// What a queue gives to who serves it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    Frame(Frame),
    /// Nothing, but its packet scheduler says to ask again then.
    AskAgain(u64),
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    wires: Table<WireId, Wire>,
    rings: Table<RingId, Ring>,
    queues: Table<QueueId, Queue>,
    backlogs: Table<BacklogId, SharedBacklog>,
    ports: Table<PortId, Port>,
}

/// Building.
impl Network {
    pub(crate) fn add_wire(&mut self, wire: Wire) -> WireId {
        self.wires.push(wire)
    }

    pub(crate) fn add_ring(&mut self, ring: Ring) {
        self.rings.push(ring);
    }

    pub(crate) fn add_queue(&mut self, queue: Queue) {
        self.queues.push(queue);
    }

    pub(crate) fn add_port(&mut self, port: Port) {
        self.ports.push(port);
    }

    /// The shared backlog of this name; made when it is first named.
    pub(crate) fn backlog(&mut self, name: &str, capacity: u32) -> BacklogId {
        let known = self.backlogs.enumerate().find(|(_, backlog)| backlog.name() == name);
        match known.map(|(backlog, _)| backlog) {
            Some(backlog) => backlog,
            None => self.backlogs.push(SharedBacklog::new(name.to_owned(), capacity)),
        }
    }

    pub(crate) fn shared_backlog(&self, backlog: BacklogId) -> &SharedBacklog {
        &self.backlogs[backlog]
    }

    pub(crate) fn add_ring_source(&mut self, ring: RingId, source: Source<RingId>) {
        let wire = self.rings[ring].wire;
        self.wires[wire].add_source(source);
    }

    pub(crate) fn add_port_source(&mut self, port: PortId, source: Source<()>) {
        self.ports[port].add_source(source);
    }

    /// This router's frames go on from the port to another host's ring.
    pub(crate) fn connect(&mut self, port: PortId, router: RouterId, ring: RingId) {
        self.ports[port].connect(router, ring);
    }

    /// Senders wait until their frames have been sent.
    pub(crate) fn tell_senders(&mut self) {
        self.ports.iter_mut().for_each(Port::tell_senders);
    }

    pub(crate) fn poller_of_ring(&mut self, ring: RingId) -> &mut Option<WorkerId> {
        &mut self.rings[ring].worker
    }

    pub(crate) fn server_of_queue(&mut self, queue: QueueId) -> &mut Option<WorkerId> {
        &mut self.queues[queue].worker
    }

    pub(crate) fn poller_of_backlog(&mut self, backlog: BacklogId) -> &mut Option<WorkerId> {
        &mut self.backlogs[backlog].poller
    }

    pub(crate) fn backlog_of(&self, queue: QueueId) -> Option<BacklogId> {
        self.queues[queue].shared
    }

    /// Whether this router's frames must keep anything to get into the queue.
    pub(crate) fn has_admission(&self, queue: QueueId, router: RouterId) -> bool {
        self.queues[queue].admissions.has(router)
    }
}

/// The one way into a ring, a queue or a port.
impl Network {
    /// Puts a frame where it waits next; whether it was taken. `cpu_ns`: the CPU time that a context has had.
    #[expect(
        clippy::inline_always,
        reason = "the kind of drop point is known where it is called: 5 % faster"
    )]
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        at: DropPoint,
        frame: Frame,
        cpu_ns: impl FnOnce(ContextId) -> u64,
        now_ns: u64,
    ) -> bool {
        match at {
            DropPoint::Ring(ring) => self.rings[ring].put(frame, now_ns),
            DropPoint::Queue(queue) => self.put_into_queue(queue, frame, now_ns),
            DropPoint::Port(port) => {
                let port = &mut self.ports[port];
                if port.admit(&frame, cpu_ns, now_ns) {
                    return port.put(frame, now_ns);
                }
                port.occupancy_mut().entered += 1;
                false
            }
        }
    }

    #[inline]
    fn put_into_queue(&mut self, queue: QueueId, frame: Frame, now_ns: u64) -> bool {
        let queue = &mut self.queues[queue];
        let Some(backlog) = queue.shared else { return queue.put(frame, now_ns) };
        let backlog = &mut self.backlogs[backlog];
        if !backlog.has_space() {
            queue.occupancy_mut().entered += 1;
            return false;
        }
        let taken = queue.put(frame, now_ns);
        if let (true, Some(worker)) = (taken, queue.worker) {
            backlog.push(worker);
        }
        taken
    }

    /// Whether a stage that looks before it works may work on the frame: there is room for it in the queue, and
    /// the queue lets it in. If not, it counts as come and gone.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        queue: QueueId,
        frame: &Frame,
        cpu_ns: impl FnOnce(ContextId) -> u64,
        now_ns: u64,
    ) -> bool {
        let fits = self.queue_has_space(queue, frame);
        let queue = &mut self.queues[queue];
        let qdisc = &queue.qdisc;
        let admitted =
            fits && queue.admissions.admit(frame, || qdisc.waiting(frame), cpu_ns, now_ns);
        if !admitted {
            queue.occupancy_mut().entered += 1;
        }
        admitted
    }

    /// Whether a frame would find room in a queue: in its backlog, where it is part of one.
    #[inline]
    pub(crate) fn queue_has_space(&self, queue: QueueId, frame: &Frame) -> bool {
        let queue = &self.queues[queue];
        match queue.shared {
            Some(backlog) => self.backlogs[backlog].has_space(),
            None => queue.qdisc.has_space(frame),
        }
    }

    /// Whether there would be room for a frame where a worker puts it next.
    #[inline]
    pub(crate) fn has_space(&self, output: Output, frame: &Frame) -> bool {
        match output {
            Output::Port(port) => self.ports[port].has_space(frame),
            Output::Queue(queue) => self.queue_has_space(queue, frame),
        }
    }

    /// The worker is to be woken when there may be room.
    pub(crate) fn wait_for_space(&mut self, output: Output, worker: WorkerId, events: &mut Events) {
        let waiting = self.waiting(output);
        if waiting.contains(&worker) {
            return;
        }
        waiting.push(worker);
        if let Output::Port(port) = output {
            self.plan_port(port, events);
        }
    }

    fn waiting(&mut self, output: Output) -> &mut Vec<WorkerId> {
        match output {
            Output::Port(port) => &mut self.ports[port].waiting,
            Output::Queue(queue) => &mut self.queues[queue].waiting,
        }
    }

    /// Workers that wait for room, to be woken; the list goes back by [`Self::return_list`].
    #[inline]
    pub(crate) fn take_waiting(&mut self, output: Output) -> Option<Vec<WorkerId>> {
        let waiting = self.waiting(output);
        (!waiting.is_empty()).then(|| std::mem::take(waiting))
    }

    /// Waking lets nobody wait; what the list has reserved stays.
    pub(crate) fn return_list(&mut self, output: Output, mut list: Vec<WorkerId>) {
        list.clear();
        *self.waiting(output) = list;
    }
}

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

    /// A frame goes on from a port to another host's ring, where it will be then.
    pub(crate) fn go_on(
        &mut self,
        ring: RingId,
        departure: &Departure,
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

/// Queues and backlogs.
impl Network {
    /// Who is woken when a frame comes into a queue, and what that costs.
    #[inline]
    pub(crate) fn consumer_of(&self, queue: QueueId) -> (WorkerId, u64) {
        let queue = &self.queues[queue];
        let consumer = match queue.shared {
            Some(backlog) => self.backlogs[backlog].poller,
            None => queue.worker,
        };
        (consumer.expect("a path leads through the queue"), queue.notify_ps)
    }

    /// Who polls the ring; its interrupt schedules that.
    pub(crate) fn poller(&self, ring: RingId) -> WorkerId {
        self.rings[ring].worker.expect("only a ring that is polled is armed")
    }

    #[inline]
    pub(crate) fn has_back_pressure(&self, queue: QueueId) -> bool {
        self.queues[queue].back_pressure
    }

    #[inline]
    pub(crate) fn take_from_queue(&mut self, queue: QueueId, now_ns: u64) -> Taken {
        match self.queues[queue].qdisc.dequeue(now_ns) {
            Next::Packet(frame) => Taken::Frame(frame),
            Next::Wait { until_ns } => Taken::AskAgain(until_ns),
            Next::Empty => Taken::Nothing,
        }
    }

    /// Where nothing is left of what a poll of the backlog took over: takes over all that has come; whether it
    /// did, so that there is room now.
    #[inline]
    pub(crate) fn take_over(&mut self, backlog: BacklogId) -> bool {
        self.backlogs[backlog].take_over()
    }

    /// Whose queue the backlog's next frame is in.
    #[inline]
    pub(crate) fn pop_from_backlog(&mut self, backlog: BacklogId) -> Option<WorkerId> {
        self.backlogs[backlog].pop()
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> + use<> {
        self.queues.ids()
    }
}

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

/// Beginning, changes, the end.
impl Network {
    /// All sources are there.
    pub(crate) fn begin(&mut self) {
        self.wires.iter_mut().for_each(Wire::begin);
        self.ports.iter_mut().for_each(Port::begin);
    }

    pub(crate) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        for wire in &mut self.wires {
            wire.set_rate(flow, rate_millipps);
        }
        for port in &mut self.ports {
            port.set_rate(flow, rate_millipps);
        }
    }

    /// A flow's settings change in a packet scheduler; who serves the queue, if it is one, may go on.
    pub(crate) fn set_flow(
        &mut self,
        at: DropPoint,
        flow: u32,
        settings: FlowSettings,
        now_ns: u64,
    ) -> Option<WorkerId> {
        match at {
            DropPoint::Port(port) => {
                if let Some(qdisc) = self.ports[port].qdisc_mut() {
                    qdisc.set(flow, settings, now_ns);
                }
                None
            }
            DropPoint::Queue(queue) => {
                self.queues[queue].qdisc.set(flow, settings, now_ns);
                self.queues[queue].worker
            }
            DropPoint::Ring(_) => None,
        }
    }

    /// The row of the results: rings, then queues, then ports.
    #[inline]
    pub(crate) fn drop_point(&self, at: DropPoint) -> DropPointId {
        let (rings, queues) = (self.rings.len(), self.queues.len());
        DropPointId::at(match at {
            DropPoint::Ring(ring) => ring.index(),
            DropPoint::Queue(queue) => rings + queue.index(),
            DropPoint::Port(port) => rings + queues + port.index(),
        })
    }

    /// What came into it and was there, and the number of frames that are there now.
    pub(crate) fn occupancy(&self, at: DropPoint) -> (Occupancy, usize) {
        let buffer: &dyn Buffer = match at {
            DropPoint::Ring(ring) => &self.rings[ring],
            DropPoint::Queue(queue) => &self.queues[queue],
            DropPoint::Port(port) => &self.ports[port],
        };
        (buffer.occupancy(), buffer.len())
    }

    /// Takes out all frames that are still somewhere, and tells their flows.
    pub(crate) fn drain(&mut self, tell: &mut impl FnMut(FlowId)) {
        for ring in &mut self.rings {
            ring.drain().for_each(|frame| tell(frame.flow));
        }
        self.queues.iter_mut().for_each(|queue| queue.qdisc.drain(&mut *tell));
        self.ports.iter_mut().for_each(|port| port.drain(&mut *tell));
    }
}
