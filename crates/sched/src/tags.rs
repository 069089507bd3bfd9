//! Flows by the tags of their heads, smallest first: a short sorted run and a heap.
//!
//! A tag and its flow are one number of 64 bits, the tag above: one comparison without a branch, and
//! the eight children of a node are one cache line, so that 65,536 flows are half a MiB and six levels.
//! Of a tag the low bits are kept and compared by how far they are ahead of virtual time: exact
//! while no tag is [`SPAN`] ahead of it.
//!
//! With many flows the next one's queue is somewhere in memory, and waiting for it is what a
//! decision costs. So the smallest [`RUN`] entries are taken out together, and the caller may
//! look at their queues at once: the processor then waits for all of them at the same time, not one
//! after the other. What comes later with a smaller tag overtakes the run in the heap.

use crate::bits;

const FLOW_BITS: u32 = bits::CAPACITY.trailing_zeros();
const FLOW_MASK: u64 = (1 << FLOW_BITS) - 1;
/// What is kept of a tag.
pub(crate) const TAG_MASK: u64 = u64::MAX >> FLOW_BITS;
/// A tag must be less than this ahead of virtual time.
pub(crate) const SPAN: u64 = TAG_MASK / 2;
const ARITY: usize = 8;
/// So many queues the processor can wait for at the same time.
const RUN: usize = 16;

/// Siblings. The root is the last of group 0; the children of entry i are group i + 1.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Group([u64; ARITY]);

#[derive(Debug, Clone)]
pub(crate) struct Tags {
    run: [u64; RUN],
    /// The entries of `run` still to come are `at..end`.
    at: usize,
    end: usize,
    heap: Vec<Group>,
    len: usize,
    /// Virtual time: no tag here is below it.
    now: u64,
}

fn flow_of(entry: u64) -> u32 {
    (entry & FLOW_MASK) as u32
}

/// The smaller of two, with what belongs to it.
fn smaller(a: (u64, usize), b: (u64, usize)) -> (u64, usize) {
    if b.0 < a.0 { b } else { a }
}

impl Tags {
    pub(crate) fn new(flows: u32) -> Self {
        let heap = vec![Group([0; ARITY]); flows as usize / ARITY + 2];
        Self { run: [0; RUN], at: 0, end: 0, heap, len: 0, now: 0 }
    }

    /// Takes the next entries out for the run if that is over; the flows taken.
    #[inline]
    pub(crate) fn refill(&mut self) -> impl Iterator<Item = u32> {
        let mut taken = 0;
        if self.at == self.end {
            self.at = 0;
            while taken < RUN && self.len > 0 {
                self.run[taken] = self.root();
                self.pop();
                taken += 1;
            }
            self.end = taken;
        }
        self.run[..taken].iter().map(|&entry| flow_of(entry))
    }

    /// The flow with the smallest tag, of several the lowest, and the tag. Nothing without a `refill`.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        if self.at == self.end {
            return None;
        }
        let run = self.run[self.at];
        let entry = if self.heap_is_first() { self.root() } else { run };
        let ahead = (entry >> FLOW_BITS).wrapping_sub(self.now) & TAG_MASK;
        Some((self.now + ahead, flow_of(entry)))
    }

    /// Takes the first out; it comes back with a tag if it has one.
    #[inline]
    pub(crate) fn take_first(&mut self, again: Option<u64>) {
        if self.heap_is_first() {
            let flow = flow_of(self.root());
            match again {
                Some(tag) => self.sift_down(Self::entry(tag, flow)),
                None => self.pop(),
            }
        } else {
            let flow = flow_of(self.run[self.at]);
            self.at += 1;
            if let Some(tag) = again {
                self.push(tag, flow);
            }
        }
    }

    /// Virtual time moves on, to the smallest tag at most.
    #[inline]
    pub(crate) fn advance(&mut self, now: u64) {
        self.now = now;
    }

    /// The flow must not be there yet.
    #[inline]
    pub(crate) fn push(&mut self, tag: u64, flow: u32) {
        self.len += 1;
        self.sift_up(self.len - 1, Self::entry(tag, flow));
    }

    fn entry(tag: u64, flow: u32) -> u64 {
        tag << FLOW_BITS | u64::from(flow)
    }

    fn heap_is_first(&self) -> bool {
        self.len > 0 && self.ahead(self.root()) < self.ahead(self.run[self.at])
    }

    fn root(&self) -> u64 {
        self.heap[0].0[ARITY - 1]
    }

    /// What entries are compared by.
    fn ahead(&self, entry: u64) -> u64 {
        entry.wrapping_sub(self.now << FLOW_BITS)
    }

    #[inline]
    fn pop(&mut self) {
        self.len -= 1;
        let last = self.at(self.len);
        if self.len > 0 {
            self.sift_down(last);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut index: usize, moved: u64) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            let above = self.at(parent);
            if self.ahead(above) <= self.ahead(moved) {
                break;
            }
            self.put(index, above);
            index = parent;
        }
        self.put(index, moved);
    }

    /// From the root.
    #[inline]
    fn sift_down(&mut self, moved: u64) {
        let (mut index, key) = (0, self.ahead(moved));
        // Whole groups; only the last may not be full.
        while (index + 1) * ARITY < self.len {
            let (smallest, offset) = self.smallest(index + 1);
            if self.ahead(smallest) >= key {
                self.put(index, moved);
                return;
            }
            self.put(index, smallest);
            index = index * ARITY + 1 + offset;
        }
        self.sift_down_last(index, moved);
    }

    #[inline]
    fn smallest(&self, group: usize) -> (u64, usize) {
        let Group(all) = &self.heap[group];
        // A tournament: the matches of a round do not depend on each other.
        let one = |at| (self.ahead(all[at]), at);
        let two = |at| smaller(one(at), one(at + 1));
        let four = |at| smaller(two(at), two(at + 2));
        let (_, at) = smaller(four(0), four(4));
        (all[at], at)
    }

    #[inline]
    fn sift_down_last(&mut self, mut index: usize, moved: u64) {
        let first = index * ARITY + 1;
        let siblings = first..self.len.max(first);
        if let Some(child) = siblings.min_by_key(|&child| self.ahead(self.at(child))) {
            let smallest = self.at(child);
            if self.ahead(smallest) < self.ahead(moved) {
                self.put(index, smallest);
                index = child;
            }
        }
        self.put(index, moved);
    }

    fn at(&self, index: usize) -> u64 {
        let shifted = index + ARITY - 1;
        self.heap[shifted / ARITY].0[shifted % ARITY]
    }

    fn put(&mut self, index: usize, entry: u64) {
        let shifted = index + ARITY - 1;
        self.heap[shifted / ARITY].0[shifted % ARITY] = entry;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check(start: u64, steps: Vec<(u32, u64, u8)>) -> Result<(), TestCaseError> {
        let mut tags = Tags::new(300);
        let mut model = BTreeSet::new();
        tags.advance(start);
        let mut now = start;
        for (flow, ahead, step) in steps {
            if step == 0 && !model.iter().any(|&(_, other)| other == flow) {
                tags.push(now + ahead, flow);
                model.insert((now + ahead, flow));
                continue;
            }
            tags.refill().for_each(drop);
            prop_assert_eq!(tags.first(), model.first().copied());
            if let Some((tag, first)) = model.pop_first() {
                let again = (step < 3).then_some(tag + ahead);
                tags.take_first(again);
                model.extend(again.map(|tag| (tag, first)));
                tags.advance(tag);
                now = tag;
            }
        }
        while let Some(entry) = model.pop_first() {
            tags.refill().for_each(drop);
            prop_assert_eq!(tags.first(), Some(entry));
            tags.take_first(None);
        }
        tags.refill().for_each(drop);
        prop_assert_eq!(tags.first(), None);
        Ok(())
    }

    proptest! {
        /// Tags near each other, with many ties; and as far ahead as allowed; also where the bits
        /// kept overflow.
        #[test]
        fn they_come_in_order(
            start in prop_oneof![Just(0), Just(TAG_MASK - 100), Just(TAG_MASK + SPAN)],
            far in prop_oneof![Just(30u64), Just(SPAN)],
            steps in prop::collection::vec((0..300u32, 0..SPAN, 0..4u8), 0..900),
        ) {
            check(start, steps.into_iter().map(|(flow, ahead, step)| (flow, ahead % far, step)).collect())?;
        }
    }
}
