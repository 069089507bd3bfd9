//! The receive softirq of a core: `net_rx_action` and `__do_softirq`, and ksoftirqd.

use super::{
    Engine,
    ids::{ContextId, CoreId},
    worker::{Step, Work},
};

/// A core's softirq.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The context that stands for it, if the core has one.
    pub(crate) context: Option<ContextId>,
    pub(crate) ksoftirqd: Option<ContextId>,
    /// Whether it runs, or is interrupted.
    pub(crate) active: bool,
    /// Whether it runs in ksoftirqd.
    pub(crate) in_thread: bool,
    /// Whether somebody looks for pending softirqs: at the end of an interrupt, or when one is raised.
    pub(crate) invoked: bool,
    pub(crate) suspended: Option<(Work, u64)>,
    began_ns: u64,
    round_began_ns: u64,
    /// Of this round, frames; may be overdrawn by a poll.
    budget: i64,
    restarts: u32,
}

impl Engine {
    pub(crate) fn softirq_pending(&self, core: CoreId) -> bool {
        let context = self.cores[core].softirq.context;
        context.is_some_and(|context| !self.contexts[context].list.is_empty())
    }

    /// Whether it is to run now, ahead of threads.
    #[inline]
    pub(crate) fn softirq_wanted(&mut self, index: CoreId) -> bool {
        let softirq = &self.cores[index].softirq;
        softirq.invoked && !softirq.active && self.softirq_due(index)
    }

    /// Somebody looks: whether there is something, and nobody else is to do it.
    fn softirq_due(&mut self, index: CoreId) -> bool {
        let core = &self.cores[index];
        let deferred = self.softirq_rules.defer_to_ksoftirqd
            && core.softirq.ksoftirqd.is_some_and(|thread| self.contexts[thread].runnable);
        let wanted = self.softirq_pending(index) && !deferred;
        self.cores[index].softirq.invoked = wanted;
        wanted
    }

    pub(crate) fn begin_softirq(&mut self, index: CoreId, in_thread: bool, now_ns: u64) {
        let rules = &self.softirq_rules;
        let softirq = &mut self.cores[index].softirq;
        softirq.active = true;
        softirq.invoked = false;
        softirq.in_thread = in_thread;
        softirq.began_ns = now_ns;
        softirq.round_began_ns = now_ns;
        softirq.budget = rules.budget.into();
        softirq.restarts = rules.restarts;
    }

    /// What it does next; `Over`: it has ended, with or without work left.
    pub(crate) fn softirq_step(&mut self, index: CoreId, now_ns: u64) -> Step {
        if let Some((work, rest_ns)) = self.cores[index].softirq.suspended.take() {
            return Step::Work(work, rest_ns);
        }
        let context = self.cores[index].softirq.context.expect("it was raised for a context");
        loop {
            let step = if let Some(worker) = self.contexts[context].worker {
                self.next_step(worker, now_ns)
            } else if let Some(worker) = self.contexts[context].list.pop_front() {
                self.contexts[context].worker = Some(worker);
                self.begin_poll(worker, now_ns)
            } else {
                return self.end_softirq(index);
            };
            if step != Step::Over {
                return step;
            }
            let worker = self.contexts[context].worker.take().expect("a poll was under way");
            self.cores[index].softirq.budget -= i64::from(self.workers[worker].polled);
            if self.end_poll(worker, now_ns) {
                self.contexts[context].list.push_back(worker);
            }
            if !self.contexts[context].list.is_empty() && !self.goes_on(index, now_ns) {
                if let Some(ksoftirqd) = self.cores[index].softirq.ksoftirqd {
                    self.wake(ksoftirqd, now_ns);
                }
                return self.end_softirq(index);
            }
        }
    }

    fn end_softirq(&mut self, index: CoreId) -> Step {
        let softirq = &mut self.cores[index].softirq;
        softirq.active = false;
        softirq.in_thread = false;
        softirq.invoked = false;
        Step::Over
    }

    /// Whether there is budget left, or another round may begin.
    fn goes_on(&mut self, index: CoreId, now_ns: u64) -> bool {
        let rules = &self.softirq_rules;
        let core = &mut self.cores[index];
        let softirq = &mut core.softirq;
        if softirq.budget > 0 && now_ns - softirq.round_began_ns < rules.time_ns {
            return true;
        }
        let in_time =
            rules.restart_time_ns.is_none_or(|most_ns| now_ns - softirq.began_ns < most_ns);
        let stopped = rules.stop_for_threads && core.need_resched;
        if !in_time || stopped || softirq.restarts <= 1 {
            return false;
        }
        softirq.restarts -= 1;
        softirq.round_began_ns = now_ns;
        softirq.budget = rules.budget.into();
        true
    }
}
