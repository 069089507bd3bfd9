//! A heap of flows by a 64-bit key, from whose middle they can be removed. Four children a node: half
//! the levels of a binary heap, and the children of a node lie side by side.

const ABSENT: u32 = u32::MAX;

/// Where each flow is.
#[derive(Debug, Clone)]
struct Positions(Vec<u32>);

impl Positions {
    fn moved_to(&mut self, flow: u32, index: usize) {
        self.0[flow as usize] = u32::try_from(index).expect("a heap holds each flow once");
    }

    fn gone(&mut self, flow: u32) {
        self.0[flow as usize] = ABSENT;
    }
}

/// Smallest key first; among equal keys the lowest flow. Each flow at most once.
#[derive(Debug, Clone)]
pub(crate) struct Heap {
    groups: Vec<Group>,
    len: usize,
    positions: Positions,
}

const ARITY: usize = 4;

/// Siblings, in one cache line. Key above, flow below in one number: one comparison without a
/// branch. The root is the last of group 0; the children of entry i are group i + 1.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Group([u128; ARITY]);

/// Larger than any entry.
const NONE: u128 = u128::MAX;
const NO_GROUP: Group = Group([NONE; ARITY]);

fn entry(key: u64, flow: u32) -> u128 {
    u128::from(key) << 64 | u128::from(flow)
}

fn key_of(entry: u128) -> u64 {
    (entry >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the flow is the lower half")]
fn flow_of(entry: u128) -> u32 {
    entry as u32
}

impl Heap {
    pub(crate) fn new(flows: u32) -> Self {
        Self {
            groups: vec![NO_GROUP; flows as usize / ARITY + 2],
            len: 0,
            positions: Positions(vec![ABSENT; flows as usize]),
        }
    }

    /// Takes the flow out; whether it was there.
    pub(crate) fn remove(&mut self, flow: u32) -> bool {
        let index = self.positions.0[flow as usize];
        let there = index != ABSENT;
        if there {
            self.take(index as usize);
        }
        there
    }

    /// The smallest key and its flow.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let first = self.at(0);
        (first != NONE).then(|| (key_of(first), flow_of(first)))
    }

    /// The flow must not be there yet.
    pub(crate) fn push(&mut self, key: u64, flow: u32) {
        self.len += 1;
        self.sift_up(self.len - 1, entry(key, flow));
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let first = self.first();
        if first.is_some() {
            self.take(0);
        }
        first
    }

    /// Takes the first flow if its key is at most `limit`.
    pub(crate) fn pop_until(&mut self, limit: u64) -> Option<(u64, u32)> {
        self.first().filter(|&(key, _)| key <= limit).and_then(|_| self.pop())
    }

    fn take(&mut self, index: usize) {
        self.positions.gone(flow_of(self.at(index)));
        self.len -= 1;
        let last = self.at(self.len);
        self.put(self.len, NONE);
        if index == self.len {
            return;
        }
        if index > 0 && last < self.at((index - 1) / ARITY) {
            self.sift_up(index, last);
        } else {
            self.sift_down(index, last);
        }
    }

    fn sift_up(&mut self, mut index: usize, moved: u128) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            let above = self.at(parent);
            if above <= moved {
                break;
            }
            self.set(index, above);
            index = parent;
        }
        self.set(index, moved);
    }

    fn sift_down(&mut self, mut index: usize, moved: u128) {
        while let Some(Group([a, b, c, d])) = self.groups.get(index + 1).copied() {
            // A tournament: its two first rounds do not depend on each other.
            let (left, right) = (a.min(b), c.min(d));
            let smallest = left.min(right);
            if smallest >= moved {
                break;
            }
            self.set(index, smallest);
            let offset = if left < right { usize::from(b < a) } else { 2 + usize::from(d < c) };
            index = index * ARITY + 1 + offset;
        }
        self.set(index, moved);
    }

    fn at(&self, index: usize) -> u128 {
        let shifted = index + ARITY - 1;
        self.groups[shifted / ARITY].0[shifted % ARITY]
    }

    fn put(&mut self, index: usize, entry: u128) {
        let shifted = index + ARITY - 1;
        self.groups[shifted / ARITY].0[shifted % ARITY] = entry;
    }

    fn set(&mut self, index: usize, moved: u128) {
        self.put(index, moved);
        self.positions.moved_to(flow_of(moved), index);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_heap(steps in prop::collection::vec((0..64u32, 0..50u64, 0..4u8), 0..300)) {
            let mut heap = Heap::new(64);
            let mut model = BTreeSet::new();
            for (flow, key, step) in steps {
                let there = model.iter().copied().find(|&(_, other)| other == flow);
                match (step, there) {
                    (0 | 1, None) => {
                        heap.push(key, flow);
                        model.insert((key, flow));
                    }
                    (0 | 1, Some(entry)) => {
                        heap.remove(flow);
                        model.remove(&entry);
                    }
                    (2, _) => prop_assert_eq!(heap.pop(), model.pop_first()),
                    _ => {
                        let until = model.first().copied().filter(|&(first, _)| first <= key);
                        prop_assert_eq!(heap.pop_until(key), until);
                        until.map(|entry| model.remove(&entry));
                    }
                }
                prop_assert_eq!(heap.first(), model.first().copied());
            }
            while let Some(entry) = model.pop_first() {
                prop_assert_eq!(heap.pop(), Some(entry));
            }
            prop_assert_eq!(heap.pop(), None);
        }
    }
}
