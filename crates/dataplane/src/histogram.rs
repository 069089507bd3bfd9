//! Log-linear histograms of times in ns, as `bpf/include/histogram.h` fills them.

/// Sub-buckets an octave, as a power of two: `ISL_HIST_SUB_BITS`.
const SUB_BITS: u32 = 6;
/// `ISL_HIST_BUCKETS`.
pub const BUCKETS: usize = 2048;

/// Counts by bucket; a value is known within 1.6 % (exactly below 64 ns).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

/// Lowest and highest value in ns that falls into the bucket.
#[must_use]
pub fn bounds_ns(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let sub = 1u64 << SUB_BITS;
    if bucket < sub {
        return (bucket, bucket);
    }
    let octave = (bucket >> SUB_BITS) - 1;
    let low = (sub + (bucket & (sub - 1))) << octave;
    (low, low + (1u64 << octave) - 1)
}

/// The bucket of a value in ns, as `isl_bucket` in C finds it.
#[must_use]
pub fn bucket_of(value_ns: u64) -> usize {
    let sub = 1u64 << SUB_BITS;
    if value_ns < sub {
        return usize::try_from(value_ns).unwrap_or(BUCKETS - 1);
    }
    let octave = value_ns.ilog2() - SUB_BITS;
    let bucket = (u64::from(octave) + 1) << SUB_BITS | (value_ns >> octave & (sub - 1));
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

impl Histogram {
    /// Takes the counts as the program left them.
    #[must_use]
    pub fn new(counts: Vec<u64>) -> Self {
        Self { counts }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The counts by bucket.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The smallest value that a share `q` (0 to 1) of the values do not exceed: the middle of its
    /// bucket, ns; None when empty (nearest-rank definition).
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "q is clamped to 0..1, and a count fits"
        )]
        let rank = ((q.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                let (low, high) = bounds_ns(bucket);
                return Some(f64::midpoint(low as f64, high as f64));
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
    fn a_bucket_holds_its_bounds() {
        for bucket in 0..BUCKETS {
            let (low, high) = bounds_ns(bucket);
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_join_without_gap() {
        for bucket in 1..BUCKETS {
            assert_eq!(bounds_ns(bucket).0, bounds_ns(bucket - 1).1 + 1);
        }
    }

    #[test]
    fn empty_has_no_quantile() {
        assert_eq!(Histogram::default().quantile_ns(0.5), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_stated_error(
            mut values in prop::collection::vec(0u64..60_000_000_000, 1..50),
            q in 0.0f64..=1.0,
        ) {
            let mut counts = vec![0; BUCKETS];
            for value in &values {
                counts[bucket_of(*value)] += 1;
            }
            values.sort_unstable();
            let below = values.iter().enumerate().filter(|(i, _)| (i + 1) as f64 >= q * values.len() as f64);
            let exact = *below.map(|(_, value)| value).min().expect("the last one") as f64;
            let found = Histogram::new(counts).quantile_ns(q).expect("not empty");
            prop_assert!((found - exact).abs() <= 0.016 * exact + 0.5);
        }
    }
}
