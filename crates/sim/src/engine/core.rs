//! Cores: what runs, what it interrupts, what comes next.
//!
//! A core runs interrupts before softirqs before threads. What is interrupted goes on later where it left
//! off. A core has at most one piece of work at hand, with the time at which it is done; the engine takes
//! the earliest of all cores' and of the events, so that nothing needs to be undone.

use std::collections::VecDeque;

use super::{
    Engine,
    cfs::Cfs,
    events::Event,
    ids::{ContextId, CoreId, EntityId, RouterId, Table, VcpuId, WorkerId},
    softirq::Run,
    worker::{Input, PS, Step, Work},
};
use crate::model::{ContextKind, Mode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Idle,
    Interrupt,
    Softirq,
    Thread,
}

#[derive(Debug)]
pub(crate) enum CpuScheduler {
    Cfs(Box<Cfs>),
    Credit,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) scheduler: CpuScheduler,
    pub(crate) switch_ps: u64,
    pub(crate) tick_cost_ns: u64,
    pub(crate) level: Level,
    work: Work,
    began_ns: u64,
    /// When the work at hand is done; `u64::MAX` when idle.
    pub(crate) due_ns: u64,
    /// Why it is interrupted, and how long that takes, ns.
    interrupts: VecDeque<(Work, u64)>,
    pub(crate) softirq: Run,
    /// The thread that has the core, also while it is interrupted.
    pub(crate) current: Option<ContextId>,
    pub(crate) need_resched: bool,
    /// Time that interrupts and softirqs took, ns, since the beginning.
    stolen_ns: u64,
    /// The current thread is charged up to there, in its own time, ns.
    charged_ns: u64,
    /// When the current vCPU's slice ends, and when its event is due.
    slice_end_ns: u64,
    slice_event_ns: u64,
    /// Contexts that find caches cold, who ran last in front.
    recent: Vec<ContextId>,
    pub(crate) bill: CoreBill,
}

/// In the window, ns.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreBill {
    pub(crate) interrupt_ns: u64,
    pub(crate) softirq_ns: u64,
    /// Of it, in ksoftirqd.
    pub(crate) ksoftirqd_ns: u64,
    pub(crate) thread_ns: u64,
    pub(crate) switches: u64,
    pub(crate) interrupts: u64,
}

/// What a CPU scheduler knows a context as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScheduledAs {
    /// Of no scheduler: a softirq.
    Softirq,
    /// A task under CFS.
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
    /// What its CPU scheduler knows it as.
    pub(crate) scheduled_as: ScheduledAs,
    pub(crate) runnable: bool,
    /// Disk requests that hold it up.
    pub(crate) blocked: u32,
    /// Workers that have work.
    pub(crate) list: VecDeque<WorkerId>,
    /// The worker in the middle of its poll.
    pub(crate) worker: Option<WorkerId>,
    /// Work that was interrupted, and what is left of it, ns.
    pub(crate) suspended: Option<(Work, u64)>,
    /// Switches and wake-ups to be paid, ps.
    pub(crate) overhead_ps: u64,
    pub(crate) wake_ps: u64,
    pub(crate) exit_ps: u64,
    pub(crate) cold_ps: u64,
    /// The router it worked for last, of those whose stages here have cold caches.
    pub(crate) last_router: Option<RouterId>,
    pub(crate) wake_mode: Mode,
    /// Whether it gives up its core between polls only.
    pub(crate) whole_polls: bool,
    /// What it ran before the window, ns.
    pub(crate) before_ns: u64,
    pub(crate) bill: ContextBill,
}

/// In the window.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContextBill {
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
    /// What CFS knows it as.
    #[inline]
    fn task(&self) -> Option<EntityId> {
        match self.scheduled_as {
            ScheduledAs::Task(task) => Some(task),
            ScheduledAs::Softirq | ScheduledAs::Vcpu(_) => None,
        }
    }

    /// Whether somebody else may have the core now.
    #[inline]
    fn may_leave(&self) -> bool {
        !self.whole_polls || self.worker.is_none()
    }

    /// What it has run for since the beginning, ns.
    pub(crate) fn ran_ns(&self) -> u64 {
        self.before_ns + self.bill.cpu_ns.iter().sum::<u64>()
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.list.is_empty() || self.worker.is_some() || self.suspended.is_some()
    }
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
            due_ns: u64::MAX,
            interrupts: VecDeque::new(),
            softirq: Run::default(),
            current: None,
            need_resched: false,
            stolen_ns: 0,
            charged_ns: 0,
            slice_end_ns: u64::MAX,
            slice_event_ns: u64::MAX,
            recent: Vec::new(),
            bill: CoreBill::default(),
        }
    }

    #[inline]
    fn start(&mut self, level: Level, work: Work, cost_ns: u64, now_ns: u64) {
        self.level = level;
        self.work = work;
        self.began_ns = now_ns;
        self.due_ns = now_ns + cost_ns;
    }

    fn end_interrupt(&mut self) {
        self.bill.interrupts += 1;
        self.softirq.invoked = true;
    }

    /// How many other contexts with cold caches have run since this one did; it runs now.
    #[inline]
    fn others_since(&mut self, id: ContextId, cold_ps: u64) -> u64 {
        if cold_ps == 0 {
            return 0;
        }
        let others = self.recent.iter().position(|&recent| recent == id);
        let others = others.unwrap_or(self.recent.len());
        if others < self.recent.len() {
            self.recent.remove(others);
        }
        self.recent.insert(0, id);
        u64::try_from(others).unwrap_or(u64::MAX)
    }

    /// The clock of threads: it stands while interrupts and softirqs run, if those are accounted for.
    fn thread_clock_ns(&self, now_ns: u64, irq_time_accounting: bool) -> u64 {
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

impl Engine {
    pub(crate) fn core_of(&self, context: ContextId) -> CoreId {
        let context = &self.contexts[context];
        match (&self.credit, context.scheduled_as) {
            (Some(credit), ScheduledAs::Vcpu(vcpu)) => credit.home(vcpu),
            _ => context.core,
        }
    }

    /// Puts the time since it began on the bill of the work at hand.
    #[inline]
    fn bill(&mut self, index: CoreId, now_ns: u64) {
        let core = &mut self.cores[index];
        let ns = now_ns - core.began_ns;
        core.began_ns = now_ns;
        let context = match core.level {
            Level::Idle => return,
            Level::Interrupt => {
                core.bill.interrupt_ns += ns;
                core.stolen_ns += ns;
                return;
            }
            Level::Softirq => {
                core.bill.softirq_ns += ns;
                if core.softirq.in_thread {
                    core.bill.ksoftirqd_ns += ns;
                } else {
                    core.stolen_ns += ns;
                }
                core.softirq.context
            }
            Level::Thread => {
                core.bill.thread_ns += ns;
                core.current
            }
        };
        if let Some(context) = context {
            self.contexts[context].bill.cpu_ns[index] += ns;
        }
    }

    /// Takes the work at hand off the core; it goes on later.
    fn suspend(&mut self, index: CoreId, now_ns: u64) {
        self.bill(index, now_ns);
        let core = &mut self.cores[index];
        let rest_ns = core.due_ns - now_ns;
        match (core.level, core.work) {
            (Level::Softirq, work) => core.softirq.suspended = Some((work, rest_ns)),
            (Level::Thread, Work::Overhead(context)) => {
                self.contexts[context].overhead_ps += rest_ns * PS;
            }
            (Level::Thread, work) => {
                let context = core.current.expect("a thread runs");
                self.contexts[context].suspended = Some((work, rest_ns));
            }
            (Level::Idle | Level::Interrupt, _) => {}
        }
        core.level = Level::Idle;
        core.due_ns = u64::MAX;
    }

    /// Interrupts the core.
    pub(crate) fn interrupt(&mut self, index: CoreId, why: Work, cost_ns: u64, now_ns: u64) {
        self.cores[index].interrupts.push_back((why, cost_ns));
        if self.cores[index].level != Level::Interrupt {
            self.suspend(index, now_ns);
            self.exit_guest(index);
            self.dispatch(index, now_ns);
        }
    }

    /// An interrupt takes the core from its thread.
    #[inline]
    fn exit_guest(&mut self, index: CoreId) {
        let core = &self.cores[index];
        if let (false, Some(current)) = (core.softirq.active, core.current) {
            let context = &mut self.contexts[current];
            if context.exit_ps > 0 {
                context.overhead_ps += context.exit_ps;
                context.bill.exits += 1;
            }
        }
    }

    /// The work at hand is done.
    #[inline]
    pub(crate) fn complete(&mut self, index: CoreId, now_ns: u64) {
        self.bill(index, now_ns);
        let core = &mut self.cores[index];
        match core.work {
            Work::Frame(worker) => {
                // `local_bh_enable`; not where a guest puts frames into a NIC of its own.
                let to_stack = !matches!(self.workers[worker].input, Input::Ring(_));
                if core.level == Level::Thread && to_stack && self.softirq_rules.on_transmit {
                    core.softirq.invoked |= core.softirq.context.is_some();
                }
                self.finish_frame(worker, now_ns);
            }
            Work::Load(load) => self.finish_load(load, now_ns),
            Work::Poll(_) | Work::Refuse(_) | Work::Notify(_) | Work::Overhead(_) => {}
            Work::Ring(ring) => {
                core.end_interrupt();
                let worker = self.rings[ring].worker.expect("only served rings are armed");
                self.raise(worker, now_ns);
            }
            Work::Tick => core.end_interrupt(),
        }
        self.dispatch(index, now_ns);
    }

    /// Finds the core something to do.
    fn dispatch(&mut self, index: CoreId, now_ns: u64) {
        loop {
            let core = &mut self.cores[index];
            if let Some((why, cost_ns)) = core.interrupts.pop_front() {
                core.start(Level::Interrupt, why, cost_ns, now_ns);
                return;
            }
            let step = if core.softirq.active {
                match self.softirq_step(index, now_ns) {
                    Step::Over => continue,
                    step @ Step::Work(..) => step,
                }
            } else if self.softirq_wanted(index) {
                self.begin_softirq(index, false, now_ns);
                continue;
            } else {
                match self.thread_step(index, now_ns) {
                    None => continue,
                    Some(step) => step,
                }
            };
            let core = &mut self.cores[index];
            let level = if core.softirq.active { Level::Softirq } else { Level::Thread };
            match step {
                Step::Work(work, cost_ns) => core.start(level, work, cost_ns, now_ns),
                Step::Over if level == Level::Thread && core.current.is_none() => {
                    core.level = Level::Idle;
                    core.due_ns = u64::MAX;
                }
                Step::Over => continue,
            }
            return;
        }
    }

    /// What the current thread does next, or who is next; `Over` with no current thread: nobody.
    /// None: look again from the top.
    fn thread_step(&mut self, index: CoreId, now_ns: u64) -> Option<Step> {
        loop {
            let core = &self.cores[index];
            let may_leave = |id: ContextId| self.contexts[id].may_leave();
            if core.current.is_none_or(|id| core.need_resched && may_leave(id)) {
                self.choose(index, now_ns);
            }
            let Some(id) = self.cores[index].current else { return Some(Step::Over) };
            if let step @ Step::Work(..) = self.context_step(id, now_ns) {
                return Some(step);
            }
            let context = &mut self.contexts[id];
            if context.blocked == 0
                && let Some(worker) = context.worker.take()
            {
                if self.end_poll(worker, now_ns) {
                    self.contexts[id].list.push_back(worker);
                }
            } else if context.overhead_ps >= PS {
                let overhead_ns = context.overhead_ps / PS;
                context.overhead_ps %= PS;
                return Some(Step::Work(Work::Overhead(id), overhead_ns));
            } else if context.is_ksoftirqd && self.softirq_pending(index) {
                self.begin_softirq(index, true, now_ns);
                return None;
            } else {
                self.fall_asleep(index, id, now_ns);
            }
            // Nothing here interrupts the core, but its softirq may have been raised.
            if self.cores[index].softirq.invoked {
                return None;
            }
        }
    }

    /// What a context that has the core does next; switches and wake-ups are paid with it.
    #[inline]
    fn context_step(&mut self, id: ContextId, now_ns: u64) -> Step {
        let context = &mut self.contexts[id];
        let step = if context.blocked > 0 || context.is_ksoftirqd {
            Step::Over
        } else if let Some((work, rest_ns)) = context.suspended.take() {
            Step::Work(work, rest_ns)
        } else if let Some(worker) = context.worker {
            self.next_step(worker, now_ns)
        } else if let Some(worker) = context.list.pop_front() {
            context.worker = Some(worker);
            self.begin_poll(worker, now_ns)
        } else {
            Step::Over
        };
        let Step::Work(work, cost_ns) = step else { return Step::Over };
        let context = &mut self.contexts[id];
        if context.overhead_ps < PS {
            return step;
        }
        let overhead_ns = context.overhead_ps / PS;
        context.overhead_ps %= PS;
        Step::Work(work, cost_ns + overhead_ns)
    }

    /// There is something to do for this context.
    #[inline]
    pub(crate) fn rouse(&mut self, id: ContextId, now_ns: u64) {
        let context = &mut self.contexts[id];
        if context.kind == ContextKind::Softirq {
            let core = context.core;
            self.cores[core].softirq.invoked = true;
            self.kicks.push(core);
            return;
        }
        if context.runnable || context.blocked > 0 {
            return;
        }
        self.wake(id, now_ns);
    }

    /// `try_to_wake_up`.
    #[inline]
    pub(crate) fn wake(&mut self, id: ContextId, now_ns: u64) {
        let context = &mut self.contexts[id];
        if context.runnable {
            return;
        }
        context.runnable = true;
        context.bill.wakes += 1;
        context.overhead_ps += context.wake_ps;
        match context.scheduled_as {
            ScheduledAs::Vcpu(vcpu) => self.wake_vcpu(vcpu, now_ns),
            ScheduledAs::Task(task) => {
                let core = context.core;
                self.wake_task(core, task, now_ns);
            }
            ScheduledAs::Softirq => unreachable!("softirqs are raised, not woken"),
        }
    }

    #[inline]
    fn wake_vcpu(&mut self, vcpu: VcpuId, now_ns: u64) {
        let credit = self.credit.as_mut().expect("vCPUs are under the credit scheduler");
        match credit.wake(vcpu, now_ns) {
            Some((core, at_ns)) if at_ns > now_ns => {
                let ends_ns = self.cores[core].slice_end_ns;
                self.plan_slice(core, ends_ns.min(at_ns));
            }
            Some((core, _)) => self.resched(core),
            None => {}
        }
    }

    #[inline]
    fn wake_task(&mut self, index: CoreId, task: EntityId, now_ns: u64) {
        self.charge(index, now_ns);
        let core = &mut self.cores[index];
        let running = core.current.and_then(|current| self.contexts[current].task());
        let CpuScheduler::Cfs(cfs) = &mut core.scheduler else { return };
        cfs.wake(task);
        if running.is_none_or(|running| cfs.preempts(task, running)) {
            self.resched(index);
        }
    }

    #[inline]
    pub(crate) fn resched(&mut self, core: CoreId) {
        self.cores[core].need_resched = true;
        self.kicks.push(core);
    }

    /// After whatever has just happened: cores that something was found for, or that have to choose
    /// anew.
    #[inline]
    pub(crate) fn settle(&mut self, now_ns: u64) {
        while let Some(index) = self.kicks.pop() {
            let core = &self.cores[index];
            let stop = match core.level {
                Level::Idle => true,
                Level::Thread => core.need_resched || self.softirq_wanted(index),
                Level::Interrupt | Level::Softirq => false,
            };
            if stop {
                self.suspend(index, now_ns);
                self.dispatch(index, now_ns);
            }
        }
    }

    /// `update_curr`; under the credit scheduler ticks charge.
    #[inline]
    fn charge(&mut self, index: CoreId, now_ns: u64) {
        if let CpuScheduler::Cfs(_) = self.cores[index].scheduler {
            self.charge_fair(index, now_ns);
        }
    }

    fn charge_fair(&mut self, index: CoreId, now_ns: u64) {
        let core = &mut self.cores[index];
        let CpuScheduler::Cfs(cfs) = &mut core.scheduler else { return };
        let accounting = cfs.settings().irq_time_accounting;
        let clock_ns = core.thread_clock_ns(now_ns, accounting);
        let ran_ns = clock_ns - core.charged_ns;
        let core = &mut self.cores[index];
        core.charged_ns = clock_ns;
        let task = core.current.and_then(|current| self.contexts[current].task());
        if let (Some(task), CpuScheduler::Cfs(cfs)) = (task, &mut core.scheduler) {
            cfs.charge(task, ran_ns);
        }
    }

    #[inline]
    fn fall_asleep(&mut self, index: CoreId, id: ContextId, now_ns: u64) {
        self.charge(index, now_ns);
        let context = &mut self.contexts[id];
        context.runnable = false;
        let core = &mut self.cores[index];
        core.current = None;
        match (context.scheduled_as, &mut core.scheduler, &mut self.credit) {
            (ScheduledAs::Task(task), CpuScheduler::Cfs(cfs), _) => cfs.sleep(task),
            (ScheduledAs::Vcpu(vcpu), CpuScheduler::Credit, Some(credit)) => {
                credit.sleep(vcpu, now_ns);
            }
            _ => unreachable!("a context runs under the scheduler that knows it"),
        }
    }

    /// `schedule`: chooses who has the core.
    #[inline]
    fn choose(&mut self, index: CoreId, now_ns: u64) {
        self.charge(index, now_ns);
        let core = &mut self.cores[index];
        core.need_resched = false;
        let before = core.current;
        let next = match &mut core.scheduler {
            CpuScheduler::Cfs(cfs) => cfs.choose().and_then(|task| self.tasks[index][task]),
            CpuScheduler::Credit => {
                let credit = self.credit.as_mut().expect("such a core has it");
                credit.choose(index, now_ns).map(|vcpu| self.vcpus[vcpu])
            }
        };
        core.current = next;
        let Some(id) = next else { return };
        if let (CpuScheduler::Credit, Some(credit)) = (&core.scheduler, &self.credit) {
            let slice_ns = credit.settings().slice_ns;
            self.plan_slice(index, now_ns + slice_ns);
        }
        let core = &mut self.cores[index];
        if next != before {
            core.bill.switches += 1;
            let context = &mut self.contexts[id];
            context.bill.switches += 1;
            let cost_ps = core.switch_ps + context.cold_ps * core.others_since(id, context.cold_ps);
            context.bill.switch_ps += cost_ps;
            context.overhead_ps += cost_ps;
        }
    }

    /// A core's timer.
    pub(crate) fn tick(&mut self, index: CoreId, now_ns: u64) {
        let core = &self.cores[index];
        let tick_ns = match &core.scheduler {
            CpuScheduler::Cfs(cfs) => cfs.settings().tick_ns,
            CpuScheduler::Credit => self.credit.as_ref().map_or(0, |c| c.settings().tick_ns),
        };
        self.events.push(now_ns + tick_ns, Event::Tick(index));
        if self.cores[index].level == Level::Idle {
            return;
        }
        self.charge(index, now_ns);
        let core = &mut self.cores[index];
        match &mut core.scheduler {
            CpuScheduler::Cfs(cfs) => {
                let task = core.current.and_then(|current| self.contexts[current].task());
                if task.is_some_and(|task| cfs.tick(task)) {
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
        self.interrupt(index, Work::Tick, cost_ns, now_ns);
    }

    /// Credit is given.
    pub(crate) fn account(&mut self, now_ns: u64) {
        let Some(credit) = &mut self.credit else { return };
        let slice_ns = credit.settings().slice_ns;
        for core in credit.account(now_ns) {
            self.resched(core);
        }
        self.events.push(now_ns + slice_ns, Event::Account);
    }

    /// One event at a time: slices are put off far more often than they end.
    #[inline]
    fn plan_slice(&mut self, index: CoreId, ends_ns: u64) {
        let core = &mut self.cores[index];
        core.slice_end_ns = ends_ns;
        if ends_ns < core.slice_event_ns {
            core.slice_event_ns = ends_ns;
            self.events.push(ends_ns, Event::Slice(index));
        }
    }

    pub(crate) fn slice_over(&mut self, index: CoreId, now_ns: u64) {
        let core = &mut self.cores[index];
        if core.slice_event_ns != now_ns {
            return;
        }
        core.slice_event_ns = u64::MAX;
        if core.current.is_none() {
            core.slice_end_ns = u64::MAX;
        } else if now_ns >= core.slice_end_ns {
            self.resched(index);
        } else {
            let ends_ns = core.slice_end_ns;
            self.plan_slice(index, ends_ns);
        }
    }

    /// The window begins or ends: what is under way counts up to here, or from here on.
    pub(crate) fn cut(&mut self, now_ns: u64) {
        for index in self.cores.ids() {
            self.bill(index, now_ns);
        }
    }

    /// How much of the work that each context has at hand is done already, and how much that it is
    /// billed for is still to be done, ns: the difference.
    pub(crate) fn under_way_ns(&self, id: ContextId) -> i64 {
        let context = &self.contexts[id];
        let mut ns = -i64::try_from(context.overhead_ps / PS).unwrap_or(0);
        let mut add = |work: Work, rest_ns: u64| ns += self.progress_ns(work, rest_ns);
        if let Some((work, rest_ns)) = context.suspended {
            add(work, rest_ns);
        }
        for core in &self.cores {
            let softirq = context.kind == ContextKind::Softirq && core.softirq.context == Some(id);
            if let (true, Some((work, rest_ns))) = (softirq, core.softirq.suspended) {
                add(work, rest_ns);
            }
            let at_hand = match core.level {
                Level::Softirq => softirq,
                Level::Thread => core.current == Some(id),
                Level::Idle | Level::Interrupt => false,
            };
            if at_hand {
                add(core.work, core.due_ns - core.began_ns);
            }
        }
        ns
    }

    /// Positive: done but not yet billed. Negative: billed but not yet done.
    fn progress_ns(&self, work: Work, rest_ns: u64) -> i64 {
        let whole_ns = match work {
            Work::Frame(worker) => {
                let worker = &self.workers[worker];
                let frame = worker.frame.as_ref().expect("work on a frame has one");
                let route = worker.routes[frame.router].as_ref();
                let route = route.expect("frames follow paths");
                let cold_ps = if worker.cold { route.cold_ps } else { 0 };
                (route.cost_ps(frame) + cold_ps) / PS
            }
            Work::Load(load) => self.loads[load].piece_ns,
            Work::Poll(_)
            | Work::Refuse(_)
            | Work::Notify(_)
            | Work::Overhead(_)
            | Work::Ring(_)
            | Work::Tick => 0,
        };
        i64::try_from(whole_ns).unwrap_or(0) - i64::try_from(rest_ns).unwrap_or(0)
    }
}
