//! Who has a core: waking, sleeping, choosing, by Linux's fair schedulers or Xen's credit scheduler.

use super::{context::ScheduledAs, core::CpuScheduler, state::Cpu};
use crate::{
    engine::{
        events::{Event, Events},
        frame::NEVER,
        ids::{ContextId, CoreId, EntityId, VcpuId, WorkerId},
    },
    model::ContextKind,
};

/// Waking, sleeping, choosing.
impl Cpu {
    /// There is something to do for this context.
    #[inline]
    pub(super) fn wake(&mut self, id: ContextId, events: &mut Events, now_ns: u64) {
        let context = &mut self.contexts[id];
        if context.kind == ContextKind::Softirq {
            let core = context.core;
            self.cores[core].softirq.invoked = true;
            self.reschedule_pending.push(core);
        } else if context.blocked == 0 {
            self.try_to_wake_up(id, events, now_ns);
        }
    }

    /// `try_to_wake_up`.
    #[inline]
    pub(super) fn try_to_wake_up(&mut self, id: ContextId, events: &mut Events, now_ns: u64) {
        let context = &mut self.contexts[id];
        if context.runnable {
            return;
        }
        context.runnable = true;
        context.account.wakes += 1;
        context.overhead_ps += context.costs.wake_ps;
        match context.scheduled_as {
            ScheduledAs::Vcpu(vcpu) => self.wake_vcpu(vcpu, events, now_ns),
            ScheduledAs::Task(task) => {
                let core = context.core;
                self.wake_task(core, task, now_ns);
            }
            ScheduledAs::Softirq => unreachable!("softirqs are raised, not woken"),
        }
    }

    #[inline]
    fn wake_vcpu(&mut self, vcpu: VcpuId, events: &mut Events, now_ns: u64) {
        let credit = self.credit.as_mut().expect("vCPUs are under the credit scheduler");
        match credit.wake(vcpu, now_ns) {
            Some((core, at_ns)) if at_ns > now_ns => {
                let ends_ns = self.cores[core].slice_end_ns;
                self.plan_slice(core, ends_ns.min(at_ns), events);
            }
            Some((core, _)) => self.request_reschedule(core),
            None => {}
        }
    }

    #[inline]
    fn wake_task(&mut self, index: CoreId, task: EntityId, now_ns: u64) {
        let core = &mut self.cores[index];
        let running = core.current.and_then(|current| self.contexts[current].task());
        if let CpuScheduler::Fair(fair, _) = &mut core.scheduler
            && fair.requeue(task)
            && running.is_some()
        {
            fair.wake(task);
            return;
        }
        self.charge(index, now_ns);
        let core = &mut self.cores[index];
        let CpuScheduler::Fair(fair, _) = &mut core.scheduler else { return };
        fair.wake(task);
        if running.is_none_or(|running| fair.preempts(task, running)) {
            self.request_reschedule(index);
        }
    }

    /// `resched_curr`.
    #[inline]
    pub(super) fn request_reschedule(&mut self, core: CoreId) {
        self.cores[core].need_resched = true;
        self.reschedule_pending.push(core);
    }

    #[inline]
    pub(super) fn fall_asleep(&mut self, index: CoreId, id: ContextId, now_ns: u64) {
        self.charge(index, now_ns);
        let context = &mut self.contexts[id];
        context.runnable = false;
        let core = &mut self.cores[index];
        core.current = None;
        match (context.scheduled_as, &mut core.scheduler, &mut self.credit) {
            (ScheduledAs::Task(task), CpuScheduler::Fair(fair, _), _) => fair.sleep(task),
            (ScheduledAs::Vcpu(vcpu), CpuScheduler::Credit, Some(credit)) => {
                credit.sleep(vcpu, now_ns);
            }
            _ => unreachable!("a context runs under the scheduler that knows it"),
        }
    }

    /// `schedule`: chooses who has the core.
    #[inline]
    pub(super) fn choose(&mut self, index: CoreId, events: &mut Events, now_ns: u64) {
        self.charge(index, now_ns);
        let core = &mut self.cores[index];
        core.need_resched = false;
        let before = core.current;
        let next = match &mut core.scheduler {
            CpuScheduler::Fair(fair, tasks) => fair.choose().and_then(|task| tasks[task]),
            CpuScheduler::Credit => {
                let credit = self.credit.as_mut().expect("such a core has it");
                credit.choose(index, now_ns).map(|vcpu| self.vcpus[vcpu])
            }
        };
        core.current = next;
        let Some(id) = next else { return };
        if let (CpuScheduler::Credit, Some(credit)) = (&core.scheduler, &self.credit) {
            let slice_ns = credit.settings().slice_ns;
            self.plan_slice(index, now_ns + slice_ns, events);
        }
        if next != before {
            self.pay_switch(index, id);
        }
    }

    #[inline]
    fn pay_switch(&mut self, index: CoreId, id: ContextId) {
        let core = &mut self.cores[index];
        core.account.switches += 1;
        let context = &mut self.contexts[id];
        context.account.switches += 1;
        let mut cost_ps = core.switch_ps;
        if context.costs.cold_ps > 0 {
            cost_ps += context.costs.cold_ps * core.recent.others_since(id);
        }
        context.account.switch_ps += cost_ps;
        context.overhead_ps += cost_ps;
    }

    /// `update_curr`; under the credit scheduler ticks charge.
    #[inline]
    pub(super) fn charge(&mut self, index: CoreId, now_ns: u64) {
        if let CpuScheduler::Fair(..) = self.cores[index].scheduler {
            self.charge_fair(index, now_ns);
        }
    }

    fn charge_fair(&mut self, index: CoreId, now_ns: u64) {
        let core = &mut self.cores[index];
        let CpuScheduler::Fair(fair, _) = &core.scheduler else { return };
        let clock_ns = core.thread_clock_ns(now_ns, fair.irq_time_accounting());
        let ran_ns = clock_ns - core.charged_ns;
        core.charged_ns = clock_ns;
        let task = core.current.and_then(|current| self.contexts[current].task());
        if let (Some(task), CpuScheduler::Fair(fair, _)) = (task, &mut core.scheduler)
            && fair.charge(task, ran_ns)
        {
            self.request_reschedule(index);
        }
    }

    /// That disk request is done.
    pub(crate) fn unblock(&mut self, worker: WorkerId, events: &mut Events, now_ns: u64) {
        let id = self.polls[worker].context;
        let context = &mut self.contexts[id];
        context.blocked -= 1;
        if context.has_work() {
            self.wake(id, events, now_ns);
        }
    }
}

/// Slices and credit.
impl Cpu {
    pub(super) fn tick_ns(&self, core: CoreId) -> u64 {
        match &self.cores[core].scheduler {
            CpuScheduler::Fair(fair, _) => fair.tick_ns(),
            CpuScheduler::Credit => self.credit.as_ref().map_or(0, |c| c.settings().tick_ns),
        }
    }

    /// Each vCPU gets its credit.
    pub(crate) fn give_credit(&mut self, events: &mut Events, now_ns: u64) {
        let Some(credit) = &mut self.credit else { return };
        let slice_ns = credit.settings().slice_ns;
        for core in credit.give(now_ns) {
            self.request_reschedule(core);
        }
        events.push(now_ns + slice_ns, Event::GiveCredit);
    }

    /// One event at a time: slices are put off far more often than they end.
    #[inline]
    fn plan_slice(&mut self, index: CoreId, ends_ns: u64, events: &mut Events) {
        let core = &mut self.cores[index];
        core.slice_end_ns = ends_ns;
        if ends_ns < core.slice_event_ns {
            core.slice_event_ns = ends_ns;
            events.push(ends_ns, Event::Slice(index));
        }
    }

    /// A core's slice ends, unless that was put off.
    pub(crate) fn slice_over(&mut self, index: CoreId, events: &mut Events, now_ns: u64) {
        let core = &mut self.cores[index];
        if core.slice_event_ns != now_ns {
            return;
        }
        core.slice_event_ns = NEVER;
        if core.current.is_none() {
            core.slice_end_ns = NEVER;
        } else if now_ns >= core.slice_end_ns {
            self.request_reschedule(index);
        } else {
            let ends_ns = core.slice_end_ns;
            self.plan_slice(index, ends_ns, events);
        }
    }
}
