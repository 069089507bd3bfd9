//! What happens at a time of its own: ordered by (time, sequence number).

use std::{cmp::Reverse, collections::BinaryHeap};

/// The kinds of event; numbers are indices into the engine's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The window begins.
    Window,
    /// The window ends.
    WindowEnd,
    /// Lazy parts catch up; somebody may want to stop.
    Sync,
    /// An armed ring may raise an interrupt.
    Ring(usize),
    /// A worker that waited for something outside may go on.
    Retry(usize),
    /// A port begins its next transmission.
    Port(usize),
    /// A timer tick of a core.
    Tick(usize),
    /// The end of a core's slice, unless it has been put off.
    Slice(usize),
    /// Credit is given to vCPUs.
    Account,
    /// A load has something to do again.
    Load(usize),
    /// A context is not blocked by this load any more.
    Unblock(usize),
    /// A setting changes.
    Change(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// By time in the upper and number in the lower half.
    heap: BinaryHeap<Reverse<(u128, Event)>>,
    sequence: u64,
    next_ns: u64,
}

fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { next_ns: u64::MAX, ..Self::default() }
    }

    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        let key = u128::from(at_ns) << 64 | u128::from(self.sequence);
        self.heap.push(Reverse((key, event)));
        self.sequence += 1;
        self.next_ns = self.next_ns.min(at_ns);
    }

    /// When the first is due; `u64::MAX`: there is none.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse((key, event)) = self.heap.pop()?;
        self.next_ns = self.heap.peek().map_or(u64::MAX, |Reverse((key, _))| time_of(*key));
        Some((time_of(key), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_then_the_order_of_coming() {
        let mut events = Events::new();
        events.push(5, Event::Tick(1));
        events.push(3, Event::Sync);
        events.push(5, Event::Account);
        assert_eq!(events.next_ns(), 3);
        let order: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(order, [(3, Event::Sync), (5, Event::Tick(1)), (5, Event::Account)]);
        assert_eq!(events.next_ns(), u64::MAX);
    }
}
