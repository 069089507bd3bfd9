//! Pieces of work, and what a core asks about them.

use crate::engine::ids::{ContextId, LoadId, RingId, WorkerId};

/// Picoseconds: what is left of costs that are no whole number of ns is carried.
pub(crate) const PS: u64 = 1_000;

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The cost of a poll itself.
    Poll(WorkerId),
    /// One frame.
    Frame(WorkerId),
    /// One frame that there is no room for.
    Refuse(WorkerId),
    /// Waking the next context.
    Notify(WorkerId),
    /// A piece of a load.
    Load(LoadId),
    /// A switch to this context, or its waking up.
    Overhead(ContextId),
    /// An interrupt of this ring.
    Ring(RingId),
    /// A timer tick.
    Tick,
}

/// A piece of work, and how long it takes, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) cost_ns: u64,
}

/// What a core needs to know before it can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nothing: it has work at hand, or idles.
    Nothing,
    /// This worker's poll begins: its first piece of work, if there is any.
    Begin(WorkerId),
    /// The next piece of work in this worker's poll, if there is any.
    Continue(WorkerId),
}

/// A poll that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Polled {
    /// Frames, or pieces of a load, that it took.
    pub(crate) frames: u32,
    /// Whether the worker wants another one.
    pub(crate) again: bool,
}
