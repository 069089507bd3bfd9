//! Log-linear histograms of times in ns. The receiver's and the generator's BPF programs fill the
//! same buckets (`bpf/include/histogram.h`), so that simulated and measured delays have one contract.
//!
//! ```
//! let mut delays = isolane_histogram::Histogram::default();
//! for delay_ns in [10, 20, 30, 4_000] {
//!     delays.add(delay_ns);
//! }
//! assert_eq!(delays.quantile_ns(5_000), Some(20)); // the median: 5,000 of 10,000
//! assert_eq!(delays.max_ns(), Some(4_000));
//! ```
#![forbid(unsafe_code)]

mod buckets;
mod coarse;

pub use buckets::{BUCKETS, bounds_ns, bucket_of};
pub use coarse::{COARSE_BUCKETS, Coarse};

/// Counts by bucket; a value is known within 1.6 % (exactly below 64 ns).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: Option<u64>,
    min_ns: u64,
    max_ns: u64,
    lost: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            count: 0,
            sum_ns: Some(0),
            min_ns: u64::MAX,
            max_ns: 0,
            lost: 0,
        }
    }
}

impl Histogram {
    /// Takes counts by bucket as a BPF program left them, and the maximum that it noted, ns. Their
    /// sum is not known.
    #[must_use]
    pub fn from_counts(counts: Vec<u64>, max_ns: u64) -> Self {
        let lowest = counts.iter().position(|&count| count > 0);
        // A maximum that is lower than its bucket was noted in a race of two queues.
        let min_ns = lowest.map_or(u64::MAX, |bucket| bounds_ns(bucket).0.min(max_ns));
        Self { count: counts.iter().sum(), counts, sum_ns: None, min_ns, max_ns, lost: 0 }
    }

    /// Adds a value.
    pub fn add(&mut self, value_ns: u64) {
        self.counts[bucket_of(value_ns)] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.map(|sum_ns| sum_ns + value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds values that are infinite: frames that never arrived. Quantiles count them; minimum, maximum,
    /// sum and [`Self::count`] do not.
    pub fn add_lost(&mut self, lost: u64) {
        self.lost += lost;
    }

    /// Number of infinite values.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.lost += other.lost;
        self.sum_ns = self.sum_ns.zip(other.sum_ns).map(|(one, more)| one + more);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of finite values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their exact sum, ns; None where only counts by bucket were taken.
    #[must_use]
    pub fn sum_ns(&self) -> Option<u64> {
        self.sum_ns
    }

    /// The minimum, ns; the lower bound of its bucket where only counts were taken; None when empty.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// The maximum, ns, exact; None when empty.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The value that `per_10000` of 10,000 values do not exceed (nearest rank), ns: the middle of
    /// its bucket, rounded down, but within minimum and maximum. None when empty, and where the value is
    /// infinite, see [`Self::is_lost`].
    #[must_use]
    pub fn quantile_ns(&self, per_10000: u64) -> Option<u64> {
        self.ranked_ns(self.rank(per_10000))
    }

    /// The same of the finite values alone.
    #[must_use]
    pub fn finite_quantile_ns(&self, per_10000: u64) -> Option<u64> {
        self.ranked_ns((self.count * per_10000).div_ceil(10_000).max(1))
    }

    fn ranked_ns(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                let (low, high) = bounds_ns(bucket);
                return Some(u64::midpoint(low, high).clamp(self.min_ns, self.max_ns));
            }
        }
        None
    }

    /// Whether the value that `per_10000` of 10,000 values do not exceed is infinite.
    #[must_use]
    pub fn is_lost(&self, per_10000: u64) -> bool {
        self.lost > 0 && self.rank(per_10000) > self.count
    }

    fn rank(&self, per_10000: u64) -> u64 {
        ((self.count + self.lost) * per_10000).div_ceil(10_000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        for empty in [Histogram::default(), Histogram::from_counts(vec![0; BUCKETS], 0)] {
            assert_eq!((empty.count(), empty.min_ns(), empty.max_ns()), (0, None, None));
            assert_eq!(empty.quantile_ns(5_000), None);
        }
    }

    #[test]
    fn a_maximum_lost_in_a_race_is_still_the_limit() {
        let mut counts = vec![0; BUCKETS];
        counts[bucket_of(5_000)] = 1;
        let raced = Histogram::from_counts(counts, 90);
        assert_eq!(raced.quantile_ns(10_000), Some(90));
    }

    fn exact(values: &mut [u64], per_10000: u64) -> u64 {
        values.sort_unstable();
        let rank = (values.len() as u64 * per_10000).div_ceil(10_000).max(1);
        values[usize::try_from(rank - 1).unwrap()]
    }

    proptest! {
        #[test]
        fn lost_values_are_above_all_others(
            mut values in prop::collection::vec(0u64..60_000_000_000, 0..50),
            lost in 0..50u64,
            per_10000 in 0..=10_000u64,
        ) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.add(value);
            }
            histogram.add_lost(lost);
            let arrived = values.len();
            prop_assert_eq!((histogram.count(), histogram.lost()), (arrived as u64, lost));
            prop_assert_eq!(histogram.max_ns(), values.iter().max().copied());
            values.extend(std::iter::repeat_n(u64::MAX, usize::try_from(lost).unwrap()));
            if values.is_empty() {
                prop_assert!(histogram.quantile_ns(per_10000).is_none());
                prop_assert!(!histogram.is_lost(per_10000));
                return Ok(());
            }
            let mut finite = values[..arrived].to_vec();
            let found = histogram.finite_quantile_ns(per_10000);
            prop_assert_eq!(found.is_none(), finite.is_empty());
            if let Some(found) = found {
                let exact = self::exact(&mut finite, per_10000);
                prop_assert!(found.abs_diff(exact) <= exact / 64 + 1);
            }
            let exact = exact(&mut values, per_10000);
            prop_assert_eq!(histogram.is_lost(per_10000), exact == u64::MAX);
            if let Some(found) = histogram.quantile_ns(per_10000) {
                prop_assert!(found.abs_diff(exact) <= exact / 64 + 1);
            } else {
                prop_assert_eq!(exact, u64::MAX);
            }
        }

        #[test]
        fn quantiles_are_within_the_stated_error(
            mut values in prop::collection::vec(0u64..60_000_000_000, 1..50),
            per_10000 in 0..=10_000u64,
        ) {
            let (mut histogram, mut other) = (Histogram::default(), Histogram::default());
            for (number, value) in values.iter().enumerate() {
                if number % 2 == 0 { histogram.add(*value) } else { other.add(*value) }
            }
            histogram.merge(&other);
            let exact = exact(&mut values, per_10000);
            let found = histogram.quantile_ns(per_10000).unwrap();
            prop_assert!(found.abs_diff(exact) <= exact / 64 + 1);
            prop_assert_eq!(histogram.sum_ns(), Some(values.iter().sum::<u64>()));
        }

        #[test]
        fn counts_of_a_program_give_the_same_quantiles_as_the_values(
            values in prop::collection::vec(0u64..60_000_000_000, 1..50),
            per_10000 in 0..=10_000u64,
        ) {
            let (mut added, mut counts) = (Histogram::default(), vec![0; BUCKETS]);
            for &value in &values {
                added.add(value);
                counts[bucket_of(value)] += 1;
            }
            let taken = Histogram::from_counts(counts, *values.iter().max().unwrap());
            prop_assert_eq!(taken.max_ns(), added.max_ns());
            prop_assert_eq!(taken.sum_ns(), None);
            let (one, other) = (taken.quantile_ns(per_10000), added.quantile_ns(per_10000));
            // Only where the minimum lies above the middle of its bucket does knowing it help.
            let known = one.max(added.min_ns());
            prop_assert_eq!(known, other);
        }
    }
}
