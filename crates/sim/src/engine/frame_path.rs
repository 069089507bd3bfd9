//! A frame's way through the host, from top to bottom: wire, receive ring, interrupt, poll, work, queue or port,
//! wire again. Each step asks the part of the host that it concerns, and nothing here has state of its own:
//!
//! - [`Network`]: where frames are, and where there is room;
//! - [`Cpu`]: who has which core, and when a piece of work is done;
//! - [`Workers`]: what is done with a frame, and what that costs;
//! - [`FrameAccounting`]: what became of it;
//! - [`Events`]: what happens at a time of its own.
//!
//! `docs/simulator/engine.md` walks through it.

use isolane_sched::FlowSettings;

use super::{
    accounting::FrameAccounting,
    cpu::{Ask, Cpu, Job, Polled, Work},
    events::{Event, Events},
    frame::Frame,
    ids::{
        BacklogId, ConnectionId, ContextId, CoreId, DropPointId, FlowId, Id, LoadId, PortId,
        QueueId, RingId, Table, WireId, WorkerId,
    },
    load::Pause,
    network::{DropPoint, Network, Output, Taken, port::Beyond},
    senders::Sending,
    workers::{Input, Worker, Workers},
};

/// The parts that a frame passes.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) events: Events,
    pub(crate) cpu: Cpu,
    pub(crate) network: Network,
    pub(crate) workers: Workers,
    pub(crate) accounting: FrameAccounting,
}

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
    fn advance_ring(&mut self, ring: RingId, now_ns: u64) {
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

/// 3. A core: works, asks for more of a poll, and is done.
impl Host {
    /// Gives a core something to do, and answers what it asks.
    pub(crate) fn dispatch(&mut self, core: CoreId, now_ns: u64) {
        loop {
            let (worker, job) = match self.cpu.next(core, &mut self.events, now_ns) {
                Ask::Nothing => return,
                Ask::Begin(worker) => (worker, self.begin_poll(worker, now_ns)),
                Ask::Continue(worker) => (worker, self.continue_poll(worker, now_ns)),
            };
            if let Some(job) = job {
                self.cpu.start(core, job, now_ns);
                return;
            }
            let polled = self.end_poll(worker, now_ns);
            self.cpu.end_poll(core, polled, &mut self.events, now_ns);
        }
    }

    /// Lets the cores choose anew for which that is pending, after an event or a piece of work.
    #[inline]
    pub(crate) fn reschedule(&mut self, now_ns: u64) {
        while let Some(core) = self.cpu.reschedule(now_ns) {
            self.dispatch(core, now_ns);
        }
    }

    /// A core's work at hand is done.
    #[inline]
    pub(crate) fn complete(&mut self, core: CoreId, now_ns: u64) {
        match self.cpu.complete(core, now_ns) {
            Work::Frame(worker) => self.finish_frame(core, worker, now_ns),
            Work::Load(load) => self.finish_load(load, now_ns),
            Work::Ring(ring) => self.schedule_poll(self.network.poller(ring), now_ns),
            Work::Poll(_) | Work::Refuse(_) | Work::Notify(_) | Work::Overhead(_) | Work::Tick => {}
        }
        self.dispatch(core, now_ns);
    }
}

/// 4. A poll: frames are taken, one after the other; it is over when a step has no job.
///
/// Costs that are not a frame's own (of the poll, of waking others) are paid together with the next frame's, where
/// there is one: one event less.
impl Host {
    #[inline]
    fn begin_poll(&mut self, worker: WorkerId, now_ns: u64) -> Option<Job> {
        let Some(poll_ns) = self.workers[worker].begin_poll() else {
            return self.continue_poll(worker, now_ns);
        };
        let job = self.continue_poll(worker, now_ns);
        Some(paid_with(job, Work::Poll(worker), poll_ns))
    }

    #[inline]
    fn continue_poll(&mut self, worker: WorkerId, now_ns: u64) -> Option<Job> {
        let Some(deferred_ns) = self.workers[worker].pay_deferred() else {
            return self.next_job(worker, now_ns);
        };
        let job = self.next_job(worker, now_ns);
        Some(paid_with(job, Work::Notify(worker), deferred_ns))
    }

    #[inline]
    fn next_job(&mut self, worker: WorkerId, now_ns: u64) -> Option<Job> {
        if self.workers[worker].is_batch_full() {
            return None;
        }
        let frame = match self.workers[worker].input {
            Input::Ring(ring) => self.take_from_ring(ring, now_ns),
            Input::Queue(queue) => self.take_from_queue(worker, queue, now_ns),
            Input::Backlog(backlog) => return self.poll_backlog(worker, backlog, now_ns),
            Input::Connection(connection) => self.take_from_connection(connection, now_ns),
            Input::Load(load) => return self.next_of_load(load, now_ns),
        };
        Some(self.take_on(worker, frame?, now_ns))
    }

    /// The worker's poll is over. If it wants no other one, it is scheduled again when there is work; a ring then
    /// needs its interrupt again.
    #[inline]
    fn end_poll(&mut self, worker: WorkerId, now_ns: u64) -> Polled {
        let Worker { input, .. } = self.workers[worker];
        let again = self.workers[worker].is_batch_full();
        if !again {
            self.cpu.complete_poll(worker);
            if let Input::Ring(ring) = input {
                self.arm(ring, now_ns);
            }
        }
        Polled { frames: self.workers[worker].polled(), again }
    }

    fn take_from_ring(&mut self, ring: RingId, now_ns: u64) -> Option<Frame> {
        self.advance_ring(ring, now_ns);
        self.network.pop_from_ring(ring)
    }

    #[inline]
    fn take_from_queue(&mut self, worker: WorkerId, queue: QueueId, now_ns: u64) -> Option<Frame> {
        if self.network.has_back_pressure(queue) && !self.has_space_for_all(worker, now_ns) {
            return None;
        }
        let mut frame = match self.network.take_from_queue(queue, now_ns) {
            Taken::Frame(frame) => frame,
            Taken::AskAgain(at_ns) => {
                self.plan_retry(worker, at_ns);
                return None;
            }
            Taken::Nothing => return None,
        };
        self.wake_waiting(Output::Queue(queue), now_ns);
        if let Some(connection) = frame.connection
            && !self.workers[connection].released_when_sent
        {
            self.release(connection, now_ns);
            frame.connection = None;
        }
        Some(frame)
    }

    /// The next frame of a shared backlog: the worker in whose queue it is works on it.
    fn poll_backlog(&mut self, poller: WorkerId, backlog: BacklogId, now_ns: u64) -> Option<Job> {
        if self.network.take_over(backlog) {
            for queue in self.network.queues() {
                if self.network.backlog_of(queue) == Some(backlog) {
                    self.wake_waiting(Output::Queue(queue), now_ns);
                }
            }
        }
        let worker = self.network.pop_from_backlog(backlog)?;
        self.workers[poller].count();
        self.workers[worker].poll_for_backlog();
        self.continue_poll(worker, now_ns)
    }

    #[inline]
    fn take_from_connection(&mut self, id: ConnectionId, now_ns: u64) -> Option<Frame> {
        let connection = &self.workers[id];
        let worker = connection.worker;
        let frame = match connection.next(id, now_ns) {
            Sending::Ready(frame) => frame,
            Sending::Later(at_ns) => {
                self.plan_retry(worker, at_ns);
                return None;
            }
            Sending::Blocked => return None,
        };
        let output = self.workers[worker].segment(frame.router).output;
        if !self.has_space(output, &frame, worker, now_ns) {
            return None;
        }
        self.workers[id].sent(now_ns);
        self.accounting.offer(frame.flow, frame.bytes, now_ns);
        Some(frame)
    }

    /// Whether there is room behind a stage that looks for it, for a frame of any router.
    fn has_space_for_all(&mut self, worker: WorkerId, now_ns: u64) -> bool {
        self.workers[worker].segments.ids().all(|router| {
            let Some(segment) = &self.workers[worker].segments[router] else { return true };
            let output = segment.output;
            let frame =
                Frame { stamp_ns: 0, flow: FlowId::at(0), router, bytes: 0, connection: None };
            self.has_space(output, &frame, worker, now_ns)
        })
    }

    /// Whether there is fits; if not, the worker is woken when there may be.
    #[inline]
    fn has_space(&mut self, output: Output, frame: &Frame, worker: WorkerId, now_ns: u64) -> bool {
        if let Output::Port(port) = output {
            self.advance_port(port, now_ns);
        }
        let fits = self.network.has_space(output, frame);
        if !fits {
            self.network.wait_for_space(output, worker, &mut self.events);
        }
        fits
    }

    /// Wakes the workers that wait for fits: there may be some.
    #[inline]
    fn wake_waiting(&mut self, output: Output, now_ns: u64) {
        if let Some(waiting) = self.network.take_waiting(output) {
            for &worker in &waiting {
                self.schedule_poll(worker, now_ns);
            }
            self.network.return_list(output, waiting);
        }
    }
}

/// 5. The work on a frame, or on refusing it.
impl Host {
    #[inline]
    fn take_on(&mut self, worker: WorkerId, frame: Frame, now_ns: u64) -> Job {
        let segment = self.workers[worker].segment(frame.router);
        let output = segment.output;
        if let (Some(drop_ps), Output::Queue(queue)) = (segment.drop_ps, output)
            && !self.admit(queue, &frame, now_ns)
        {
            let drop_point = self.network.drop_point(DropPoint::Queue(queue));
            self.lose(drop_point, frame, now_ns);
            let cost_ns = self.workers[worker].refuse(frame.router, drop_ps);
            return Job { work: Work::Refuse(worker), cost_ns };
        }
        let notify_ps = self.wake_up_ps(output);
        let cpu = &mut self.cpu;
        let finds_cold = || cpu.finds_cold_caches(worker, frame.router);
        let cost_ns = self.workers[worker].take_on(frame, notify_ps, finds_cold);
        Job { work: Work::Frame(worker), cost_ns }
    }

    /// For a stage that looks before it works: whether the queue behind it has room and lets the frame in.
    #[inline]
    fn admit(&mut self, queue: QueueId, frame: &Frame, now_ns: u64) -> bool {
        let cpu = &self.cpu;
        self.network.admit(queue, frame, |context| cpu.ran_ns(context), now_ns)
    }

    /// What it will cost to wake the next context for a frame, if that sleeps now: paid before the
    /// frame is there.
    #[inline]
    fn wake_up_ps(&self, output: Output) -> u64 {
        let Output::Queue(queue) = output else { return 0 };
        let (consumer, notify_ps) = self.network.consumer_of(queue);
        if self.cpu.is_scheduled(consumer) { 0 } else { notify_ps }
    }

    /// The frame at hand is done: on to where it goes.
    #[inline]
    fn finish_frame(&mut self, core: CoreId, worker: WorkerId, now_ns: u64) {
        // Not where a guest puts frames into a NIC of its own.
        if !matches!(self.workers[worker].input, Input::Ring(_)) {
            self.cpu.enable_softirqs(core);
        }
        let (frame, segment) = self.workers[worker].finish();
        let output = segment.output;
        for &stage in &segment.captures {
            self.accounting.capture(stage, frame.flow, frame.stamp_ns, now_ns);
        }
        match output {
            Output::Port(port) => self.send(port, frame, now_ns),
            Output::Queue(queue) => self.hand_on(queue, frame, worker, now_ns),
        }
    }
}

/// 6. Into the next ring, queue or port.
impl Host {
    /// Puts a frame where it waits next, or drops it if there is no room: the one way into a ring, queue or port.
    #[expect(
        clippy::inline_always,
        reason = "the kind of drop point is known where it is called: 5 % faster"
    )]
    #[inline(always)]
    fn put(&mut self, at: DropPoint, frame: Frame, now_ns: u64) -> bool {
        let cpu = &self.cpu;
        let taken = self.network.put(at, frame, |context| cpu.ran_ns(context), now_ns);
        if !taken {
            self.lose(self.network.drop_point(at), frame, now_ns);
        }
        taken
    }

    /// To the next worker, which is woken.
    #[inline]
    fn hand_on(&mut self, queue: QueueId, frame: Frame, producer: WorkerId, now_ns: u64) {
        if !self.put(DropPoint::Queue(queue), frame, now_ns) {
            return;
        }
        let (consumer, notify_ps) = self.network.consumer_of(queue);
        if !self.cpu.is_scheduled(consumer) {
            self.workers[producer].defer_wake_up(notify_ps);
            self.schedule_poll(consumer, now_ns);
        }
    }

    /// To a port.
    #[inline]
    fn send(&mut self, port: PortId, frame: Frame, now_ns: u64) {
        self.advance_port(port, now_ns);
        self.put_into_port(port, frame, now_ns);
    }

    #[inline]
    fn put_into_port(&mut self, port: PortId, frame: Frame, now_ns: u64) {
        if self.put(DropPoint::Port(port), frame, now_ns) {
            self.network.plan_departure(port, &mut self.events);
        }
    }
}

/// 7. Out of a port: to the receiver, or to another host's ring, where it goes on at 1.
impl Host {
    /// Brings a port up to now: takes in what its own sources have sent, and completes departures.
    #[inline]
    pub(crate) fn advance_port(&mut self, port: PortId, now_ns: u64) {
        while let Some(frame) = self.network.next_from_source(port, now_ns) {
            self.accounting.offer(frame.flow, frame.bytes, frame.stamp_ns);
            self.depart(port, frame.stamp_ns, now_ns);
            self.put_into_port(port, frame, frame.stamp_ns);
        }
        self.depart(port, now_ns, now_ns);
    }

    /// Completes the port's departures until then. Senders that wait for them are woken now.
    #[inline]
    fn depart(&mut self, port: PortId, until_ns: u64, now_ns: u64) {
        while let Some(mut departure) = self.network.next_departure(port, until_ns) {
            // It leaves its socket buffer here, also where it goes on to another host.
            let connection = departure.frame.connection.take();
            let frame = departure.frame;
            match self.network.beyond(port, frame.router) {
                Beyond::Receiver => {
                    let arrival_ns = departure.arrival_ns;
                    self.accounting.receive(frame.flow, frame.bytes, frame.stamp_ns, arrival_ns);
                }
                Beyond::Ring(ring) => {
                    self.network.go_on(ring, &departure, &mut self.events, now_ns);
                }
            }
            if let Some(connection) = connection {
                self.release(connection, now_ns);
            }
        }
    }

    /// A departure that a sender or another host's ring waits for may be due.
    pub(crate) fn port_due(&mut self, port: PortId, now_ns: u64) {
        if self.network.port_is_due(port, now_ns) {
            self.advance_port(port, now_ns);
            self.wake_waiting(Output::Port(port), now_ns);
            self.network.plan_port(port, &mut self.events);
        }
    }
}

/// 8. The end of a frame.
impl Host {
    /// It is dropped.
    #[inline]
    fn lose(&mut self, drop_point: DropPointId, frame: Frame, now_ns: u64) {
        self.accounting.drop_at(drop_point, frame.flow, frame.stamp_ns);
        if let Some(connection) = frame.connection {
            self.release(connection, now_ns);
        }
    }

    /// It leaves its sender's socket buffer: there is room for another one.
    #[inline]
    fn release(&mut self, connection: ConnectionId, now_ns: u64) {
        let connection = &mut self.workers[connection];
        connection.in_flight -= 1;
        let worker = connection.worker;
        self.schedule_poll(worker, now_ns);
    }
}

/// Loads: work without frames.
impl Host {
    #[inline]
    fn next_of_load(&mut self, id: LoadId, now_ns: u64) -> Option<Job> {
        let cost_ns = self.workers[id].next(now_ns)?;
        let worker = self.workers[id].worker;
        self.workers[worker].count();
        Some(Job { work: Work::Load(id), cost_ns })
    }

    fn finish_load(&mut self, id: LoadId, now_ns: u64) {
        let load = &mut self.workers[id];
        let Some(Pause { until_ns, blocks }) = load.finish(now_ns) else { return };
        self.events.push(until_ns, Event::Load(id));
        if blocks {
            self.events.push(until_ns, Event::Unblock(id));
            self.cpu.block(load.worker);
        }
    }

    /// A load begins, or a piece of its work is there again.
    pub(crate) fn load_due(&mut self, id: LoadId, now_ns: u64) {
        let load = &mut self.workers[id];
        let worker = load.worker;
        if load.wake(now_ns) {
            self.schedule_poll(worker, now_ns);
        }
    }

    /// A load's disk request does not hold up its context any more.
    pub(crate) fn unblock(&mut self, id: LoadId, now_ns: u64) {
        let worker = self.workers[id].worker;
        self.cpu.unblock(worker, &mut self.events, now_ns);
    }
}

/// The whole host at once.
impl Host {
    /// A worker whose polls run in this context.
    pub(crate) fn add_worker(&mut self, context: ContextId, worker: Worker) -> WorkerId {
        self.workers.add(worker);
        self.cpu.add_poll(context)
    }

    /// The first events of rings and senders.
    pub(crate) fn begin(&mut self) {
        self.network.begin();
        for ring in self.network.polled_rings().collect::<Vec<_>>() {
            self.arm(ring, 0);
        }
        for id in self.workers.connections().ids() {
            let connection = &self.workers[id];
            let (worker, due_ns) = (connection.worker, connection.due_ns);
            self.plan_retry(worker, due_ns);
        }
        for (id, load) in self.workers.loads().enumerate() {
            self.events.push(load.start_ns, Event::Load(id));
        }
    }

    /// Brings all wires and ports up to now.
    pub(crate) fn catch_up(&mut self, now_ns: u64) {
        for wire in self.network.wires() {
            self.advance_wire(wire, now_ns);
        }
        for port in self.network.ports() {
            self.advance_port(port, now_ns);
        }
    }

    /// From now on a flow comes at this rate.
    pub(crate) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64, now_ns: u64) {
        self.catch_up(now_ns);
        self.network.set_rate(flow, rate_millipps);
        self.workers.set_rate(flow, rate_millipps);
    }

    /// From now on a flow has these settings in a packet scheduler.
    pub(crate) fn set_flow(
        &mut self,
        at: DropPoint,
        flow: u32,
        settings: FlowSettings,
        now_ns: u64,
    ) {
        if let DropPoint::Port(port) = at {
            self.advance_port(port, now_ns);
        }
        if let Some(worker) = self.network.set_flow(at, flow, settings, now_ns) {
            self.schedule_poll(worker, now_ns);
        }
    }

    /// How much of the work that a context has at hand is done already, and how much that it is
    /// charged for is still to be done, ns: the difference.
    pub(crate) fn under_way_ns(&self, context: ContextId) -> i64 {
        let jobs = self.cpu.at_hand(context).into_iter();
        let progress_ns: i64 = jobs.map(|job| self.progress_ns(job)).sum();
        progress_ns - signed(self.cpu.overhead_ns(context))
    }

    /// Positive: done but not yet charged. Negative: charged but not yet done.
    fn progress_ns(&self, rest: Job) -> i64 {
        let whole_ns = match rest.work {
            Work::Frame(worker) => self.workers[worker].frame_ns(),
            Work::Load(load) => self.workers[load].piece_ns,
            Work::Poll(_)
            | Work::Refuse(_)
            | Work::Notify(_)
            | Work::Overhead(_)
            | Work::Ring(_)
            | Work::Tick => 0,
        };
        signed(whole_ns) - signed(rest.cost_ns)
    }

    /// The window begins: CPU time counts from here.
    pub(crate) fn begin_window(&mut self, now_ns: u64) {
        self.cpu.cut(now_ns);
        self.workers.begin_window();
        let ids = self.cpu.contexts().ids();
        let under_way_ns: Table<ContextId, i64> = ids.map(|id| self.under_way_ns(id)).collect();
        self.cpu.begin_window(&under_way_ns);
    }

    /// Takes out all frames that are still somewhere: how many, by flow.
    pub(crate) fn drain(&mut self, flows: usize) -> Table<FlowId, u64> {
        let mut left = Table::filled(0, flows);
        let mut tell = |flow: FlowId| left[flow] += 1;
        self.network.drain(&mut tell);
        self.workers.drain(&mut tell);
        left
    }
}

/// A cost that is paid together with a job, or else is a job of its own.
#[inline]
fn paid_with(job: Option<Job>, otherwise: Work, cost_ns: u64) -> Job {
    match job {
        Some(Job { work, cost_ns: own_ns }) => Job { work, cost_ns: own_ns + cost_ns },
        None => Job { work: otherwise, cost_ns },
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(0)
}
