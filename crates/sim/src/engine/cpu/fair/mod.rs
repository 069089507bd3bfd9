//! Linux's fair schedulers on one core, with one level of cgroups: [`cfs`] until 6.5, [`eevdf`] since 6.6.

mod cfs;
mod eevdf;
mod groups;
mod task;

pub(crate) use self::task::Task;
use self::{cfs::Cfs, eevdf::Eevdf};
use crate::{engine::ids::EntityId, model};

/// A fair scheduler.
#[derive(Debug, Clone)]
pub(crate) enum Fair {
    Cfs(Cfs),
    Eevdf(Eevdf),
}

macro_rules! either {
    ($self:expr, $scheduler:ident => $call:expr) => {
        match $self {
            Self::Cfs($scheduler) => $call,
            Self::Eevdf($scheduler) => $call,
        }
    };
}

impl Fair {
    pub(crate) fn cfs(settings: model::Cfs) -> Self {
        Self::Cfs(Cfs::new(settings))
    }

    pub(crate) fn eevdf(settings: model::Eevdf) -> Self {
        Self::Eevdf(Eevdf::new(settings))
    }

    pub(crate) fn has_slices(&self) -> bool {
        matches!(self, Self::Eevdf(_))
    }

    /// Between two ticks, or beats.
    pub(crate) fn tick_ns(&self) -> u64 {
        match self {
            Self::Cfs(of) => of.settings().tick_ns,
            Self::Eevdf(of) => of.settings().beat_ns.unwrap_or(of.settings().tick_ns),
        }
    }

    pub(crate) fn irq_time_accounting(&self) -> bool {
        either!(self, of => of.settings().irq_time_accounting)
    }

    /// A new task in the core's queue, or in a group's.
    pub(crate) fn add_task(&mut self, task: Task, group: Option<EntityId>) -> EntityId {
        either!(self, of => of.add_task(task, group))
    }

    pub(crate) fn add_group(&mut self, shares: u64) -> EntityId {
        either!(self, of => of.add_group(shares))
    }

    pub(crate) fn set_weight(&mut self, entity: EntityId, weight: u64) {
        either!(self, of => of.set_weight(entity, weight));
    }

    /// `update_curr`: the running task has used so much more of the core. Whether another one is to be chosen.
    pub(crate) fn charge(&mut self, task: EntityId, ran_ns: u64) -> bool {
        match self {
            Self::Cfs(of) => {
                of.charge(task, ran_ns);
                false
            }
            Self::Eevdf(of) => of.charge(task, ran_ns),
        }
    }

    /// What a wake-up does before the running task is charged; whether it is not charged at all.
    pub(crate) fn requeue(&mut self, task: EntityId) -> bool {
        match self {
            Self::Cfs(_) => false,
            Self::Eevdf(of) => of.requeue(task),
        }
    }

    /// `enqueue_task` with `ENQUEUE_WAKEUP`.
    pub(crate) fn wake(&mut self, task: EntityId) {
        either!(self, of => of.wake(task));
    }

    /// `dequeue_task` with `DEQUEUE_SLEEP`.
    pub(crate) fn sleep(&mut self, task: EntityId) {
        either!(self, of => of.sleep(task));
    }

    /// The task that is next.
    pub(crate) fn choose(&mut self) -> Option<EntityId> {
        either!(self, of => of.choose())
    }

    /// `wakeup_preempt`: whether a task that has woken goes before the one that runs.
    pub(crate) fn preempts(&mut self, woken: EntityId, running: EntityId) -> bool {
        either!(self, of => of.preempts(woken, running))
    }

    /// `task_tick_fair`: whether the running task's time is over.
    pub(crate) fn tick(&mut self, running: EntityId) -> bool {
        either!(self, of => of.tick(running))
    }
}
