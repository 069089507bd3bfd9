//! Numbers of things: a type for each kind, so that a ring's number is never taken for a queue's, and tables
//! that only a number of their kind can index. Where there may be none, it is an `Option`.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// The number of a thing in its table.
pub(crate) trait Id: Copy {
    /// The thing's position in its table.
    fn index(self) -> usize;

    /// The thing at this position.
    fn at(index: usize) -> Self;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(usize);

        impl Id for $name {
            #[inline]
            fn index(self) -> usize {
                self.0
            }

            #[inline]
            fn at(index: usize) -> Self {
                Self(index)
            }
        }
    )*};
}

ids! {
    /// A NIC's wire.
    WireId,
    /// A receive ring.
    RingId,
    /// A queue before a stage.
    QueueId,
    /// A backlog that several stages share.
    BacklogId,
    /// A port.
    PortId,
    /// A ring, queue or port as a row of the results.
    DropPointId,
    /// What takes frames from one place and puts them into the next.
    WorkerId,
    /// A stage of the model.
    StageId,
    /// Load besides the traffic.
    LoadId,
    /// A core.
    CoreId,
    /// What runs on a core.
    ContextId,
    /// A CPU cgroup.
    GroupId,
    /// A task or a group under one core's fair scheduler.
    EntityId,
    /// A run queue of a fair scheduler: the core's, or a group's.
    RunQueueId,
    /// A vCPU under Xen's credit scheduler.
    VcpuId,
    /// A change of the settings.
    ChangeId,
    /// A request's frame that is outside of the model between two turns.
    OutsideId,
}

macro_rules! small_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(u16);

        impl Id for $name {
            #[inline]
            fn index(self) -> usize {
                self.0.into()
            }

            #[inline]
            fn at(index: usize) -> Self {
                Self(u16::try_from(index).expect("a model has fewer of them"))
            }
        }

        impl From<$name> for u32 {
            #[inline]
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }
    )*};
}

// Two bytes each, because every frame has all of them.
small_ids! {
    /// An entry of the traffic.
    FlowId,
    /// A virtual router.
    RouterId,
    /// A connection of a sender.
    ConnectionId,
}

/// Things by their number.
#[derive(Debug, Clone)]
pub(crate) struct Table<I, T> {
    rows: Vec<T>,
    ids: PhantomData<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self { rows: Vec::new(), ids: PhantomData }
    }
}

impl<I: Id, T> Table<I, T> {
    /// The same for so many.
    pub(crate) fn filled(value: T, len: usize) -> Self
    where
        T: Clone,
    {
        Self { rows: vec![value; len], ids: PhantomData }
    }

    pub(crate) fn push(&mut self, row: T) -> I {
        self.rows.push(row);
        I::at(self.rows.len() - 1)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The number that the next thing gets.
    pub(crate) fn next_id(&self) -> I {
        I::at(self.rows.len())
    }

    /// All numbers; borrows nothing.
    #[inline]
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.rows.len()).map(I::at)
    }

    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.rows.get(id.index())
    }

    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.rows.get_mut(id.index())
    }

    #[inline]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.rows.iter()
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.rows.iter_mut()
    }

    /// With their numbers.
    #[inline]
    pub(crate) fn enumerate(&self) -> impl Iterator<Item = (I, &T)> {
        self.rows.iter().enumerate().map(|(index, row)| (I::at(index), row))
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.rows[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.rows[id.index()]
    }
}

impl<'a, I, T> IntoIterator for &'a Table<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut Table<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter_mut()
    }
}

impl<I: Id, T> FromIterator<T> for Table<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(rows: A) -> Self {
        Self { rows: rows.into_iter().collect(), ids: PhantomData }
    }
}
