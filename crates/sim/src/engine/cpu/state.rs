//! The CPU's state: cores, the contexts that run on them, whose poll is scheduled; and CPU accounting.

use super::{
    context::{Context, ContextCosts, ScheduledAs},
    core::{Core, CoreAccount, CpuScheduler, Level},
    credit::Credit,
    fair::Task,
    work::{Job, PS},
};
use crate::{
    engine::ids::{ContextId, CoreId, EntityId, GroupId, RouterId, Table, VcpuId, WorkerId},
    model::{ContextKind, Softirq},
};

/// Whose poll it is, and whether it is on its context's poll list or under way (`NAPI_STATE_SCHED`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Poll {
    pub(super) context: ContextId,
    pub(super) scheduled: bool,
}

#[derive(Debug)]
pub(crate) struct Cpu {
    pub(super) cores: Table<CoreId, Core>,
    pub(super) contexts: Table<ContextId, Context>,
    pub(super) polls: Table<WorkerId, Poll>,
    /// The context of each vCPU of the credit scheduler.
    pub(super) vcpus: Table<VcpuId, ContextId>,
    /// By group and core: the group's entity in the core's scheduler.
    pub(super) groups: Table<GroupId, Table<CoreId, Option<EntityId>>>,
    pub(super) credit: Option<Credit>,
    pub(super) softirq_rules: Softirq,
    /// Cores to be looked at after what happens now.
    pub(super) reschedule_pending: Vec<CoreId>,
}

/// Building.
impl Cpu {
    pub(crate) fn new(
        cores: Table<CoreId, Core>,
        credit: Option<Credit>,
        softirq_rules: Softirq,
    ) -> Self {
        Self {
            cores,
            contexts: Table::default(),
            polls: Table::default(),
            vcpus: Table::default(),
            groups: Table::default(),
            credit,
            softirq_rules,
            reschedule_pending: Vec::new(),
        }
    }

    pub(crate) fn softirq_rules(&self) -> &Softirq {
        &self.softirq_rules
    }

    pub(crate) fn cores(&self) -> &Table<CoreId, Core> {
        &self.cores
    }

    pub(crate) fn contexts(&self) -> &Table<ContextId, Context> {
        &self.contexts
    }

    pub(crate) fn add_group(&mut self) {
        self.groups.push(Table::filled(None, self.cores.len()));
    }

    /// Whether the core had no softirq yet.
    pub(crate) fn add_softirq(&mut self, name: &str, core: CoreId, costs: ContextCosts) -> bool {
        let context =
            self.add_context(name, ContextKind::Softirq, ScheduledAs::Softirq, core, costs);
        self.cores[core].softirq.context.replace(context).is_none()
    }

    /// A thread or process, in a group with these shares.
    #[expect(clippy::too_many_arguments, reason = "each is a key of the model")]
    pub(crate) fn add_task(
        &mut self,
        name: &str,
        kind: ContextKind,
        core: CoreId,
        task: Task,
        group: Option<(GroupId, u32)>,
        costs: ContextCosts,
    ) -> ContextId {
        let context = self.contexts.next_id();
        let CpuScheduler::Fair(fair, tasks) = &mut self.cores[core].scheduler else {
            unreachable!("threads and processes are under a fair scheduler");
        };
        let group = group.map(|(group, shares)| {
            *self.groups[group][core].get_or_insert_with(|| {
                // Groups and tasks are numbered together.
                tasks.push(None);
                fair.add_group(shares.into())
            })
        });
        tasks.push(Some(context));
        let task = fair.add_task(task, group);
        self.add_context(name, kind, ScheduledAs::Task(task), core, costs)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a key of the model")]
    pub(crate) fn add_vcpu(
        &mut self,
        name: &str,
        cores: Vec<CoreId>,
        weight: u32,
        cap_pct: u32,
        costs: ContextCosts,
    ) {
        self.vcpus.push(self.contexts.next_id());
        let core = cores[0];
        let credit = self.credit.as_mut().expect("its core is under the credit scheduler");
        let vcpu = credit.add(weight, cap_pct, cores);
        self.add_context(name, ContextKind::Vcpu, ScheduledAs::Vcpu(vcpu), core, costs);
    }

    /// For each core that has a softirq.
    pub(crate) fn add_ksoftirqds(&mut self) {
        for core in self.cores.ids() {
            if self.cores[core].softirq.context.is_some() {
                let name = format!("ksoftirqd/{}", self.cores[core].name);
                let costs = ContextCosts::default();
                let task = Task::of_nice(0);
                let id = self.add_task(&name, ContextKind::Thread, core, task, None, costs);
                self.contexts[id].is_ksoftirqd = true;
                self.cores[core].softirq.ksoftirqd = Some(id);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what all kinds of context have")]
    fn add_context(
        &mut self,
        name: &str,
        kind: ContextKind,
        scheduled_as: ScheduledAs,
        core: CoreId,
        costs: ContextCosts,
    ) -> ContextId {
        let mut context = Context::new(name, kind, scheduled_as, core, self.cores.len());
        context.costs = costs;
        self.contexts.push(context)
    }

    /// A worker's polls run in this context.
    pub(crate) fn add_poll(&mut self, context: ContextId) -> WorkerId {
        self.polls.push(Poll { context, scheduled: false })
    }

    #[inline]
    pub(crate) fn context_of(&self, worker: WorkerId) -> ContextId {
        self.polls[worker].context
    }
}

/// What others ask of contexts, and changes.
impl Cpu {
    /// Where a context's interrupts go.
    pub(crate) fn core_of(&self, context: ContextId) -> CoreId {
        let context = &self.contexts[context];
        match (&self.credit, context.scheduled_as) {
            (Some(credit), ScheduledAs::Vcpu(vcpu)) => credit.home(vcpu),
            _ => context.core,
        }
    }

    /// Whether the worker's context finds caches cold for this router, because it worked for another before.
    #[inline]
    pub(crate) fn finds_cold_caches(&mut self, worker: WorkerId, router: RouterId) -> bool {
        let context = self.polls[worker].context;
        self.contexts[context].serve(router)
    }

    /// A disk request holds up a worker's context.
    pub(crate) fn block(&mut self, worker: WorkerId) {
        let context = self.polls[worker].context;
        self.contexts[context].blocked += 1;
    }

    pub(crate) fn set_shares(&mut self, group: GroupId, shares: u64, now_ns: u64) {
        for index in self.cores.ids() {
            self.charge(index, now_ns);
        }
        for (core, entity) in self.groups[group].enumerate() {
            let scheduler = &mut self.cores[core].scheduler;
            if let (Some(entity), CpuScheduler::Fair(fair, _)) = (*entity, scheduler) {
                fair.set_weight(entity, shares);
            }
        }
    }

    pub(crate) fn set_vcpu(&mut self, context: ContextId, weight: u32, cap_pct: u32) {
        let scheduled_as = self.contexts[context].scheduled_as;
        if let (ScheduledAs::Vcpu(vcpu), Some(credit)) = (scheduled_as, &mut self.credit) {
            credit.set(vcpu, weight, cap_pct);
        }
    }
}

/// CPU accounting.
impl Cpu {
    /// Adds the time since the work at hand began to the accounts of the core and of its context.
    #[inline]
    pub(super) fn account_time(&mut self, index: CoreId, now_ns: u64) {
        if let Some((context, ns)) = self.cores[index].account_time(now_ns) {
            self.contexts[context].account.cpu_ns[index] += ns;
        }
    }

    /// The CPU time that a context has had so far, ns.
    pub(crate) fn ran_ns(&self, context: ContextId) -> u64 {
        self.contexts[context].ran_ns()
    }

    /// The window begins or ends: what is under way counts up to here, or from here on.
    pub(crate) fn cut(&mut self, now_ns: u64) {
        for core in self.cores.ids() {
            self.account_time(core, now_ns);
        }
    }

    /// `under_way_ns`: by context, what [`Self::at_hand`] tells of it.
    pub(crate) fn begin_window(&mut self, under_way_ns: &Table<ContextId, i64>) {
        for core in &mut self.cores {
            core.account = CoreAccount::default();
        }
        for (context, ns) in under_way_ns.enumerate() {
            self.contexts[context].begin_window(-ns);
        }
    }

    /// What a context has begun and not done: pieces of work, each with what is left of it.
    pub(crate) fn at_hand(&self, id: ContextId) -> Vec<Job> {
        let context = &self.contexts[id];
        let mut jobs = Vec::from_iter(context.suspended);
        for core in &self.cores {
            let softirq = context.kind == ContextKind::Softirq && core.softirq.context == Some(id);
            if softirq {
                jobs.extend(core.softirq.suspended);
            }
            let at_hand = match core.level {
                Level::Softirq => softirq,
                Level::Thread => core.current == Some(id),
                Level::Idle | Level::Interrupt => false,
            };
            if at_hand {
                jobs.push(Job { work: core.work, cost_ns: core.due_ns - core.began_ns });
            }
        }
        jobs
    }

    /// Switches and wake-ups that a context has still to pay, ns.
    pub(crate) fn overhead_ns(&self, id: ContextId) -> u64 {
        self.contexts[id].overhead_ps / PS
    }
}
