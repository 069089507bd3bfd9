//! Who is queued where: tasks and groups in the core's run queue, tasks in a group's.

use crate::engine::ids::{EntityId, Id, RunQueueId, Table};

/// The core's own run queue.
pub(super) fn top() -> RunQueueId {
    RunQueueId::at(0)
}

#[derive(Debug, Clone)]
struct Entity {
    /// The queue it is in.
    queue: RunQueueId,
    /// The queue that it owns, if it is a group.
    owns: Option<RunQueueId>,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    members: Vec<EntityId>,
    /// The group that owns it.
    owner: Option<EntityId>,
}

/// Tasks and groups under one core's scheduler, with one level of groups.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    entities: Table<EntityId, Entity>,
    queues: Table<RunQueueId, Queue>,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self { entities: Table::default(), queues: Table::filled(Queue::default(), 1) }
    }

    /// A new task in the core's queue, or in a group's.
    pub(super) fn add_task(&mut self, group: Option<EntityId>) -> EntityId {
        self.add(group.and_then(|group| self.owned_by(group)).unwrap_or(top()), None)
    }

    pub(super) fn add_group(&mut self) -> EntityId {
        let group = self.add(top(), Some(self.queues.next_id()));
        self.queues.push(Queue { owner: Some(group), ..Queue::default() });
        group
    }

    fn add(&mut self, queue: RunQueueId, owns: Option<RunQueueId>) -> EntityId {
        let id = self.entities.push(Entity { queue, owns });
        self.queues[queue].members.push(id);
        id
    }

    #[inline]
    pub(super) fn queue_of(&self, entity: EntityId) -> RunQueueId {
        self.entities[entity].queue
    }

    #[inline]
    pub(super) fn owned_by(&self, entity: EntityId) -> Option<RunQueueId> {
        self.entities[entity].owns
    }

    #[inline]
    pub(super) fn owner_of(&self, queue: RunQueueId) -> Option<EntityId> {
        self.queues[queue].owner
    }

    #[inline]
    pub(super) fn members(&self, queue: RunQueueId) -> &[EntityId] {
        &self.queues[queue].members
    }

    /// A task, then its group.
    #[inline]
    pub(super) fn chain(&self, task: EntityId) -> impl Iterator<Item = EntityId> + use<> {
        std::iter::once(task).chain(self.owner_of(self.queue_of(task)))
    }

    /// `find_matching_se`: two tasks, or what holds them, that are in the same queue.
    pub(super) fn matching(&self, a: EntityId, b: EntityId) -> (EntityId, EntityId) {
        if self.queue_of(a) == self.queue_of(b) {
            return (a, b);
        }
        let top = |task| self.chain(task).last().unwrap_or(task);
        (top(a), top(b))
    }
}
