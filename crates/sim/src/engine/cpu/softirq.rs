//! The receive softirq of a core: how long `__do_softirq` and `net_rx_action` go on before ksoftirqd does.

use super::work::Job;
use crate::{engine::ids::ContextId, model::Softirq};

/// A core's softirq.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The context that stands for it, if the core has one.
    pub(super) context: Option<ContextId>,
    pub(super) ksoftirqd: Option<ContextId>,
    /// Whether it runs, or is interrupted.
    pub(super) active: bool,
    /// Whether it runs in ksoftirqd.
    pub(super) in_thread: bool,
    /// Whether the core is to look for pending softirqs: after an interrupt, or when one is raised.
    pub(super) invoked: bool,
    pub(super) suspended: Option<Job>,
    began_ns: u64,
    round_began_ns: u64,
    /// Of this round, frames; may be overdrawn by a poll.
    pub(super) budget: i64,
    restarts: u32,
}

impl Run {
    pub(super) fn begin(&mut self, rules: &Softirq, in_thread: bool, now_ns: u64) {
        self.active = true;
        self.invoked = false;
        self.in_thread = in_thread;
        self.began_ns = now_ns;
        self.round_began_ns = now_ns;
        self.budget = rules.budget.into();
        self.restarts = rules.restarts;
    }

    pub(super) fn end(&mut self) {
        self.active = false;
        self.in_thread = false;
        self.invoked = false;
    }

    /// Whether there is budget left, or another round may begin.
    pub(super) fn goes_on(&mut self, rules: &Softirq, need_resched: bool, now_ns: u64) -> bool {
        if self.budget > 0 && now_ns - self.round_began_ns < rules.time_ns {
            return true;
        }
        let in_time = rules.restart_time_ns.is_none_or(|max_ns| now_ns - self.began_ns < max_ns);
        let stopped = rules.stop_for_threads && need_resched;
        if !in_time || stopped || self.restarts <= 1 {
            return false;
        }
        self.restarts -= 1;
        self.round_began_ns = now_ns;
        self.budget = rules.budget.into();
        true
    }
}
