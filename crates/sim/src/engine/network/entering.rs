//! Into a ring, a queue or a port, where there is room.

use super::{DropPoint, Network, Output, buffer::Buffer as _};
use crate::engine::{
    events::Events,
    frame::Frame,
    ids::{ContextId, QueueId, WorkerId},
};

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
