//! Flows that take turns, in the order of their numbers.
//!
//! A list in the order of arrival would do as well, but its neighbours lie anywhere in memory; in the
//! order of numbers the next flow's state is mostly in the cache line after this one's, which is
//! what keeps a decision cheap with 65,536 flows. Between two turns of a flow every other that stays a member
//! has exactly one, as with a list.

use crate::bits::Bits;

#[derive(Debug, Clone)]
pub(crate) struct Turns {
    members: Bits,
    last: u32,
}

impl Turns {
    pub(crate) fn new(flows: u32) -> Self {
        Self { members: Bits::new(flows), last: flows - 1 }
    }

    #[inline]
    pub(crate) fn insert(&mut self, flow: u32) {
        self.members.insert(flow);
    }

    #[inline]
    pub(crate) fn remove(&mut self, flow: u32) {
        self.members.remove(flow);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whose turn it was last.
    #[inline]
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Whose turn is next.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        if self.members.is_empty() {
            return None;
        }
        self.members.first_from(self.last + 1).or_else(|| self.members.first_from(0))
    }

    /// It is this flow's turn now.
    #[inline]
    pub(crate) fn begin(&mut self, flow: u32) {
        self.last = flow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_skip_who_has_left() {
        let mut turns = Turns::new(200);
        assert_eq!(turns.next(), None);
        for flow in [150, 3, 70] {
            turns.insert(flow);
        }
        let take = |turns: &mut Turns| {
            let next = turns.next().unwrap();
            turns.begin(next);
            next
        };
        assert_eq!([(); 4].map(|()| take(&mut turns)), [3, 70, 150, 3]);
        turns.remove(70);
        assert_eq!([(); 3].map(|()| take(&mut turns)), [150, 3, 150]);
        turns.remove(3);
        assert_eq!([(); 2].map(|()| take(&mut turns)), [150, 150]);
        turns.remove(150);
        assert!(turns.is_empty());
    }
}
