//! What happens at a time of its own: ordered by (time, sequence number).

use std::{cmp::Reverse, collections::BinaryHeap};

use super::ids::{ChangeId, CoreId, LoadId, OutsideId, PortId, RingId, WorkerId};

/// The kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The window begins.
    Window,
    /// The window ends.
    WindowEnd,
    /// Lazily updated wires and ports are brought up to now; the caller may want to stop.
    Sync,
    /// An armed ring may raise an interrupt.
    Ring(RingId),
    /// A worker that waited for something outside may go on.
    Retry(WorkerId),
    /// A port begins its next transmission.
    Port(PortId),
    /// A timer tick of a core.
    Tick(CoreId),
    /// The end of a core's slice, unless it has been put off.
    Slice(CoreId),
    /// Credit is given to vCPUs.
    GiveCredit,
    /// A load has something to do again.
    Load(LoadId),
    /// A context is not blocked by this load any more.
    Unblock(LoadId),
    /// A setting changes.
    Change(ChangeId),
    /// A request comes in from outside of the model.
    Outside(OutsideId),
}

/// How many of the next events are kept in order; a model has few pending at a time.
const NEAR: usize = 32;

/// Time in the upper and number in the lower half of the key.
type Entry = (u128, Event);

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The next ones, the very next last; all of them before any of `far`.
    near: Vec<Entry>,
    far: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    next_ns: u64,
}

fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { near: Vec::with_capacity(NEAR), next_ns: u64::MAX, ..Self::default() }
    }

    #[inline]
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        let key = u128::from(at_ns) << 64 | u128::from(self.sequence);
        self.sequence += 1;
        self.next_ns = self.next_ns.min(at_ns);
        if self.near.len() == NEAR {
            self.far.extend(self.near.drain(..NEAR / 2).map(Reverse));
        }
        let is_late = self.near.first().is_none_or(|&(latest, _)| key > latest);
        if is_late && !self.far.is_empty() {
            self.far.push(Reverse((key, event)));
            return;
        }
        let after = self.near.iter().rev().take_while(|(other, _)| *other < key).count();
        self.near.insert(self.near.len() - after, (key, event));
    }

    /// When the first is due; `u64::MAX`: there is none.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let (key, event) = self.near.pop()?;
        if self.near.is_empty() && !self.far.is_empty() {
            self.refill();
        }
        self.next_ns = self.near.last().map_or(u64::MAX, |(key, _)| time_of(*key));
        Some((time_of(key), event))
    }

    fn refill(&mut self) {
        let next = std::iter::from_fn(|| self.far.pop());
        self.near.extend(next.take(NEAR / 2).map(|Reverse(entry)| entry));
        self.near.reverse();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::ids::Id, *};

    #[test]
    fn time_first_then_the_order_of_coming() {
        let mut events = Events::new();
        events.push(5, Event::Tick(CoreId::at(1)));
        events.push(3, Event::Sync);
        events.push(5, Event::GiveCredit);
        assert_eq!(events.next_ns(), 3);
        let order: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(
            order,
            [(3, Event::Sync), (5, Event::Tick(CoreId::at(1))), (5, Event::GiveCredit)]
        );
        assert_eq!(events.next_ns(), u64::MAX);
    }

    proptest! {
        /// However many there are: some times are taken often, and each third step takes one out.
        #[test]
        fn order_holds_near_and_far(steps in prop::collection::vec((0..50u64, 0..3), 1..400)) {
            let mut events = Events::new();
            let mut model = std::collections::BTreeSet::new();
            for (number, (at_ns, step)) in steps.into_iter().enumerate() {
                if step < 2 {
                    events.push(at_ns, Event::Load(LoadId::at(number)));
                    model.insert((at_ns, number));
                } else {
                    let expected = model.pop_first().map(|(at_ns, n)| (at_ns, Event::Load(LoadId::at(n))));
                    prop_assert_eq!(events.pop(), expected);
                }
                let next_ns = model.first().map_or(u64::MAX, |&(at_ns, _)| at_ns);
                prop_assert_eq!(events.next_ns(), next_ns);
            }
            while let Some((at_ns, number)) = model.pop_first() {
                prop_assert_eq!(events.pop(), Some((at_ns, Event::Load(LoadId::at(number)))));
            }
            prop_assert_eq!(events.pop(), None);
        }
    }
}
