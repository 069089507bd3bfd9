//! Linux's EEVDF scheduler (earliest eligible virtual deadline first) on one core: `kernel/sched/fair.c` as of
//! 6.17 with its features at their defaults, with one level of cgroups. Not here: balancing between cores,
//! buddies, bandwidth limits.
//!
//! Entities are tasks and groups. Each queue (the core's, and one per group) has a virtual time, the mean of its
//! entities' virtual runtimes by weight. An entity that has not run ahead of that is eligible; of the eligible
//! the one with the earliest virtual deadline runs, a slice after where it began, and nobody takes its turn before
//! that (`RUN_TO_PARITY`). Who goes to sleep keeps its lag behind the virtual time (`PLACE_LAG`); who has run
//! ahead stays in the queue until the others have caught up (`DELAY_DEQUEUE`).

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
    weight: i64,
    slice_ns: i64,
    vruntime: i64,
    /// Part of a unit of `vruntime` not yet added, times the weight.
    remainder: i64,
    deadline: i64,
    /// How far it was behind the virtual time when it left its queue.
    lag: i64,
    /// Up to this virtual runtime it keeps its turn (`vprot`).
    protected: i64,
    queued: bool,
    /// It sleeps, and stays queued until it is eligible.
    delayed: bool,
    /// `SCHED_BATCH`.
    batch: bool,
}

impl Entity {
    fn virtual_ns(&self, ns: i64) -> i64 {
        ns * signed(NICE_0) / self.weight
    }

    /// Its request begins: the deadline is a slice from here.
    fn request(&mut self) {
        self.deadline = self.vruntime + self.virtual_ns(self.slice_ns);
    }
}

#[derive(Debug, Clone, Default)]
struct Queue {
    /// Entities in it, the delayed among them.
    queued: u32,
    /// Whose turn it is.
    current: Option<EntityId>,
    /// The virtual time when the last entity left.
    left: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Eevdf {
    settings: model::Eevdf,
    groups: Groups,
    entities: Table<EntityId, Entity>,
    queues: Table<RunQueueId, Queue>,
    /// The task chosen last.
    chosen: Option<EntityId>,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Virtual runtimes of a queue's entities times their weights, and the weights.
#[derive(Clone, Copy)]
struct Sums {
    weighted: i128,
    weight: i128,
}

impl Sums {
    /// The virtual time, rounded down.
    fn mean(self) -> i64 {
        let mean = self.weighted.div_euclid(self.weight);
        i64::try_from(mean).expect("between the smallest and the largest of an i64 each")
    }

    fn is_eligible(self, vruntime: i64) -> bool {
        self.weighted >= i128::from(vruntime) * self.weight
    }
}

/// Building.
impl Eevdf {
    pub(super) fn new(settings: model::Eevdf) -> Self {
        Self {
            settings,
            groups: Groups::new(),
            entities: Table::default(),
            queues: Table::filled(Queue::default(), 1),
            chosen: None,
        }
    }

    pub(super) fn settings(&self) -> &model::Eevdf {
        &self.settings
    }

    pub(super) fn add_task(&mut self, task: Task, group: Option<EntityId>) -> EntityId {
        self.add(task);
        self.groups.add_task(group)
    }

    pub(super) fn add_group(&mut self, shares: u64) -> EntityId {
        self.add(Task { weight: shares, slice_ns: None, batch: false });
        self.queues.push(Queue::default());
        self.groups.add_group()
    }

    fn add(&mut self, task: Task) {
        self.entities.push(Entity {
            weight: signed(task.weight),
            slice_ns: signed(task.slice_ns.unwrap_or(self.settings.slice_ns)),
            vruntime: 0,
            remainder: 0,
            deadline: 0,
            lag: 0,
            protected: 0,
            queued: false,
            delayed: false,
            batch: task.batch,
        });
    }
}

/// Virtual time.
impl Eevdf {
    fn sums(&self, queue: RunQueueId) -> Sums {
        let mut sums = Sums { weighted: 0, weight: 0 };
        for &id in self.groups.members(queue) {
            let Entity { queued, weight, vruntime, .. } = self.entities[id];
            if queued {
                sums.weighted += i128::from(vruntime) * i128::from(weight);
                sums.weight += i128::from(weight);
            }
        }
        sums
    }

    fn is_eligible(&self, id: EntityId) -> bool {
        self.sums(self.groups.queue_of(id)).is_eligible(self.entities[id].vruntime)
    }

    /// The shortest slice of a queue's entities (`cfs_rq_min_slice`).
    fn min_slice_ns(&self, queue: RunQueueId) -> Option<i64> {
        let members = self.groups.members(queue).iter().map(|&id| &self.entities[id]);
        members.filter(|entity| entity.queued).map(|entity| entity.slice_ns).min()
    }

    /// A group's slice is the shortest of those that it holds.
    fn inherit_slice(&mut self, id: EntityId) {
        let slice_ns = self.groups.owned_by(id).and_then(|owned| self.min_slice_ns(owned));
        if let Some(slice_ns) = slice_ns {
            self.entities[id].slice_ns = slice_ns;
        }
    }

    /// `update_entity_lag`: no more than two slices, or a tick.
    fn lag(&self, id: EntityId) -> i64 {
        let entity = &self.entities[id];
        let behind = self.sums(self.groups.queue_of(id)).mean() - entity.vruntime;
        let limit_ns = (2 * entity.slice_ns).max(signed(self.settings.tick_ns));
        let limit = entity.virtual_ns(limit_ns);
        behind.clamp(-limit, limit)
    }

    /// `place_entity`: into its queue, with its lag.
    fn enqueue(&mut self, id: EntityId) {
        let queue = self.groups.queue_of(id);
        let sums = self.sums(queue);
        let Entity { weight, lag, .. } = self.entities[id];
        // The virtual time moves when this one comes in, and the lag with it.
        let vruntime = if sums.weight == 0 {
            self.queues[queue].left
        } else {
            let lag = i128::from(lag) * (sums.weight + i128::from(weight)) / sums.weight;
            sums.mean() - i64::try_from(lag).unwrap_or(0)
        };
        let entity = &mut self.entities[id];
        (entity.vruntime, entity.remainder, entity.queued) = (vruntime, 0, true);
        entity.request();
        self.queues[queue].queued += 1;
    }

    fn dequeue(&mut self, id: EntityId) {
        let queue = self.groups.queue_of(id);
        let left = self.sums(queue).mean();
        self.entities[id].queued = false;
        let queue = &mut self.queues[queue];
        queue.left = left;
        queue.queued -= 1;
        if queue.current == Some(id) {
            queue.current = None;
        }
    }

    /// `reweight_entity`: lag and what is left of the request are kept.
    pub(super) fn set_weight(&mut self, id: EntityId, weight: u64) {
        let (old, weight) = (self.entities[id].weight, signed(weight));
        let queued = self.entities[id].queued;
        if queued {
            let queue = self.groups.queue_of(id);
            let is_current = self.queues[queue].current == Some(id);
            self.entities[id].lag = self.lag(id);
            let ahead = self.entities[id].deadline - self.entities[id].vruntime;
            let kept = (self.entities[id].protected - self.entities[id].vruntime).max(0);
            self.dequeue(id);
            self.entities[id].lag = self.entities[id].lag * old / weight;
            self.entities[id].weight = weight;
            self.enqueue(id);
            let entity = &mut self.entities[id];
            entity.deadline = entity.vruntime + ahead * old / weight;
            entity.protected = entity.vruntime + kept * old / weight;
            self.queues[queue].current = self.queues[queue].current.or(is_current.then_some(id));
        } else {
            self.entities[id].lag = self.entities[id].lag * old / weight;
            self.entities[id].weight = weight;
        }
    }
}

/// Running, waking, sleeping.
impl Eevdf {
    /// `update_curr`, with `update_deadline`: whether a request is over, or a turn.
    pub(super) fn charge(&mut self, task: EntityId, ran_ns: u64) -> bool {
        let mut over = false;
        if ran_ns == 0 {
            return over;
        }
        for id in self.groups.chain(task) {
            let entity = &mut self.entities[id];
            let units = signed(ran_ns * NICE_0) + entity.remainder;
            entity.vruntime += units / entity.weight;
            entity.remainder = units % entity.weight;
            let done = entity.vruntime >= entity.deadline;
            if done {
                entity.request();
            }
            let alone = self.queues[self.groups.queue_of(id)].queued <= 1;
            over |= !alone && (done || entity.vruntime >= entity.protected);
        }
        over
    }

    /// `requeue_delayed_entity`: who is to wake is back before it was away. What it waited too long is forgiven
    /// (`DELAY_ZERO`), but for what the running task has used since it was charged last. Whether that task is not
    /// even charged now, as behind a batch.
    pub(super) fn requeue(&mut self, task: EntityId) -> bool {
        let queued = self.groups.chain(task).find(|&id| self.entities[id].queued);
        let Some(id) = queued.filter(|&id| self.entities[id].delayed) else { return false };
        self.entities[id].delayed = false;
        if self.lag(id) > 0 {
            self.dequeue(id);
            self.entities[id].lag = 0;
            self.enqueue(id);
        }
        self.entities[task].batch
    }

    pub(super) fn wake(&mut self, task: EntityId) {
        let mut is_new = true;
        for id in self.groups.chain(task) {
            self.inherit_slice(id);
            is_new &= !self.entities[id].queued;
            if is_new {
                self.enqueue(id);
            }
        }
    }

    pub(super) fn sleep(&mut self, task: EntityId) {
        self.leave(task);
        if let Some(group) = self.groups.owner_of(self.groups.queue_of(task)) {
            self.inherit_slice(group);
        }
    }

    /// `dequeue_entities`: a task, and its group if that is empty then.
    fn leave(&mut self, from: EntityId) {
        for id in self.groups.chain(from) {
            let queue = self.groups.queue_of(id);
            if !self.is_eligible(id) {
                self.entities[id].delayed = true;
                if self.queues[queue].current == Some(id) {
                    self.queues[queue].current = None;
                }
                return;
            }
            self.entities[id].lag = self.lag(id);
            self.dequeue(id);
            if self.queues[queue].queued > 0 {
                return;
            }
        }
    }

    /// A sleeper is eligible: it leaves, with nothing to its credit (`DELAY_ZERO`).
    fn end_delay(&mut self, id: EntityId) {
        self.entities[id].delayed = false;
        self.entities[id].lag = self.lag(id).min(0);
        self.dequeue(id);
        let queue = self.groups.queue_of(id);
        match self.groups.owner_of(queue) {
            Some(group) if self.queues[queue].queued == 0 => self.leave(group),
            Some(group) => self.inherit_slice(group),
            None => {}
        }
    }
}

/// Choosing.
impl Eevdf {
    pub(super) fn choose(&mut self) -> Option<EntityId> {
        let mut queue = top();
        let chosen = loop {
            let Some(first) = self.pick(queue, true) else { break None };
            if self.entities[first].delayed {
                self.end_delay(first);
                queue = top();
            } else if let Some(owned) = self.groups.owned_by(first) {
                queue = owned;
            } else {
                break Some(first);
            }
        };
        self.take_turns(chosen);
        chosen
    }

    /// `put_prev_entity` and `set_next_entity`, where the turn goes to another one.
    fn take_turns(&mut self, chosen: Option<EntityId>) {
        if let Some(before) = self.chosen {
            let queue = self.groups.queue_of(before);
            if chosen.is_none_or(|chosen| self.groups.queue_of(chosen) != queue) {
                self.queues[queue].current = None;
            }
        }
        self.chosen = chosen;
        let Some(chosen) = chosen else { return };
        for id in self.groups.chain(chosen) {
            let queue = self.groups.queue_of(id);
            if self.queues[queue].current != Some(id) {
                self.queues[queue].current = Some(id);
                self.protect(id, queue);
            }
        }
    }

    /// `set_protect_slice`: until its deadline, or for the shortest slice that anyone has.
    fn protect(&mut self, id: EntityId, queue: RunQueueId) {
        let min_slice_ns = self.min_slice_ns(queue);
        let entity = &mut self.entities[id];
        entity.protected = entity.deadline;
        if let Some(slice_ns) = min_slice_ns.filter(|&slice_ns| slice_ns < entity.slice_ns) {
            let until = entity.vruntime + entity.virtual_ns(slice_ns);
            entity.protected = entity.protected.min(until);
        }
    }

    /// `pick_eevdf`; `protect`: who has its turn keeps it.
    fn pick(&self, queue: RunQueueId, protect: bool) -> Option<EntityId> {
        let sums = self.sums(queue);
        let is_eligible = |id: EntityId| sums.is_eligible(self.entities[id].vruntime);
        let current = self.queues[queue].current.filter(|&id| is_eligible(id));
        if let Some(current) = current.filter(|_| protect) {
            let entity = &self.entities[current];
            if entity.vruntime < entity.protected {
                return Some(current);
            }
        }
        let queued = self.groups.members(queue).iter().copied();
        let eligible = queued.filter(|&id| self.entities[id].queued && is_eligible(id));
        // Of two with the same deadline the one that has its turn gives it up.
        eligible.min_by_key(|&id| (self.entities[id].deadline, current == Some(id), id))
    }

    /// `check_preempt_wakeup_fair`: whether the woken is first now, with regard to whose turn it is unless its
    /// slice is shorter (`PREEMPT_SHORT`).
    pub(super) fn preempts(&mut self, woken: EntityId, running: EntityId) -> bool {
        if self.entities[woken].batch {
            return false;
        }
        let (woken, running) = self.groups.matching(woken, running);
        if woken == running {
            return false;
        }
        let queue = self.groups.queue_of(woken);
        let is_short = self.entities[woken].slice_ns < self.entities[running].slice_ns;
        let is_first = self.pick(queue, !is_short) == Some(woken);
        if is_short {
            let min_slice_ns = self.min_slice_ns(queue).unwrap_or_default();
            let entity = &mut self.entities[running];
            let kept_ns = if is_first { 0 } else { min_slice_ns };
            let until = entity.vruntime + entity.virtual_ns(kept_ns);
            entity.protected = entity.protected.min(until);
        }
        is_first
    }

    /// With a pacemaker each tick is a beat, which takes the core for a moment, and nobody has a turn after that.
    /// Else [`Self::charge`] tells.
    pub(super) fn tick(&mut self, running: EntityId) -> bool {
        if self.settings.beat_ns.is_none() {
            return false;
        }
        for id in self.groups.chain(running) {
            self.queues[self.groups.queue_of(id)].current = None;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn settings() -> model::Eevdf {
        model::Eevdf { slice_ns: 3 * MS, ..model::Eevdf::default() }
    }

    fn eevdf() -> Eevdf {
        Eevdf::new(settings())
    }

    fn tasks<const N: usize>(eevdf: &mut Eevdf, weights: [u64; N]) -> [EntityId; N] {
        weights.map(|weight| eevdf.add_task(Task { weight, ..Task::of_nice(0) }, None))
    }

    /// Time of each, ns, when whoever runs is charged in such steps.
    fn run(eevdf: &mut Eevdf, step_ns: u64, steps: usize) -> Table<EntityId, u64> {
        let mut ran = Table::filled(0, eevdf.entities.len());
        let mut current = eevdf.choose().unwrap();
        for _ in 0..steps {
            ran[current] += step_ns;
            if eevdf.charge(current, step_ns) {
                current = eevdf.choose().unwrap();
            }
        }
        ran
    }

    #[test]
    fn time_goes_by_weight() {
        let mut eevdf = eevdf();
        let tasks = tasks(&mut eevdf, [1_024, 335, 15]);
        for task in tasks {
            eevdf.wake(task);
        }
        let ran = run(&mut eevdf, 100_000, 1_000_000);
        for (task, weight) in tasks.into_iter().zip([1_024.0, 335.0, 15.0]) {
            let share = ran[task] as f64 / 1e11;
            assert!((share / (weight / 1_374.0) - 1.0).abs() < 0.001, "{weight}: {share}");
        }
    }

    #[test]
    fn nobody_is_ever_further_from_its_share_than_a_slice_and_a_tick() {
        let mut eevdf = eevdf();
        let tasks = tasks(&mut eevdf, [1_024, 2_048, 512]);
        for task in tasks {
            eevdf.wake(task);
        }
        let mut ran = Table::filled(0, 3);
        let mut current = eevdf.choose().unwrap();
        for step in 1_u64..=20_000 {
            ran[current] += 4 * MS;
            if eevdf.charge(current, 4 * MS) {
                current = eevdf.choose().unwrap();
            }
            for (task, weight) in tasks.into_iter().zip([1_024, 2_048, 512]) {
                let share = step * 4 * MS * weight / 3_584;
                assert!(ran[task] <= share + 4 * MS, "{step}");
                assert!(ran[task] + 7 * MS >= share, "{step}");
            }
        }
    }

    #[test]
    fn groups_share_whatever_number_of_tasks_they_have() {
        let mut eevdf = eevdf();
        let groups = [eevdf.add_group(2_048), eevdf.add_group(1_024)];
        let tasks = [0, 1, 1, 1].map(|g| eevdf.add_task(Task::of_nice(0), Some(groups[g])));
        for task in tasks {
            eevdf.wake(task);
        }
        let ran = run(&mut eevdf, MS, 90_000);
        let of_second: u64 = tasks[1..].iter().map(|&task| ran[task]).sum();
        let ratio = ran[tasks[0]] as f64 / of_second as f64;
        assert!((ratio - 2.0).abs() < 0.002, "{ratio}");
        assert!(ran[tasks[1]].abs_diff(ran[tasks[3]]) <= 6 * MS);
    }

    #[test]
    fn who_wakes_waits_until_the_turn_is_over() {
        let mut eevdf = eevdf();
        let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(hog);
        assert_eq!(eevdf.choose(), Some(hog));
        eevdf.charge(hog, MS);
        eevdf.wake(sleeper);
        assert!(!eevdf.preempts(sleeper, hog), "its turn lasts 3 ms");
        assert!(!eevdf.charge(hog, MS));
        assert!(eevdf.charge(hog, MS));
        assert_eq!(eevdf.choose(), Some(sleeper));
    }

    #[test]
    fn a_shorter_slice_goes_first_unless_it_is_a_batch() {
        for (batch, first) in [(false, true), (true, false)] {
            let mut eevdf = eevdf();
            let [hog] = tasks(&mut eevdf, [1_024]);
            let short = Task { slice_ns: Some(MS / 10), batch, ..Task::of_nice(0) };
            let short = eevdf.add_task(short, None);
            eevdf.wake(hog);
            eevdf.choose();
            eevdf.charge(hog, MS);
            eevdf.wake(short);
            assert_eq!(eevdf.preempts(short, hog), first);
            assert_eq!(eevdf.choose(), Some(if first { short } else { hog }));
            // Beside it nobody's turn is longer than that slice.
            if first {
                assert!(eevdf.charge(short, MS / 10));
                assert_eq!(eevdf.choose(), Some(hog));
                assert!(eevdf.charge(hog, MS / 10));
            }
        }
    }

    #[test]
    fn a_sleeper_that_ran_ahead_stays_until_the_others_have_caught_up() {
        let mut eevdf = eevdf();
        let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(sleeper);
        assert_eq!(eevdf.choose(), Some(sleeper));
        eevdf.charge(sleeper, MS);
        eevdf.wake(hog);
        eevdf.charge(sleeper, MS);
        eevdf.sleep(sleeper);
        assert!(eevdf.entities[sleeper].delayed, "it is 0.5 ms ahead of the virtual time");
        assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (Some(hog), 2));
        eevdf.charge(hog, MS / 2);
        // It is back before that: behind, as far as it was.
        eevdf.requeue(sleeper);
        eevdf.wake(sleeper);
        assert!(!eevdf.entities[sleeper].delayed);
        assert_eq!(eevdf.lag(sleeper), -signed(MS / 4));
        eevdf.sleep(sleeper);
        eevdf.charge(hog, 10 * MS);
        assert_eq!(eevdf.choose(), Some(hog));
        assert!(!eevdf.entities[sleeper].queued, "it has left");
        assert_eq!((eevdf.entities[sleeper].lag, eevdf.queues[top()].queued), (0, 1));
    }

    #[test]
    fn it_is_forgiven_what_was_charged_before_it_came_back_and_not_what_is_charged_then() {
        for (before, after) in [(10 * MS, 0), (0, 10 * MS), (6 * MS, 4 * MS)] {
            let mut eevdf = eevdf();
            let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
            eevdf.wake(sleeper);
            eevdf.choose();
            eevdf.wake(hog);
            eevdf.charge(sleeper, 2 * MS);
            eevdf.sleep(sleeper);
            assert_eq!(eevdf.choose(), Some(hog));
            eevdf.charge(hog, before);
            eevdf.requeue(sleeper);
            eevdf.charge(hog, after);
            eevdf.wake(sleeper);
            let behind = if before > 0 { after } else { after - 2 * MS };
            assert_eq!(eevdf.lag(sleeper), signed(behind) / 2);
            assert!(
                eevdf.preempts(sleeper, hog),
                "who is behind goes first, and the other's turn is over"
            );
        }
    }

    #[test]
    fn who_leaves_with_time_to_its_credit_comes_back_with_it_but_hoards_no_more_than_two_slices() {
        let mut eevdf = eevdf();
        let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(hog);
        eevdf.wake(sleeper);
        assert_eq!(eevdf.choose(), Some(hog));
        eevdf.charge(hog, 2 * MS);
        eevdf.sleep(sleeper);
        assert_eq!(eevdf.entities[sleeper].lag, signed(MS));
        eevdf.charge(hog, 100 * MS);
        eevdf.wake(sleeper);
        assert_eq!(eevdf.lag(sleeper), signed(MS), "as before, in the virtual time with it");
        eevdf.charge(hog, 100 * MS);
        eevdf.sleep(sleeper);
        assert_eq!(eevdf.entities[sleeper].lag, signed(6 * MS));
    }

    #[test]
    fn a_group_leaves_when_its_last_task_does() {
        let mut eevdf = eevdf();
        let group = eevdf.add_group(2);
        let inside = eevdf.add_task(Task::of_nice(0), Some(group));
        let [outside] = tasks(&mut eevdf, [1_024]);
        eevdf.wake(inside);
        assert_eq!(eevdf.choose(), Some(inside));
        eevdf.wake(outside);
        eevdf.charge(inside, MS);
        eevdf.sleep(inside);
        assert!(eevdf.entities[group].delayed);
        assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (Some(outside), 2));
        // A thousandth of the weight is far ahead after 1 ms: 512 of the other's.
        eevdf.charge(outside, 513 * MS);
        assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (Some(outside), 1));
        eevdf.sleep(outside);
        assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (None, 0));
    }

    #[test]
    fn a_new_weight_keeps_the_lag() {
        let mut eevdf = eevdf();
        let [hog, other] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(hog);
        eevdf.wake(other);
        assert_eq!(eevdf.choose(), Some(hog));
        eevdf.charge(hog, 2 * MS);
        eevdf.set_weight(other, 4_096);
        // 1 ms behind at a weight of 1,024 is 0.25 ms at four times that.
        assert_eq!(eevdf.lag(other), signed(MS / 4));
        assert!(eevdf.charge(hog, MS));
        assert_eq!(eevdf.choose(), Some(other));
        let ran = run(&mut eevdf, 100_000, 1_000_000);
        assert!((ran[other] as f64 / ran[hog] as f64 - 4.0).abs() < 0.01);
    }

    #[test]
    fn after_a_beat_who_is_chosen_has_a_turn_also_if_it_was_alone() {
        let mut eevdf = Eevdf::new(model::Eevdf { beat_ns: Some(MS / 10), ..settings() });
        let [hog, other] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(hog);
        eevdf.choose();
        eevdf.charge(hog, MS / 10);
        assert!(eevdf.tick(hog));
        assert_eq!(eevdf.choose(), Some(hog));
        eevdf.wake(other);
        assert!(!eevdf.preempts(other, hog));
    }

    #[test]
    fn a_batch_that_is_back_early_leaves_the_core_to_whom_it_is() {
        let mut eevdf = eevdf();
        let [hog] = tasks(&mut eevdf, [1_024]);
        let batch = eevdf.add_task(Task { batch: true, ..Task::of_nice(0) }, None);
        eevdf.wake(batch);
        eevdf.choose();
        eevdf.wake(hog);
        eevdf.charge(batch, MS);
        eevdf.sleep(batch);
        assert!(eevdf.entities[batch].delayed);
        assert_eq!(eevdf.choose(), Some(hog));
        assert!(eevdf.requeue(batch), "nobody is charged");
        eevdf.wake(batch);
        assert!(!eevdf.entities[batch].delayed);
        assert!(!eevdf.requeue(batch), "it is back");
    }

    #[test]
    fn a_group_has_the_slice_of_those_that_it_still_holds() {
        let mut eevdf = eevdf();
        let group = eevdf.add_group(1_024);
        let [outside] = tasks(&mut eevdf, [1_024]);
        let long = eevdf.add_task(Task::of_nice(0), Some(group));
        let short = Task { slice_ns: Some(MS / 10), ..Task::of_nice(0) };
        let short = eevdf.add_task(short, Some(group));
        eevdf.wake(short);
        eevdf.choose();
        eevdf.wake(long);
        eevdf.wake(outside);
        assert_eq!(eevdf.entities[group].slice_ns, signed(MS / 10));
        eevdf.charge(short, MS);
        eevdf.sleep(short);
        assert!(eevdf.entities[short].delayed);
        assert_eq!(eevdf.entities[group].slice_ns, signed(MS / 10));
        for _ in 0..4 {
            let next = eevdf.choose().unwrap();
            eevdf.charge(next, 4 * MS);
        }
        assert!(!eevdf.entities[short].queued);
        assert_eq!(eevdf.entities[group].slice_ns, signed(3 * MS));
    }

    #[test]
    fn a_pacemaker_ends_turns() {
        for paced in [false, true] {
            let beat_ns = paced.then_some(MS / 10);
            let mut eevdf = Eevdf::new(model::Eevdf { beat_ns, ..settings() });
            let [hog, other] = tasks(&mut eevdf, [1_024; 2]);
            eevdf.wake(hog);
            eevdf.choose();
            eevdf.wake(other);
            assert!(!eevdf.charge(hog, MS / 10), "its turn lasts 3 ms");
            assert_eq!(eevdf.tick(hog), paced);
            if paced {
                assert_eq!(eevdf.choose(), Some(other));
            }
        }
    }
}
