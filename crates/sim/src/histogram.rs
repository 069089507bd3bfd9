//! Log-linear histograms of delays, in the layout that the live receiver uses.

/// Sub-buckets an octave, as a power of two.
const SUB_BITS: u32 = 6;
const BUCKETS: usize = 2048;

/// Counts by bucket; a value is known within 1.6 % (exactly below 64 ns). Sum, minimum and maximum are
/// exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

fn bucket_of(value_ns: u64) -> usize {
    let sub = 1u64 << SUB_BITS;
    if value_ns < sub {
        return usize::try_from(value_ns).unwrap_or(BUCKETS - 1);
    }
    let octave = value_ns.ilog2() - SUB_BITS;
    let bucket = (u64::from(octave) + 1) << SUB_BITS | (value_ns >> octave & (sub - 1));
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn bounds_ns(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let sub = 1u64 << SUB_BITS;
    if bucket < sub {
        return (bucket, bucket);
    }
    let octave = (bucket >> SUB_BITS) - 1;
    let low = (sub + (bucket & (sub - 1))) << octave;
    (low, low + ((1u64 << octave) - 1))
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value_ns: u64) {
        self.counts[bucket_of(value_ns)] += 1;
        self.count += 1;
        self.sum_ns += value_ns;
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Minimum, ns; none when empty.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// Maximum, ns; none when empty.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The value that `per_10000` of 10,000 values do not exceed (nearest rank): the middle of its
    /// bucket, within what there is; ns; none when empty.
    #[must_use]
    pub fn quantile_ns(&self, per_10000: u64) -> Option<u64> {
        let rank = (self.count * per_10000).div_ceil(10_000).max(1);
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_join_without_gap() {
        for bucket in 1..BUCKETS {
            assert_eq!(bounds_ns(bucket).0, bounds_ns(bucket - 1).1 + 1);
            assert_eq!(bucket_of(bounds_ns(bucket).0), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(Histogram::default().quantile_ns(5_000), None);
    }

    proptest! {
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
            values.sort_unstable();
            let rank = (values.len() as u64 * per_10000).div_ceil(10_000).max(1);
            let exact = values[usize::try_from(rank - 1).unwrap()];
            let found = histogram.quantile_ns(per_10000).unwrap();
            prop_assert!(found.abs_diff(exact) <= exact / 64 + 1);
            prop_assert_eq!(histogram.sum_ns(), values.iter().sum::<u64>());
        }
    }
}
