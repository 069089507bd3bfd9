//! Linux's completely fair scheduler on one core: `kernel/sched/fair.c` as of 3.2 (until 6.5 the same in
//! what is here), with one level of cgroups. Not here: balancing between cores, buddies.
//!
//! Entities are tasks and groups. Each queue (the core's, and one per group) serves the entity with the
//! minimum of virtual runtime; a waking one gets the queue's minimum, less half a latency.

use crate::engine::ids::{EntityId, Id, RunQueueId, Table};
use crate::model;

const NICE_0: u64 = 1_024;

/// `sched_prio_to_weight`.
const WEIGHTS: [u64; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620,
    6_100, 4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272,
    215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Weight of a nice value, -20 to 19.
pub(crate) fn weight_of_nice(nice: i8) -> u64 {
    WEIGHTS[usize::try_from(i32::from(nice) + 20).unwrap_or(0).min(WEIGHTS.len() - 1)]
}

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
    /// The queue it is in.
    queue: RunQueueId,
    /// The queue that it owns, if it is a group.
    owns: Option<RunQueueId>,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    members: Vec<EntityId>,
    min_vruntime: u64,
    load: u64,
    running: u64,
    /// The group that owns it.
    owner: Option<EntityId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Cfs {
    settings: model::Cfs,
    entities: Table<EntityId, Entity>,
    queues: Table<RunQueueId, Queue>,
}

/// The core's own run queue.
fn top() -> RunQueueId {
    RunQueueId::at(0)
}

impl Cfs {
    pub(crate) fn new(settings: model::Cfs) -> Self {
        let queues = Table::filled(Queue::default(), 1);
        Self { settings, entities: Table::default(), queues }
    }

    pub(crate) fn settings(&self) -> &model::Cfs {
        &self.settings
    }

    /// A new task in the core's queue, or in a group's.
    pub(crate) fn add_task(&mut self, weight: u64, group: Option<EntityId>) -> EntityId {
        let queue = group.and_then(|group| self.entities[group].owns).unwrap_or(top());
        self.add(weight, queue, None)
    }

    pub(crate) fn add_group(&mut self, shares: u64) -> EntityId {
        let group = self.add(shares, top(), Some(self.queues.next_id()));
        self.queues.push(Queue { owner: Some(group), ..Queue::default() });
        group
    }

    fn add(&mut self, weight: u64, queue: RunQueueId, owns: Option<RunQueueId>) -> EntityId {
        let entity = Entity {
            weight,
            vruntime: 0,
            remainder: 0,
            ran_ns: 0,
            chosen_ns: 0,
            queued: false,
            queue,
            owns,
        };
        let id = self.entities.push(entity);
        self.queues[queue].members.push(id);
        id
    }

    pub(crate) fn set_weight(&mut self, entity: EntityId, weight: u64) {
        let Entity { queued, queue, weight: old, .. } = self.entities[entity];
        if queued {
            self.queues[queue].load += weight;
            self.queues[queue].load -= old;
        }
        self.entities[entity].weight = weight;
        self.entities[entity].remainder = 0;
    }

    /// A task, then its group.
    fn chain(&self, task: EntityId) -> impl Iterator<Item = EntityId> + use<> {
        let group = self.queues[self.entities[task].queue].owner;
        std::iter::once(task).chain(group)
    }

    /// `update_curr`: the running task has used so much more of the core.
    pub(crate) fn charge(&mut self, task: EntityId, ran_ns: u64) {
        for id in self.chain(task) {
            let entity = &mut self.entities[id];
            entity.ran_ns += ran_ns;
            let units = ran_ns * NICE_0 + entity.remainder;
            entity.vruntime += units / entity.weight;
            entity.remainder = units % entity.weight;
            let queue = entity.queue;
            self.update_min(queue);
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
        let queued = self.queues[queue].members.iter().copied();
        queued
            .filter(|&id| self.entities[id].queued)
            .min_by_key(|&id| (self.entities[id].vruntime, id))
    }

    /// `enqueue_task` with `ENQUEUE_WAKEUP`.
    pub(crate) fn wake(&mut self, task: EntityId) {
        for id in self.chain(task) {
            if self.entities[id].queued {
                break;
            }
            self.update_min(self.entities[id].queue);
            let entity = &mut self.entities[id];
            let queue = &mut self.queues[entity.queue];
            let placed = queue.min_vruntime.saturating_sub(self.settings.latency_ns / 2);
            entity.vruntime = entity.vruntime.max(placed);
            entity.queued = true;
            queue.load += entity.weight;
            queue.running += 1;
        }
    }

    /// `dequeue_task` with `DEQUEUE_SLEEP`.
    pub(crate) fn sleep(&mut self, task: EntityId) {
        for id in self.chain(task) {
            let entity = &mut self.entities[id];
            entity.queued = false;
            let at = entity.queue;
            let queue = &mut self.queues[at];
            queue.load -= entity.weight;
            queue.running -= 1;
            self.update_min(at);
            if self.queues[at].running > 0 {
                break;
            }
        }
    }

    /// The task that is next.
    pub(crate) fn choose(&mut self) -> Option<EntityId> {
        let mut queue = top();
        loop {
            let first = self.first(queue)?;
            self.entities[first].chosen_ns = self.entities[first].ran_ns;
            match self.entities[first].owns {
                Some(owned) => queue = owned,
                None => return Some(first),
            }
        }
    }

    /// `check_preempt_wakeup`: whether a task that has woken goes before the one that runs.
    pub(crate) fn preempts(&self, woken: EntityId, running: EntityId) -> bool {
        let (woken, running) = self.matching(woken, running);
        let (woken, running) = (&self.entities[woken], &self.entities[running]);
        let granularity = self.settings.wakeup_granularity_ns * NICE_0 / woken.weight;
        running.vruntime > woken.vruntime.saturating_add(granularity)
    }

    /// `find_matching_se`: two tasks or groups that are in the same queue.
    fn matching(&self, a: EntityId, b: EntityId) -> (EntityId, EntityId) {
        if self.entities[a].queue == self.entities[b].queue {
            return (a, b);
        }
        let top = |task| self.chain(task).last().unwrap_or(task);
        (top(a), top(b))
    }

    /// `task_tick_fair`: whether the running task's time is over.
    pub(crate) fn tick(&self, running: EntityId) -> bool {
        self.chain(running).any(|id| self.tick_entity(id))
    }

    fn tick_entity(&self, id: EntityId) -> bool {
        let entity = &self.entities[id];
        if self.queues[entity.queue].running <= 1 {
            return false;
        }
        let slice_ns = self.slice_ns(id);
        let ran_ns = entity.ran_ns - entity.chosen_ns;
        if ran_ns > slice_ns {
            return true;
        }
        let first = self.first(entity.queue);
        ran_ns >= self.settings.min_granularity_ns
            && first.is_some_and(|first| {
                entity.vruntime > self.entities[first].vruntime.saturating_add(slice_ns)
            })
    }

    /// `sched_slice`.
    fn slice_ns(&self, id: EntityId) -> u64 {
        let model::Cfs { latency_ns, min_granularity_ns, .. } = self.settings;
        let running = self.queues[self.entities[id].queue].running;
        let period_ns = latency_ns.max(running * min_granularity_ns);
        self.chain(id).fold(period_ns, |slice_ns, id| {
            let entity = &self.entities[id];
            slice_ns * entity.weight / self.queues[entity.queue].load.max(1)
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
        let tasks = [cfs.add_task(weight_of_nice(0), None), cfs.add_task(weight_of_nice(5), None)];
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
        let tasks = [0, 1, 1, 1].map(|group| cfs.add_task(NICE_0, Some(groups[group])));
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
        let (hog, sleeper) = (cfs.add_task(NICE_0, None), cfs.add_task(NICE_0, None));
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
        let inside = cfs.add_task(NICE_0, Some(group));
        let outside = cfs.add_task(NICE_0, None);
        cfs.wake(inside);
        cfs.wake(outside);
        cfs.sleep(inside);
        assert_eq!((cfs.choose(), cfs.queues[top()].running), (Some(outside), 1));
        cfs.sleep(outside);
        assert_eq!(cfs.choose(), None);
        assert_eq!(cfs.queues[top()].load, 0);
    }
}
