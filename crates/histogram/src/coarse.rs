//! A small histogram for a bin of a time series: eight buckets of the large one in one. Only those
//! in use take memory, so that a series of very many bins takes as much as it has frames.

use crate::buckets::{BUCKETS, bounds_ns, bucket_of};

/// Buckets of the large histogram in one, as a power of two: `ISL_BIN_MERGE_BITS`.
const MERGE_BITS: u32 = 3;
/// `ISL_BIN_BUCKETS`.
pub const COARSE_BUCKETS: usize = BUCKETS >> MERGE_BITS;

/// Counts by bucket; a value is known within 6.3 % (within 4 ns below 64 ns).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coarse {
    /// Bucket and count, of those above 0, in the order of the buckets.
    counts: Vec<(u8, u32)>,
}

impl Coarse {
    /// Takes counts by bucket as a BPF program left them.
    #[must_use]
    pub fn from_counts(counts: [u32; COARSE_BUCKETS]) -> Self {
        Self { counts: (0..=u8::MAX).zip(counts).filter(|&(_, count)| count > 0).collect() }
    }

    /// Adds a value.
    pub fn add(&mut self, value_ns: u64) {
        let bucket = u8::try_from(bucket_of(value_ns) >> MERGE_BITS);
        self.add_to(bucket.unwrap_or(u8::MAX), 1);
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.counts {
            self.add_to(bucket, count);
        }
    }

    fn add_to(&mut self, bucket: u8, values: u32) {
        match self.counts.binary_search_by_key(&bucket, |&(known, _)| known) {
            Ok(at) => self.counts[at].1 += values,
            Err(at) => self.counts.insert(at, (bucket, values)),
        }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| u64::from(count)).sum()
    }

    /// The value that `per_10000` of 10,000 values do not exceed (nearest rank), ns: the middle of
    /// its bucket; None when empty.
    #[must_use]
    pub fn quantile_ns(&self, per_10000: u64) -> Option<u64> {
        let rank = (self.count() * per_10000).div_ceil(10_000).max(1);
        let mut below = 0;
        for &(bucket, count) in &self.counts {
            below += u64::from(count);
            if below >= rank {
                let first = usize::from(bucket) << MERGE_BITS;
                let last = first + (1 << MERGE_BITS) - 1;
                return Some(u64::midpoint(bounds_ns(first).0, bounds_ns(last).1));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_one_has_no_quantile() {
        assert_eq!(Coarse::default().quantile_ns(9_900), None);
        assert_eq!(Coarse::from_counts([0; COARSE_BUCKETS]), Coarse::default());
    }

    #[test]
    fn counts_of_a_program_are_those_of_the_values() {
        let (mut added, mut counts) = (Coarse::default(), [0; COARSE_BUCKETS]);
        for value_ns in [u64::MAX, 0, 5_000, 5_001, 1 << 36] {
            added.add(value_ns);
            counts[bucket_of(value_ns) >> MERGE_BITS] += 1;
        }
        assert_eq!(Coarse::from_counts(counts), added);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_stated_error(
            mut values in prop::collection::vec(0u64..60_000_000_000, 1..200),
            per_10000 in 0..=10_000u64,
        ) {
            let (mut coarse, mut other) = (Coarse::default(), Coarse::default());
            for (number, value) in values.iter().enumerate() {
                if number % 2 == 0 { coarse.add(*value) } else { other.add(*value) }
            }
            coarse.merge(&other);
            prop_assert_eq!(coarse.count(), values.len() as u64);
            values.sort_unstable();
            let rank = (values.len() as u64 * per_10000).div_ceil(10_000).max(1);
            let exact = values[usize::try_from(rank - 1).unwrap()];
            let found = coarse.quantile_ns(per_10000).unwrap();
            prop_assert!(found.abs_diff(exact) <= (exact / 16).max(4), "{found} for {exact}");
        }
    }
}
