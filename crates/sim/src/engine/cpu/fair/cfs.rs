//! Linux's completely fair scheduler on one core: `kernel/sched/fair.c` as of 3.2 (until 6.5 the same in
//! what is here), with one level of cgroups. Not here: balancing between cores, buddies.
//!
//! Entities are tasks and groups. Each queue (the core's, and one per group) serves the entity with the
//! minimum of virtual runtime; a waking one gets the queue's minimum, less half a latency.

use super::{
    groups::{Groups, top},
    task::{NICE_0, Task},
};
use crate::{
    engine::ids::{EntityId, RunQueueId, Table},
    model,
};

#[derive(Debug, Clone)]
struct Entity {
    weight: u64,
    vruntime: u64,
    /// Part of a unit of `vruntime` not yet added, times the weight.
    remainder: u64,
    ran_ns: u64,
    /// `ran_ns` when it was last chosen.
    chosen_ns: u64,
    queued: bool,
    /// `SCHED_BATCH`.
    batch: bool,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    min_vruntime: u64,
    load: u64,
    running: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Cfs {
    settings: model::Cfs,
    groups: Groups,
    entities: Table<EntityId, Entity>,
    queues: Table<RunQueueId, Queue>,
}

impl Cfs {
    pub(super) fn new(settings: model::Cfs) -> Self {
        let queues = Table::filled(Queue::default(), 1);
        Self { settings, groups: Groups::new(), entities: Table::default(), queues }
    }

    pub(super) fn settings(&self) -> &model::Cfs {
        &self.settings
    }

    pub(super) fn add_task(&mut self, task: Task, group: Option<EntityId>) -> EntityId {
        self.add(task.weight, task.batch);
        self.groups.add_task(group)
    }

    pub(super) fn add_group(&mut self, shares: u64) -> EntityId {
        self.add(shares, false);
        self.queues.push(Queue::default());
        self.groups.add_group()
    }

    fn add(&mut self, weight: u64, batch: bool) {
        self.entities.push(Entity {
            weight,
            vruntime: 0,
            remainder: 0,
            ran_ns: 0,
            chosen_ns: 0,
            queued: false,
            batch,
        });
    }

    pub(super) fn set_weight(&mut self, entity: EntityId, weight: u64) {
        let Entity { queued, weight: old, .. } = self.entities[entity];
        if queued {
            let queue = self.groups.queue_of(entity);
            self.queues[queue].load += weight;
            self.queues[queue].load -= old;
        }
        self.entities[entity].weight = weight;
        self.entities[entity].remainder = 0;
    }

    pub(super) fn charge(&mut self, task: EntityId, ran_ns: u64) {
        for id in self.groups.chain(task) {
            let entity = &mut self.entities[id];
            entity.ran_ns += ran_ns;
            let units = ran_ns * NICE_0 + entity.remainder;
            entity.vruntime += units / entity.weight;
            entity.remainder = units % entity.weight;
            self.update_min(self.groups.queue_of(id));
        }
    }

    fn update_min(&mut self, queue: RunQueueId) {
        if let Some(first) = self.first(queue) {
            let min_vruntime = self.entities[first].vruntime;
            let queue = &mut self.queues[queue];
            queue.min_vruntime = queue.min_vruntime.max(min_vruntime);
        }
    }

    fn first(&self, queue: RunQueueId) -> Option<EntityId> {
        let queued = self.groups.members(queue).iter().copied();
        queued
            .filter(|&id| self.entities[id].queued)
            .min_by_key(|&id| (self.entities[id].vruntime, id))
    }

    pub(super) fn wake(&mut self, task: EntityId) {
        for id in self.groups.chain(task) {
            if self.entities[id].queued {
                break;
            }
            let queue = self.groups.queue_of(id);
            self.update_min(queue);
            let (entity, queue) = (&mut self.entities[id], &mut self.queues[queue]);
            let placed = queue.min_vruntime.saturating_sub(self.settings.latency_ns / 2);
            entity.vruntime = entity.vruntime.max(placed);
            entity.queued = true;
            queue.load += entity.weight;
            queue.running += 1;
        }
    }

    pub(super) fn sleep(&mut self, task: EntityId) {
        for id in self.groups.chain(task) {
            let entity = &mut self.entities[id];
            entity.queued = false;
            let at = self.groups.queue_of(id);
            let queue = &mut self.queues[at];
            queue.load -= entity.weight;
            queue.running -= 1;
            self.update_min(at);
            if self.queues[at].running > 0 {
                break;
            }
        }
    }

    pub(super) fn choose(&mut self) -> Option<EntityId> {
        let mut queue = top();
        loop {
            let first = self.first(queue)?;
            self.entities[first].chosen_ns = self.entities[first].ran_ns;
            match self.groups.owned_by(first) {
                Some(owned) => queue = owned,
                None => return Some(first),
            }
        }
    }

    /// `check_preempt_wakeup`.
    pub(super) fn preempts(&self, woken: EntityId, running: EntityId) -> bool {
        if self.entities[woken].batch {
            return false;
        }
        let (woken, running) = self.groups.matching(woken, running);
        let (woken, running) = (&self.entities[woken], &self.entities[running]);
        let granularity = self.settings.wakeup_granularity_ns * NICE_0 / woken.weight;
        running.vruntime > woken.vruntime.saturating_add(granularity)
    }

    pub(super) fn tick(&self, running: EntityId) -> bool {
        self.groups.chain(running).any(|id| self.tick_entity(id))
    }

    fn tick_entity(&self, id: EntityId) -> bool {
        let (entity, queue) = (&self.entities[id], self.groups.queue_of(id));
        if self.queues[queue].running <= 1 {
            return false;
        }
        let slice_ns = self.slice_ns(id);
        let ran_ns = entity.ran_ns - entity.chosen_ns;
        if ran_ns > slice_ns {
            return true;
        }
        let first = self.first(queue);
        ran_ns >= self.settings.min_granularity_ns
            && first.is_some_and(|first| {
                entity.vruntime > self.entities[first].vruntime.saturating_add(slice_ns)
            })
    }

    /// `sched_slice`.
    fn slice_ns(&self, id: EntityId) -> u64 {
        let model::Cfs { latency_ns, min_granularity_ns, .. } = self.settings;
        let running = self.queues[self.groups.queue_of(id)].running;
        let period_ns = latency_ns.max(running * min_granularity_ns);
        self.groups.chain(id).fold(period_ns, |slice_ns, id| {
            let queue = &self.queues[self.groups.queue_of(id)];
            slice_ns * self.entities[id].weight / queue.load.max(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cfs: &mut Cfs, slices: usize) -> Table<EntityId, u64> {
        let tick_ns = cfs.settings.tick_ns;
        let mut ran = Table::filled(0, cfs.entities.len());
        let mut current = cfs.choose().unwrap();
        for _ in 0..slices {
            cfs.charge(current, tick_ns);
            ran[current] += tick_ns;
            if cfs.tick(current) {
                current = cfs.choose().unwrap();
            }
        }
        ran
    }

    #[test]
    fn time_goes_by_weight() {
        let mut cfs = Cfs::new(model::Cfs::default());
        let tasks = [cfs.add_task(Task::of_nice(0), None), cfs.add_task(Task::of_nice(5), None)];
        for task in tasks {
            cfs.wake(task);
        }
        let ran = run(&mut cfs, 100_000);
        let ratio = ran[tasks[0]] as f64 / ran[tasks[1]] as f64;
        assert!((ratio / (1_024.0 / 335.0) - 1.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn groups_share_whatever_number_of_tasks_they_have() {
        let mut cfs = Cfs::new(model::Cfs::default());
        let groups = [cfs.add_group(2_048), cfs.add_group(1_024)];
        let tasks = [0, 1, 1, 1].map(|group| cfs.add_task(Task::of_nice(0), Some(groups[group])));
        for task in tasks {
            cfs.wake(task);
        }
        let ran = run(&mut cfs, 100_000);
        let ratio =
            ran[tasks[0]] as f64 / tasks[1..].iter().map(|&task| ran[task]).sum::<u64>() as f64;
        assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
        assert!(ran[tasks[1]].abs_diff(ran[tasks[3]]) <= 2 * cfs.settings.latency_ns);
    }

    #[test]
    fn who_has_slept_preempts_but_hoards_no_more_than_half_a_latency() {
        let mut cfs = Cfs::new(model::Cfs::default());
        let (hog, sleeper) =
            (cfs.add_task(Task::of_nice(0), None), cfs.add_task(Task::of_nice(0), None));
        cfs.wake(hog);
        cfs.charge(hog, 1_000_000_000);
        cfs.wake(sleeper);
        assert!(cfs.preempts(sleeper, hog));
        assert_eq!(cfs.entities[sleeper].vruntime, 1_000_000_000 - 12_000_000);
        // After 8 ms of running it is within the wake-up granularity, and does not any more.
        cfs.charge(sleeper, 8_000_000);
        assert!(!cfs.preempts(sleeper, hog));
    }

    #[test]
    fn an_empty_group_does_not_count() {
        let mut cfs = Cfs::new(model::Cfs::default());
        let group = cfs.add_group(2);
        let inside = cfs.add_task(Task::of_nice(0), Some(group));
        let outside = cfs.add_task(Task::of_nice(0), None);
        cfs.wake(inside);
        cfs.wake(outside);
        cfs.sleep(inside);
        assert_eq!((cfs.choose(), cfs.queues[top()].running), (Some(outside), 1));
        cfs.sleep(outside);
        assert_eq!(cfs.choose(), None);
        assert_eq!(cfs.queues[top()].load, 0);
    }
}
