//! Steps 3 and 4: a core asks for work, and a poll takes frames.

use super::Host;
use crate::engine::{
    cpu::{Ask, Job, Polled, Work},
    frame::{Frame, Mark},
    ids::{BacklogId, ConnectionId, CoreId, FlowId, Id, QueueId, RingId, WorkerId},
    network::{Output, Taken},
    senders::Sending,
    workers::{Input, Worker},
};

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
        if let Some(connection) = frame.mark.connection()
            && !self.workers[connection].released_when_sent
        {
            self.release(connection, now_ns);
            frame.mark = Mark::default();
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
                Frame { stamp_ns: 0, flow: FlowId::at(0), router, bytes: 0, mark: Mark::default() };
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
    pub(super) fn wake_waiting(&mut self, output: Output, now_ns: u64) {
        if let Some(waiting) = self.network.take_waiting(output) {
            for &worker in &waiting {
                self.schedule_poll(worker, now_ns);
            }
            self.network.return_list(output, waiting);
        }
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
