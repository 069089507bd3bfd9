//! Which bucket a time falls into.

/// Buckets an octave, as a power of two: `ISL_HIST_SUB_BITS`.
const SUB_BITS: u32 = 6;
/// `ISL_HIST_BUCKETS`.
pub const BUCKETS: usize = 2048;

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
    (low, low + ((1u64 << octave) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_join_without_gap_and_hold_their_bounds() {
        for bucket in 0..BUCKETS {
            let (low, high) = bounds_ns(bucket);
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!(bucket == 0 || low == bounds_ns(bucket - 1).1 + 1);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
