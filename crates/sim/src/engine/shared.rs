//! A backlog that several stages of a context share, as the kernel's of each core (`process_backlog`):
//! frames are served in the order in which they came, whichever stage they wait for. A poll that has
//! nothing left takes over all that has come; only what has come since counts against the capacity.

use std::collections::VecDeque;

use super::{
    Engine,
    ids::{BacklogId, QueueId, WorkerId},
    sources::Frame,
    worker::Step,
};

/// The frames are in their stages' queues; this is the order.
#[derive(Debug)]
pub(crate) struct SharedBacklog {
    pub(crate) name: String,
    pub(crate) capacity: usize,
    /// That polls it, on behalf of all; none while no stage is.
    pub(crate) worker: Option<WorkerId>,
    /// Whose queue each frame waits in that was not taken over yet.
    input: VecDeque<WorkerId>,
    /// The same of those that were.
    taken_over: VecDeque<WorkerId>,
}

impl SharedBacklog {
    pub(crate) fn new(name: String, capacity: u32) -> Self {
        let room = || VecDeque::with_capacity(capacity as usize);
        let (input, taken_over) = (room(), room());
        Self { name, capacity: capacity as usize, worker: None, input, taken_over }
    }

    /// A frame has come into this worker's queue.
    pub(crate) fn push(&mut self, worker: WorkerId) {
        self.input.push_back(worker);
    }
}

impl Engine {
    /// Who is raised when a frame comes into a queue.
    #[inline]
    pub(crate) fn poller_of(&self, queue: QueueId) -> WorkerId {
        let queue = &self.queues[queue];
        let poller = queue.shared.map_or(queue.worker, |shared| self.shared[shared].worker);
        poller.expect("a path leads through the queue")
    }

    /// Whether a frame would find room in a queue: in its backlog, where it is part of one.
    #[inline]
    pub(crate) fn queue_has_room(&self, queue: QueueId, frame: &Frame) -> bool {
        let queue = &self.queues[queue];
        match queue.shared {
            Some(shared) => self.shared[shared].input.len() < self.shared[shared].capacity,
            None => queue.backlog.has_room(frame),
        }
    }

    /// The next frame of a shared backlog, on behalf of the worker that polls it.
    pub(crate) fn next_shared(&mut self, poller: WorkerId, index: BacklogId, now_ns: u64) -> Step {
        let shared = &mut self.shared[index];
        if shared.taken_over.is_empty() {
            std::mem::swap(&mut shared.input, &mut shared.taken_over);
            self.raise_waiting(index, now_ns);
        }
        let Some(worker) = self.shared[index].taken_over.pop_front() else { return Step::Over };
        self.workers[poller].polled += 1;
        self.workers[worker].polled = 0;
        self.next_step(worker, now_ns)
    }

    /// There is room now for those who wait for it.
    fn raise_waiting(&mut self, shared: BacklogId, now_ns: u64) {
        for queue in self.queues.ids() {
            let of = &mut self.queues[queue];
            if of.shared == Some(shared) && !of.waiting.is_empty() {
                for waiting in std::mem::take(&mut of.waiting) {
                    self.raise(waiting, now_ns);
                }
            }
        }
    }
}
