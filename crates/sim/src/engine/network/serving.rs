//! Queues and backlogs: who serves them, and what is next.

use isolane_sched::Next;

use super::{Network, Taken};
use crate::engine::ids::{BacklogId, QueueId, RingId, WorkerId};

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
