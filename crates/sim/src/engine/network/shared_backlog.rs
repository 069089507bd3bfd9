//! A backlog that several stages of a context share, as the kernel's of each core (`process_backlog`):
//! frames are served in the order in which they came, whichever stage they wait for. A poll that has
//! nothing left takes over all that has come; only what has come since counts against the capacity.

use std::collections::VecDeque;

use crate::engine::ids::WorkerId;

/// The frames are in their stages' queues; this is the order.
#[derive(Debug)]
pub(crate) struct SharedBacklog {
    name: String,
    capacity: usize,
    /// Who polls it, on behalf of all its stages; none while it has no stage.
    pub(super) poller: Option<WorkerId>,
    /// Whose queue each frame waits in that was not taken over yet.
    input: VecDeque<WorkerId>,
    /// The same of those that were.
    taken_over: VecDeque<WorkerId>,
}

impl SharedBacklog {
    pub(super) fn new(name: String, capacity: u32) -> Self {
        let capacity = capacity as usize;
        let empty = || VecDeque::with_capacity(capacity);
        let (input, taken_over) = (empty(), empty());
        Self { name, capacity, poller: None, input, taken_over }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(super) fn has_space(&self) -> bool {
        self.input.len() < self.capacity
    }

    /// A frame has come into this worker's queue.
    #[inline]
    pub(super) fn push(&mut self, worker: WorkerId) {
        self.input.push_back(worker);
    }

    /// Where nothing is left of what was taken over: takes over all that has come; whether it did, so that
    /// there is room now.
    #[inline]
    pub(super) fn take_over(&mut self) -> bool {
        let empty = self.taken_over.is_empty();
        if empty {
            std::mem::swap(&mut self.input, &mut self.taken_over);
        }
        empty
    }

    /// Whose queue the next frame is in.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<WorkerId> {
        self.taken_over.pop_front()
    }
}
