//! What a core does: interrupts before softirqs before threads. What is interrupted goes on later where it left
//! off.

use super::{
    core::{CpuScheduler, Level},
    state::Cpu,
    work::{Ask, Job, PS, Polled, Work},
};
use crate::engine::{
    events::{Event, Events},
    ids::{ContextId, CoreId, WorkerId},
};

/// Work: from when it is there until it is done.
impl Cpu {
    /// There may be work for this worker: its poll is put on its context's list, and the context wakes
    /// (`napi_schedule`).
    #[inline]
    pub(crate) fn schedule_poll(&mut self, worker: WorkerId, events: &mut Events, now_ns: u64) {
        let poll = &mut self.polls[worker];
        if poll.scheduled {
            return;
        }
        poll.scheduled = true;
        let context = poll.context;
        self.contexts[context].poll_list.push_back(worker);
        self.wake(context, events, now_ns);
    }

    #[inline]
    pub(crate) fn is_scheduled(&self, worker: WorkerId) -> bool {
        self.polls[worker].scheduled
    }

    /// The worker has found nothing more: it is scheduled again when there is work (`napi_complete`).
    #[inline]
    pub(crate) fn complete_poll(&mut self, worker: WorkerId) {
        self.polls[worker].scheduled = false;
    }

    /// Interrupts a core, or lets this wait behind another interrupt.
    pub(crate) fn interrupt(&mut self, index: CoreId, job: Job, now_ns: u64) {
        if self.cores[index].level == Level::Interrupt {
            self.cores[index].interrupts.push_back(job);
            return;
        }
        self.suspend(index, now_ns);
        self.exit_guest(index);
        self.cores[index].start(Level::Interrupt, job, now_ns);
    }

    /// The core whose work is done first, and when, if that is before this time; of two, the one with the lower
    /// number.
    #[inline]
    pub(crate) fn first_due(&self, before_ns: u64) -> (u64, Option<CoreId>) {
        let (mut at_ns, mut first) = (before_ns, None);
        for (index, core) in self.cores.enumerate() {
            if core.due_ns < at_ns {
                (at_ns, first) = (core.due_ns, Some(index));
            }
        }
        (at_ns, first)
    }

    /// The core's work at hand is done: what it was.
    #[inline]
    pub(crate) fn complete(&mut self, index: CoreId, now_ns: u64) -> Work {
        self.account_time(index, now_ns);
        let core = &mut self.cores[index];
        if core.level == Level::Interrupt {
            core.account.interrupts += 1;
            core.softirq.invoked = true;
        }
        core.work
    }

    /// A thread or process has handed a frame to the network stack: pending softirqs run at the end of that
    /// (`local_bh_enable`).
    #[inline]
    pub(crate) fn enable_softirqs(&mut self, index: CoreId) {
        let core = &mut self.cores[index];
        if core.level == Level::Thread && self.softirq_rules.on_transmit {
            core.softirq.invoked |= core.softirq.context.is_some();
        }
    }

    /// Finds the core something to do.
    #[inline]
    pub(crate) fn next(&mut self, index: CoreId, events: &mut Events, now_ns: u64) -> Ask {
        loop {
            let core = &mut self.cores[index];
            let next = if let Some(job) = core.interrupts.pop_front() {
                core.start(Level::Interrupt, job, now_ns);
                Some(Ask::Nothing)
            } else if core.softirq.active {
                self.next_of_softirq(index, now_ns)
            } else if self.softirq_wanted(index) {
                self.begin_softirq(index, false, now_ns);
                None
            } else {
                self.next_of_thread(index, events, now_ns)
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// What the current thread does next, or who is next. None: look again from the top.
    #[inline]
    fn next_of_thread(&mut self, index: CoreId, events: &mut Events, now_ns: u64) -> Option<Ask> {
        loop {
            let core = &self.cores[index];
            let may_leave = |id: ContextId| self.contexts[id].may_leave();
            if core.current.is_none_or(|id| core.need_resched && may_leave(id)) {
                self.choose(index, events, now_ns);
            }
            let core = &mut self.cores[index];
            let Some(id) = core.current else {
                core.idle();
                return Some(Ask::Nothing);
            };
            let context = &mut self.contexts[id];
            if context.blocked == 0 && !context.is_ksoftirqd {
                if let Some(job) = context.suspended.take() {
                    self.start(index, job, now_ns);
                    return Some(Ask::Nothing);
                }
                if let Some(worker) = context.polling {
                    return Some(Ask::Continue(worker));
                }
                if let Some(worker) = context.poll_list.pop_front() {
                    context.polling = Some(worker);
                    return Some(Ask::Begin(worker));
                }
            }
            if context.overhead_ps >= PS {
                self.start(index, Job { work: Work::Overhead(id), cost_ns: 0 }, now_ns);
                return Some(Ask::Nothing);
            }
            if context.is_ksoftirqd && self.softirq_pending(index) {
                self.begin_softirq(index, true, now_ns);
                return None;
            }
            self.fall_asleep(index, id, now_ns);
            // Nothing here interrupts the core, but its softirq may have been raised.
            if self.cores[index].softirq.invoked {
                return None;
            }
        }
    }

    /// The answer to what was asked: the core works on this. A thread's switches and wake-ups are paid with it.
    #[inline]
    pub(crate) fn start(&mut self, index: CoreId, mut job: Job, now_ns: u64) {
        let core = &mut self.cores[index];
        if core.softirq.active {
            core.start(Level::Softirq, job, now_ns);
            return;
        }
        let context = core.current.expect("a thread runs");
        let context = &mut self.contexts[context];
        if context.overhead_ps >= PS {
            job.cost_ns += context.overhead_ps / PS;
            context.overhead_ps %= PS;
        }
        core.start(Level::Thread, job, now_ns);
    }

    /// The answer to what was asked: the poll is over.
    #[inline]
    pub(crate) fn end_poll(
        &mut self,
        index: CoreId,
        polled: Polled,
        events: &mut Events,
        now_ns: u64,
    ) {
        let core = &self.cores[index];
        let in_softirq = core.softirq.active;
        let context = if in_softirq { core.softirq.context } else { core.current };
        let context = &mut self.contexts[context.expect("a context polled")];
        let worker = context.polling.take().expect("a poll was under way");
        if polled.again {
            context.poll_list.push_back(worker);
        }
        if in_softirq {
            self.softirq_polled(index, polled.frames, events, now_ns);
        }
    }

    /// After whatever has just happened: the next core for which something was found, or that has to choose anew.
    #[inline]
    pub(crate) fn reschedule(&mut self, now_ns: u64) -> Option<CoreId> {
        while let Some(index) = self.reschedule_pending.pop() {
            let core = &self.cores[index];
            let stop = match core.level {
                Level::Idle => true,
                Level::Thread => core.need_resched || self.softirq_wanted(index),
                Level::Interrupt | Level::Softirq => false,
            };
            if stop {
                self.suspend(index, now_ns);
                return Some(index);
            }
        }
        None
    }

    /// Takes the work at hand off the core; it goes on later.
    fn suspend(&mut self, index: CoreId, now_ns: u64) {
        self.account_time(index, now_ns);
        let core = &mut self.cores[index];
        let job = Job { work: core.work, cost_ns: core.due_ns - now_ns };
        match (core.level, core.work) {
            (Level::Softirq, _) => core.softirq.suspended = Some(job),
            (Level::Thread, Work::Overhead(context)) => {
                self.contexts[context].overhead_ps += job.cost_ns * PS;
            }
            (Level::Thread, _) => {
                let context = core.current.expect("a thread runs");
                self.contexts[context].suspended = Some(job);
            }
            (Level::Idle | Level::Interrupt, _) => {}
        }
        core.idle();
    }

    /// An interrupt takes the core from its thread.
    #[inline]
    fn exit_guest(&mut self, index: CoreId) {
        let core = &self.cores[index];
        if let (false, Some(current)) = (core.softirq.active, core.current) {
            let context = &mut self.contexts[current];
            if context.costs.exit_ps > 0 {
                context.overhead_ps += context.costs.exit_ps;
                context.account.exits += 1;
            }
        }
    }
}

/// The receive softirq.
impl Cpu {
    fn softirq_pending(&self, core: CoreId) -> bool {
        let context = self.cores[core].softirq.context;
        context.is_some_and(|context| !self.contexts[context].poll_list.is_empty())
    }

    /// Whether it is to run now, ahead of threads.
    #[inline]
    fn softirq_wanted(&mut self, core: CoreId) -> bool {
        let softirq = &self.cores[core].softirq;
        softirq.invoked && !softirq.active && self.softirq_due(core)
    }

    /// The core looks for pending softirqs: whether there is one that ksoftirqd is not to run.
    fn softirq_due(&mut self, core: CoreId) -> bool {
        let softirq = &self.cores[core].softirq;
        let deferred = self.softirq_rules.defer_to_ksoftirqd
            && softirq.ksoftirqd.is_some_and(|thread| self.contexts[thread].runnable);
        let wanted = self.softirq_pending(core) && !deferred;
        self.cores[core].softirq.invoked = wanted;
        wanted
    }

    fn begin_softirq(&mut self, core: CoreId, in_thread: bool, now_ns: u64) {
        self.cores[core].softirq.begin(&self.softirq_rules, in_thread, now_ns);
    }

    /// What it does next; none: it has ended.
    #[inline]
    fn next_of_softirq(&mut self, core: CoreId, now_ns: u64) -> Option<Ask> {
        let core = &mut self.cores[core];
        if let Some(job) = core.softirq.suspended.take() {
            core.start(Level::Softirq, job, now_ns);
            return Some(Ask::Nothing);
        }
        let context = core.softirq.context.expect("it was raised for a context");
        let context = &mut self.contexts[context];
        if let Some(worker) = context.polling {
            return Some(Ask::Continue(worker));
        }
        context.polling = context.poll_list.pop_front();
        if context.polling.is_none() {
            core.softirq.end();
        }
        context.polling.map(Ask::Begin)
    }

    /// A poll of the softirq is over, which has taken so many frames.
    fn softirq_polled(&mut self, index: CoreId, polled: u32, events: &mut Events, now_ns: u64) {
        let core = &mut self.cores[index];
        core.softirq.budget -= i64::from(polled);
        if self.softirq_pending(index) {
            let core = &mut self.cores[index];
            if !core.softirq.goes_on(&self.softirq_rules, core.need_resched, now_ns) {
                if let Some(ksoftirqd) = core.softirq.ksoftirqd {
                    self.try_to_wake_up(ksoftirqd, events, now_ns);
                }
                self.cores[index].softirq.end();
            }
        }
    }
}

/// Timer ticks.
impl Cpu {
    pub(crate) fn begin(&self, events: &mut Events) {
        for core in self.cores.ids() {
            events.push(self.tick_ns(core), Event::Tick(core));
        }
        if let Some(credit) = &self.credit {
            events.push(credit.settings().slice_ns, Event::GiveCredit);
        }
    }

    /// A core's timer tick.
    pub(crate) fn tick(&mut self, index: CoreId, events: &mut Events, now_ns: u64) {
        events.push(now_ns + self.tick_ns(index), Event::Tick(index));
        if self.cores[index].level == Level::Idle {
            return;
        }
        self.charge(index, now_ns);
        let core = &mut self.cores[index];
        match &mut core.scheduler {
            CpuScheduler::Fair(fair, _) => {
                let task = core.current.and_then(|current| self.contexts[current].task());
                if task.is_some_and(|task| fair.tick(task)) {
                    core.need_resched = true;
                }
            }
            CpuScheduler::Credit => {
                if let Some(credit) = &mut self.credit {
                    credit.tick(index, now_ns);
                }
            }
        }
        let cost_ns = core.tick_cost_ns;
        self.interrupt(index, Job { work: Work::Tick, cost_ns }, now_ns);
    }
}
