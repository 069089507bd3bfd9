//! A set of flows that finds the next member in three steps, whatever its size.

/// Bits a word holds; also the branching of the summary levels.
const WORD: usize = 64;
const LEVELS: usize = 3;
/// Members are below this (64^3).
pub(crate) const CAPACITY: u32 = 1 << 18;

/// A bit per flow, a bit per word of those, a bit per word of these.
#[derive(Debug, Clone)]
pub(crate) struct Bits {
    levels: [Vec<u64>; LEVELS],
}

impl Bits {
    /// For flows below `len`, which is 1 to `CAPACITY`.
    pub(crate) fn new(len: u32) -> Self {
        let mut words = len as usize;
        let levels = std::array::from_fn(|_| {
            words = words.div_ceil(WORD);
            vec![0; words]
        });
        Self { levels }
    }

    #[inline]
    pub(crate) fn insert(&mut self, member: u32) {
        let mut index = member as usize;
        for level in &mut self.levels {
            let word = &mut level[index / WORD];
            let known_above = *word != 0;
            *word |= 1 << (index % WORD);
            if known_above {
                return;
            }
            index /= WORD;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, member: u32) {
        let mut index = member as usize;
        for level in &mut self.levels {
            level[index / WORD] &= !(1 << (index % WORD));
            if level[index / WORD] != 0 {
                return;
            }
            index /= WORD;
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels[LEVELS - 1] == [0]
    }

    /// The first member at or after `from`.
    #[inline]
    pub(crate) fn first_from(&self, from: u32) -> Option<u32> {
        // Mostly it is near.
        let ahead = self.levels[0].get(from as usize / WORD)? >> (from as usize % WORD);
        if ahead != 0 {
            return Some(from + ahead.trailing_zeros());
        }
        self.first_from_far(from)
    }

    fn first_from_far(&self, from: u32) -> Option<u32> {
        let mut index = from as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(index / WORD).copied().unwrap_or(0) & (!0 << (index % WORD));
            if word != 0 {
                return Some(self.descend(height, index / WORD, word));
            }
            index = index / WORD + 1;
        }
        None
    }

    /// The first member below a word that is not zero.
    fn descend(&self, height: usize, at: usize, word: u64) -> u32 {
        let mut index = at * WORD + word.trailing_zeros() as usize;
        for level in self.levels[..height].iter().rev() {
            index = index * WORD + level[index].trailing_zeros() as usize;
        }
        u32::try_from(index).expect("members are below CAPACITY")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0..CAPACITY, any::<bool>()), 0..200)) {
            let mut bits = Bits::new(CAPACITY);
            let mut model = BTreeSet::new();
            for (member, insert) in steps {
                // Near each other as well as far apart.
                let member = if member % 2 == 0 { member } else { member % 300 };
                if insert {
                    bits.insert(member);
                    model.insert(member);
                } else {
                    bits.remove(member);
                    model.remove(&member);
                }
                for from in [0, member, member + 1, CAPACITY - 1] {
                    prop_assert_eq!(bits.first_from(from), model.range(from..).next().copied());
                }
            }
        }
    }

    #[test]
    fn small_sets_end_where_they_end() {
        let mut bits = Bits::new(1);
        assert_eq!(bits.first_from(0), None);
        bits.insert(0);
        assert_eq!((bits.first_from(0), bits.first_from(1)), (Some(0), None));
    }
}
