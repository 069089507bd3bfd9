//! What runs on a core: a softirq, a thread, a process, a vCPU.

use std::collections::VecDeque;

use super::work::Job;
use crate::{
    engine::ids::{ContextId, CoreId, EntityId, RouterId, Table, VcpuId, WorkerId},
    model::{ContextKind, Mode},
};

/// What a CPU scheduler knows a context as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScheduledAs {
    /// Of no scheduler: a softirq.
    Softirq,
    /// A task under a fair scheduler.
    Task(EntityId),
    /// A vCPU under the credit scheduler.
    Vcpu(VcpuId),
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) kind: ContextKind,
    pub(crate) is_ksoftirqd: bool,
    /// Where it runs (under the credit scheduler: `Credit::home`).
    pub(crate) core: CoreId,
    pub(super) scheduled_as: ScheduledAs,
    pub(super) runnable: bool,
    /// Disk requests that hold it up.
    pub(super) blocked: u32,
    /// Workers that have work, in the order in which they are polled.
    pub(super) poll_list: VecDeque<WorkerId>,
    /// The worker in the middle of its poll.
    pub(super) polling: Option<WorkerId>,
    /// Work that was interrupted, and what is left of it.
    pub(super) suspended: Option<Job>,
    /// Switches and wake-ups to be paid, ps.
    pub(super) overhead_ps: u64,
    pub(super) costs: ContextCosts,
    /// The router it worked for last, of those whose stages here have cold caches.
    last_router: Option<RouterId>,
    /// What it ran before the window, ns.
    before_ns: u64,
    pub(crate) account: ContextAccount,
}

/// What a context's wake-ups, interrupts and switches cost, and on whose account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContextCosts {
    pub(crate) wake_ps: u64,
    pub(crate) exit_ps: u64,
    pub(crate) cold_ps: u64,
    pub(crate) wake_mode: Mode,
    /// Whether it gives up its core between polls only.
    pub(crate) whole_polls: bool,
}

impl Default for ContextCosts {
    fn default() -> Self {
        Self { wake_ps: 0, exit_ps: 0, cold_ps: 0, wake_mode: Mode::Kernel, whole_polls: false }
    }
}

/// CPU accounting of a context, in the window.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContextAccount {
    /// By core, ns.
    pub(crate) cpu_ns: Table<CoreId, u64>,
    pub(crate) wakes: u64,
    pub(crate) exits: u64,
    pub(crate) switches: u64,
    pub(crate) switch_ps: u64,
    /// Differences at the window's ends between what was begun and what was done, ns.
    pub(crate) edge_ns: i64,
}

impl Context {
    pub(super) fn new(
        name: &str,
        kind: ContextKind,
        scheduled_as: ScheduledAs,
        core: CoreId,
        cores: usize,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            is_ksoftirqd: false,
            core,
            scheduled_as,
            runnable: false,
            blocked: 0,
            poll_list: VecDeque::new(),
            polling: None,
            suspended: None,
            overhead_ps: 0,
            costs: ContextCosts::default(),
            last_router: None,
            before_ns: 0,
            account: ContextAccount {
                cpu_ns: Table::filled(0, cores),
                ..ContextAccount::default()
            },
        }
    }

    pub(crate) fn costs(&self) -> &ContextCosts {
        &self.costs
    }

    /// What a fair scheduler knows it as.
    #[inline]
    pub(super) fn task(&self) -> Option<EntityId> {
        match self.scheduled_as {
            ScheduledAs::Task(task) => Some(task),
            ScheduledAs::Softirq | ScheduledAs::Vcpu(_) => None,
        }
    }

    /// Whether another context may have the core now.
    #[inline]
    pub(super) fn may_leave(&self) -> bool {
        !self.costs.whole_polls || self.polling.is_none()
    }

    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.poll_list.is_empty() || self.polling.is_some() || self.suspended.is_some()
    }

    /// What it has run for since the beginning, ns.
    pub(super) fn ran_ns(&self) -> u64 {
        self.before_ns + self.account.cpu_ns.iter().sum::<u64>()
    }

    /// Whether it finds caches cold for this router, because it worked for another before.
    #[inline]
    pub(super) fn serve(&mut self, router: RouterId) -> bool {
        let cold = self.last_router.is_some_and(|last| last != router);
        self.last_router = Some(router);
        cold
    }

    /// The window begins; `edge_ns`: what it has begun but not done.
    pub(super) fn begin_window(&mut self, edge_ns: i64) {
        self.before_ns = self.ran_ns();
        let cpu_ns = Table::filled(0, self.account.cpu_ns.len());
        self.account = ContextAccount { cpu_ns, edge_ns, ..ContextAccount::default() };
    }
}

/// Contexts that find caches cold, who ran last in front.
#[derive(Debug, Default)]
pub(super) struct Recent {
    contexts: Vec<ContextId>,
}

impl Recent {
    /// How many others have run since this one did; it runs now.
    pub(super) fn others_since(&mut self, id: ContextId) -> u64 {
        let others = self.contexts.iter().position(|&recent| recent == id);
        let others = others.unwrap_or(self.contexts.len());
        if others < self.contexts.len() {
            self.contexts.remove(others);
        }
        self.contexts.insert(0, id);
        u64::try_from(others).unwrap_or(u64::MAX)
    }
}
