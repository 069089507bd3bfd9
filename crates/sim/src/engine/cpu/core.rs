//! A core: what it works on, and what interrupts that.

use std::collections::VecDeque;

use super::{
    context::Recent,
    fair::Fair,
    softirq::Run,
    work::{Job, Work},
};
use crate::{
    engine::{
        frame::NEVER,
        ids::{ContextId, EntityId, Table},
    },
    model::Mode,
};

/// Interrupts go before softirqs, and these before threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Idle,
    Interrupt,
    Softirq,
    Thread,
}

#[derive(Debug)]
pub(crate) enum CpuScheduler {
    /// With the context of each task; none for a group.
    Fair(Box<Fair>, Table<EntityId, Option<ContextId>>),
    Credit,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(super) scheduler: CpuScheduler,
    pub(super) switch_ps: u64,
    pub(super) tick_cost_ns: u64,
    pub(super) level: Level,
    /// The work at hand.
    pub(super) work: Work,
    pub(super) began_ns: u64,
    /// When the work at hand is done.
    pub(super) due_ns: u64,
    /// Why it is interrupted.
    pub(super) interrupts: VecDeque<Job>,
    pub(super) softirq: Run,
    /// The thread that has the core, also while it is interrupted.
    pub(super) current: Option<ContextId>,
    pub(super) need_resched: bool,
    /// Time that interrupts and softirqs took, ns, since the beginning.
    pub(super) stolen_ns: u64,
    /// The current thread is charged up to there, in its own time, ns.
    pub(super) charged_ns: u64,
    /// When the current vCPU's slice ends, and when its event is due.
    pub(super) slice_end_ns: u64,
    pub(super) slice_event_ns: u64,
    pub(super) recent: Recent,
    pub(crate) account: CoreAccount,
}

/// CPU accounting of a core, in the window, ns.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreAccount {
    pub(crate) interrupt_ns: u64,
    pub(crate) softirq_ns: u64,
    /// Of it, in ksoftirqd.
    pub(crate) ksoftirqd_ns: u64,
    pub(crate) thread_ns: u64,
    pub(crate) switches: u64,
    pub(crate) interrupts: u64,
}

impl Core {
    pub(crate) fn new(
        name: &str,
        mode: Mode,
        scheduler: CpuScheduler,
        switch_ps: u64,
        tick_cost_ns: u64,
    ) -> Self {
        Self {
            name: name.to_owned(),
            mode,
            scheduler,
            switch_ps,
            tick_cost_ns,
            level: Level::Idle,
            work: Work::Tick,
            began_ns: 0,
            due_ns: NEVER,
            interrupts: VecDeque::new(),
            softirq: Run::default(),
            current: None,
            need_resched: false,
            stolen_ns: 0,
            charged_ns: 0,
            slice_end_ns: NEVER,
            slice_event_ns: NEVER,
            recent: Recent::default(),
            account: CoreAccount::default(),
        }
    }

    /// Whether it is under one of Linux's schedulers.
    pub(crate) fn is_fair(&self) -> bool {
        matches!(self.scheduler, CpuScheduler::Fair(..))
    }

    /// Whether tasks on it may have slices of their own.
    pub(crate) fn has_slices(&self) -> bool {
        matches!(&self.scheduler, CpuScheduler::Fair(fair, _) if fair.has_slices())
    }

    #[inline]
    pub(super) fn start(&mut self, level: Level, job: Job, now_ns: u64) {
        self.level = level;
        self.work = job.work;
        self.began_ns = now_ns;
        self.due_ns = now_ns + job.cost_ns;
    }

    #[inline]
    pub(super) fn idle(&mut self) {
        self.level = Level::Idle;
        self.due_ns = NEVER;
    }

    /// Adds the time since the work at hand began, or was last accounted for; whose it is, unless an interrupt's.
    #[inline]
    pub(super) fn account_time(&mut self, now_ns: u64) -> Option<(ContextId, u64)> {
        let ns = now_ns - self.began_ns;
        self.began_ns = now_ns;
        let context = match self.level {
            Level::Idle => return None,
            Level::Interrupt => {
                self.account.interrupt_ns += ns;
                self.stolen_ns += ns;
                return None;
            }
            Level::Softirq => {
                self.account.softirq_ns += ns;
                if self.softirq.in_thread {
                    self.account.ksoftirqd_ns += ns;
                } else {
                    self.stolen_ns += ns;
                }
                self.softirq.context
            }
            Level::Thread => {
                self.account.thread_ns += ns;
                self.current
            }
        };
        context.map(|context| (context, ns))
    }

    /// The clock of threads: it stands while interrupts and softirqs run, if those are accounted for.
    pub(super) fn thread_clock_ns(&self, now_ns: u64, irq_time_accounting: bool) -> u64 {
        if !irq_time_accounting {
            return now_ns;
        }
        let stealing = match self.level {
            Level::Interrupt => true,
            Level::Softirq => !self.softirq.in_thread,
            Level::Idle | Level::Thread => false,
        };
        let under_way_ns = if stealing { now_ns - self.began_ns } else { 0 };
        now_ns - self.stolen_ns - under_way_ns
    }
}
