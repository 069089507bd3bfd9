//! Step 5: the work on a frame; and work without frames.

use super::Host;
use crate::engine::{
    cpu::{Job, Work},
    events::Event,
    frame::Frame,
    ids::{CoreId, LoadId, QueueId, WorkerId},
    load::Pause,
    network::{DropPoint, Output},
    workers::Input,
};

/// 5. The work on a frame, or on refusing it.
impl Host {
    #[inline]
    pub(super) fn take_on(&mut self, worker: WorkerId, frame: Frame, now_ns: u64) -> Job {
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
    pub(super) fn finish_frame(&mut self, core: CoreId, worker: WorkerId, now_ns: u64) {
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

/// Loads: work without frames.
impl Host {
    #[inline]
    pub(super) fn next_of_load(&mut self, id: LoadId, now_ns: u64) -> Option<Job> {
        let cost_ns = self.workers[id].next(now_ns)?;
        let worker = self.workers[id].worker;
        self.workers[worker].count();
        Some(Job { work: Work::Load(id), cost_ns })
    }

    pub(super) fn finish_load(&mut self, id: LoadId, now_ns: u64) {
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
