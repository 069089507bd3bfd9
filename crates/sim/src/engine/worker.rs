//! Workers: what takes frames from one place, works on them, and puts them into the next. A worker is a
//! stage with a ring or a queue, together with the stages that follow it without one; or a
//! connection of a sender; or a load.

use isolane_sched::Next;

use super::{
    Engine,
    admission::Admission,
    backlog::Backlog,
    events::Event,
    ids::{
        BacklogId, ConnectionId, ContextId, DropPointId, FlowId, Id, LoadId, PortId, QueueId,
        RingId, RouterId, StageId, Table, WorkerId,
    },
    sources::Frame,
};

/// Picoseconds: what is left of costs that are no whole number of ns is carried.
pub(crate) const PS: u64 = 1_000;

/// Where a worker's frames come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Ring(RingId),
    Queue(QueueId),
    /// A backlog that several stages share.
    Shared(BacklogId),
    Connection(ConnectionId),
    Load(LoadId),
}

/// Where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Port(PortId),
    Queue(QueueId),
}

/// What a worker does with a router's frames.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) frame_ps: u64,
    pub(crate) byte_ps: u64,
    pub(crate) cold_ps: u64,
    /// The first stage looks for a place behind it before it works; a frame without costs this.
    pub(crate) drop_ps: Option<u64>,
    pub(crate) exit: Exit,
    /// The stages in it.
    pub(crate) stages: Vec<StageId>,
    /// Those of them that capture.
    pub(crate) captures: Vec<StageId>,
    /// For the bill, in the window.
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) colds: u64,
    /// Not in `frames`.
    pub(crate) refused: u64,
}

impl Route {
    #[inline]
    pub(crate) fn cost_ps(&self, frame: &Frame) -> u64 {
        self.frame_ps + self.byte_ps * u64::from(frame.bytes)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) context: ContextId,
    pub(crate) input: Input,
    pub(crate) batch: u32,
    pub(crate) poll_ps: u64,
    /// By router.
    pub(crate) routes: Table<RouterId, Option<Route>>,
    /// The first stage; none for a load.
    pub(crate) stage: Option<StageId>,
    /// On its context's list, or in the middle of a poll.
    pub(crate) pending: bool,
    /// Frames of this poll so far.
    pub(crate) polled: u32,
    /// The frame at hand.
    pub(crate) frame: Option<Frame>,
    /// Whether it finds caches cold.
    pub(crate) cold: bool,
    /// Whether the cost of waking the next context is part of it.
    pub(crate) noticed: bool,
    /// Part of a ns not yet spent.
    pub(crate) remainder_ps: u64,
    /// Work that must be done before the next frame: waking others.
    pub(crate) debt_ps: u64,
    /// When it is raised at the latest, if that is planned.
    pub(crate) retry_ns: u64,
    /// For the bill, in the window.
    pub(crate) polls: u64,
    pub(crate) notify_ps: u64,
}

impl Worker {
    /// What it does with this frame.
    #[inline]
    fn route(&self, frame: &Frame) -> &Route {
        self.routes[frame.router].as_ref().expect("frames follow paths")
    }

    /// Whole ns of this cost; the rest is carried.
    #[inline]
    pub(crate) fn spend(&mut self, cost_ps: u64) -> u64 {
        let ps = cost_ps + self.remainder_ps;
        self.remainder_ps = ps % PS;
        ps / PS
    }
}

/// A queue before a worker.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) backlog: Backlog,
    /// None while no path leads through it.
    pub(crate) worker: Option<WorkerId>,
    pub(crate) drop_point: DropPointId,
    /// The backlog that decides when its frames are served, and how many may wait.
    pub(crate) shared: Option<BacklogId>,
    pub(crate) back_pressure: bool,
    pub(crate) notify_ps: u64,
    /// By router; empty: all are welcome.
    pub(crate) admission: Table<RouterId, Option<Box<Admission>>>,
    /// Workers that wait for room.
    pub(crate) waiting: Vec<WorkerId>,
    pub(crate) entered: u64,
    pub(crate) most: usize,
}

/// A connection of a sender.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) worker: WorkerId,
    pub(crate) flow: FlowId,
    pub(crate) router: RouterId,
    pub(crate) sizes: super::sources::Sizes,
    /// Sent, but not yet out of the socket buffer.
    pub(crate) in_flight: u32,
    pub(crate) window: u32,
    pub(crate) released_when_sent: bool,
    pub(crate) pace: Option<super::sources::Pace>,
    pub(crate) catch_up_ns: u64,
    /// When it wants to send next.
    pub(crate) due_ns: u64,
    pub(crate) stop_ns: u64,
    /// The next frame's size.
    pub(crate) bytes: u16,
}

/// What a worker does next in its poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// This work, for so long, ns.
    Work(Work, u64),
    /// The poll is over.
    Over,
}

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The cost of a poll itself.
    Poll(WorkerId),
    /// One frame.
    Frame(WorkerId),
    /// One frame that there is no place for.
    Refuse(WorkerId),
    /// Waking the next context.
    Notify(WorkerId),
    /// A piece of a load.
    Load(LoadId),
    /// A switch to this context, or its waking up.
    Overhead(ContextId),
    /// An interrupt of this ring.
    Ring(RingId),
    /// A timer tick.
    Tick,
}

impl Engine {
    /// Begins a poll.
    #[inline]
    pub(crate) fn begin_poll(&mut self, index: WorkerId, now_ns: u64) -> Step {
        let worker = &mut self.workers[index];
        worker.polled = 0;
        worker.polls += 1;
        if worker.poll_ps == 0 {
            return self.next_step(index, now_ns);
        }
        let poll_ns = worker.spend(worker.poll_ps);
        match self.next_step(index, now_ns) {
            Step::Work(work, cost_ns) => Step::Work(work, poll_ns + cost_ns),
            Step::Over => Step::Work(Work::Poll(index), poll_ns),
        }
    }

    /// What follows in the poll. Costs that are not a frame's own (of the poll, of waking others, of
    /// switches) are paid together with the next frame's, where there is one: one event less.
    #[inline]
    pub(crate) fn next_step(&mut self, index: WorkerId, now_ns: u64) -> Step {
        let worker = &mut self.workers[index];
        if worker.debt_ps == 0 {
            return self.next_frame(index, now_ns);
        }
        worker.notify_ps += worker.debt_ps;
        let debt_ps = std::mem::take(&mut worker.debt_ps);
        let owed_ns = worker.spend(debt_ps);
        match self.next_frame(index, now_ns) {
            Step::Work(work, cost_ns) => Step::Work(work, owed_ns + cost_ns),
            Step::Over => Step::Work(Work::Notify(index), owed_ns),
        }
    }

    #[inline]
    fn next_frame(&mut self, index: WorkerId, now_ns: u64) -> Step {
        let worker = &mut self.workers[index];
        if worker.polled >= worker.batch {
            return Step::Over;
        }
        let frame = match worker.input {
            Input::Ring(ring) => self.take_from_ring(ring, now_ns),
            Input::Queue(queue) => self.take_from_queue(index, queue, now_ns),
            Input::Shared(shared) => return self.next_shared(index, shared, now_ns),
            Input::Connection(connection) => self.take_from_connection(connection, now_ns),
            Input::Load(load) => return self.next_load(load, now_ns),
        };
        let Some(frame) = frame else { return Step::Over };
        let route = self.workers[index].route(&frame);
        if let Some(drop_ps) = route.drop_ps
            && let Some(step) = self.refuse(index, frame, drop_ps, now_ns)
        {
            return step;
        }
        let route = self.workers[index].route(&frame);
        let (mut cost_ps, cold_ps) = (route.cost_ps(&frame), route.cold_ps);
        let notify_ps = self.notice(route.exit);
        cost_ps += notify_ps;
        let worker = &mut self.workers[index];
        worker.polled += 1;
        worker.frame = Some(frame);
        worker.noticed = notify_ps > 0;
        worker.notify_ps += notify_ps;
        if cold_ps > 0 {
            let last = &mut self.contexts[worker.context].last_router;
            worker.cold = last.is_some_and(|last| last != frame.router);
            *last = Some(frame.router);
            cost_ps += if worker.cold { cold_ps } else { 0 };
        }
        Step::Work(Work::Frame(index), worker.spend(cost_ps))
    }

    /// What it will cost to wake the next context for a frame, if that sleeps now: paid before the
    /// frame is there.
    #[inline]
    fn notice(&self, exit: Exit) -> u64 {
        let Exit::Queue(queue) = exit else { return 0 };
        if self.workers[self.poller_of(queue)].pending { 0 } else { self.queues[queue].notify_ps }
    }

    /// After a poll: whether the worker wants another one. If not, it is woken when there is work.
    #[inline]
    pub(crate) fn end_poll(&mut self, index: WorkerId, now_ns: u64) -> bool {
        let worker = &mut self.workers[index];
        let again = worker.polled >= worker.batch;
        worker.pending = again;
        if !again && let Input::Ring(ring) = worker.input {
            self.arm(ring, now_ns);
        }
        again
    }

    fn take_from_ring(&mut self, ring: RingId, now_ns: u64) -> Option<Frame> {
        self.advance_ring(ring, now_ns);
        let ring = &mut self.rings[ring];
        let frame = ring.frames.pop_front();
        if frame.is_some() {
            // The driver gives slots back a number at a time.
            ring.empty_slots += 1;
            ring.empty_slots %= ring.refill;
        }
        frame
    }

    #[inline]
    fn take_from_queue(&mut self, worker: WorkerId, index: QueueId, now_ns: u64) -> Option<Frame> {
        if self.queues[index].back_pressure && !self.queue_may_serve(worker, now_ns) {
            return None;
        }
        let queue = &mut self.queues[index];
        let mut frame = match queue.backlog.pop(now_ns) {
            Next::Packet(frame) => frame,
            Next::Wait { until_ns } => {
                self.plan_retry(worker, until_ns);
                return None;
            }
            Next::Empty => return None,
        };
        if !queue.waiting.is_empty() {
            let mut waiting = std::mem::take(&mut queue.waiting);
            waiting.drain(..).for_each(|waiting| self.raise(waiting, now_ns));
            // Raising lets nobody wait; what the list has reserved stays.
            self.queues[index].waiting = waiting;
        }
        if frame.connection.is_some() && self.release(&frame, false, now_ns) {
            frame.connection = None;
        }
        Some(frame)
    }

    /// Whether there is room behind a stage that looks for it, for a frame of any router.
    fn queue_may_serve(&mut self, worker: WorkerId, now_ns: u64) -> bool {
        self.workers[worker].routes.ids().all(|router| {
            let Some(route) = &self.workers[worker].routes[router] else { return true };
            let exit = route.exit;
            let frame =
                Frame { stamp_ns: 0, flow: FlowId::at(0), router, bytes: 0, connection: None };
            self.has_room(exit, &frame, worker, now_ns)
        })
    }

    /// Whether there is room; if not, the worker is raised when there may be.
    #[inline]
    pub(crate) fn has_room(
        &mut self,
        exit: Exit,
        frame: &Frame,
        worker: WorkerId,
        now_ns: u64,
    ) -> bool {
        match exit {
            Exit::Port(port) => self.port_has_room(port, frame, worker, now_ns),
            Exit::Queue(queue) => {
                let room = self.queue_has_room(queue, frame);
                let queue = &mut self.queues[queue];
                if !room && !queue.waiting.contains(&worker) {
                    queue.waiting.push(worker);
                }
                room
            }
        }
    }

    /// The frame at hand is done: on to where it goes.
    #[inline]
    pub(crate) fn finish_frame(&mut self, index: WorkerId, now_ns: u64) {
        let worker = &mut self.workers[index];
        let frame = worker.frame.take().expect("work on a frame has one");
        let route = worker.routes[frame.router].as_mut().expect("frames follow paths");
        route.frames += 1;
        route.bytes += u64::from(frame.bytes);
        route.colds += u64::from(std::mem::take(&mut worker.cold));
        let exit = route.exit;
        for &stage in &route.captures {
            self.accounting.capture(stage, frame.flow, frame.stamp_ns, now_ns);
        }
        match exit {
            Exit::Port(port) => self.send(port, frame, now_ns),
            Exit::Queue(queue) => self.put_into_queue(queue, frame, index, now_ns),
        }
    }

    #[inline]
    fn put_into_queue(&mut self, index: QueueId, frame: Frame, producer: WorkerId, now_ns: u64) {
        let room = self.queue_has_room(index, &frame);
        let queue = &mut self.queues[index];
        queue.entered += 1;
        if !room || !queue.backlog.push(frame, now_ns) {
            let place = queue.drop_point;
            self.lose(frame, place, now_ns);
            return;
        }
        queue.most = queue.most.max(queue.backlog.len());
        let notify_ps = queue.notify_ps;
        if let (Some(shared), Some(worker)) = (queue.shared, queue.worker) {
            self.shared[shared].push(worker);
        }
        let consumer = self.poller_of(index);
        if !self.workers[consumer].pending {
            let producer = &mut self.workers[producer];
            if !producer.noticed {
                producer.debt_ps += notify_ps;
            }
            self.raise(consumer, now_ns);
        }
    }

    /// The worker is to be raised then; `u64::MAX`: never.
    #[inline]
    pub(crate) fn plan_retry(&mut self, worker: WorkerId, at_ns: u64) {
        if at_ns != u64::MAX && self.workers[worker].retry_ns != at_ns {
            self.workers[worker].retry_ns = at_ns;
            self.events.push(at_ns, Event::Retry(worker));
        }
    }

    /// There may be work for this worker.
    #[inline]
    pub(crate) fn raise(&mut self, index: WorkerId, now_ns: u64) {
        let worker = &mut self.workers[index];
        if worker.pending {
            return;
        }
        worker.pending = true;
        let context = worker.context;
        self.contexts[context].list.push_back(index);
        self.rouse(context, now_ns);
    }

    #[inline]
    fn take_from_connection(&mut self, index: ConnectionId, now_ns: u64) -> Option<Frame> {
        let connection = &mut self.connections[index];
        let worker = connection.worker;
        if connection.due_ns >= connection.stop_ns || connection.in_flight >= connection.window {
            return None;
        }
        if connection.due_ns > now_ns {
            let due_ns = connection.due_ns;
            self.plan_retry(worker, due_ns);
            return None;
        }
        let frame = Frame {
            stamp_ns: now_ns,
            flow: connection.flow,
            router: connection.router,
            bytes: connection.bytes,
            connection: Some(index),
        };
        let exit = self.workers[worker].route(&frame).exit;
        if now_ns >= self.connections[index].stop_ns || !self.has_room(exit, &frame, worker, now_ns)
        {
            return None;
        }
        let connection = &mut self.connections[index];
        connection.in_flight += 1;
        connection.bytes = connection.sizes.next();
        connection.due_ns = match &mut connection.pace {
            Some(pace) => {
                let due_ns = connection.due_ns + pace.next_ns();
                due_ns.max(now_ns.saturating_sub(connection.catch_up_ns))
            }
            None => now_ns,
        };
        self.accounting.offer(frame.flow, frame.bytes, now_ns);
        Some(frame)
    }

    /// A frame has ended (sent or dropped), or has been taken out of the queue behind its sender:
    /// whether it leaves its socket buffer by that.
    #[inline]
    pub(crate) fn release(&mut self, frame: &Frame, ended: bool, now_ns: u64) -> bool {
        let Some(connection) = frame.connection else { return false };
        let connection = &mut self.connections[connection];
        let leaves = ended || !connection.released_when_sent;
        if leaves {
            connection.in_flight -= 1;
            let worker = connection.worker;
            self.raise(worker, now_ns);
        }
        leaves
    }
}
