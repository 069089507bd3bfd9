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
mod tests;
