//! Token bucket: a rate with a burst.

use crate::{
    BYTE_NS,
    error::{Result, require},
};

/// The largest burst, bytes (512 MiB): in the bucket's unit it fits 63 bits.
pub const MAX_BURST_BYTES: u64 = 1 << 29;

/// A token bucket (RFC 2697's committed bucket), exact: its level is kept in bit/s x ns, so that
/// refilling is one multiplication without a remainder to lose, however often it is asked.
///
/// It may be overdrawn: a packet longer than the burst conforms when the bucket is full, so that
/// no length can stop a flow for good; the rate holds in the long run all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket {
    rate_bps: u64,
    burst: i64,
    level: i64,
    refilled_ns: u64,
}

fn in_units(bytes: u64) -> i64 {
    i64::try_from(bytes * BYTE_NS).expect("at most MAX_BURST_BYTES")
}

fn check_burst(burst_bytes: u64) -> Result<()> {
    let possible = (1..=MAX_BURST_BYTES).contains(&burst_bytes);
    require(possible, "burst_bytes", burst_bytes, "1 to 536870912 bytes")
}

impl TokenBucket {
    /// A full bucket. `rate_bps`: bit/s, 0 never refills; `burst_bytes`: up to
    /// [`MAX_BURST_BYTES`].
    pub fn new(rate_bps: u64, burst_bytes: u64, now_ns: u64) -> Result<Self> {
        check_burst(burst_bytes)?;
        let burst = in_units(burst_bytes);
        Ok(Self { rate_bps, burst, level: burst, refilled_ns: now_ns })
    }

    /// Changes the rate from now on; what is in the bucket stays.
    pub fn set_rate(&mut self, rate_bps: u64, now_ns: u64) {
        self.refill(now_ns);
        self.rate_bps = rate_bps;
    }

    /// Changes the burst from now on; what does not fit any more is lost.
    pub fn set_burst(&mut self, burst_bytes: u64, now_ns: u64) -> Result<()> {
        check_burst(burst_bytes)?;
        self.refill(now_ns);
        self.burst = in_units(burst_bytes);
        self.level = self.level.min(self.burst);
        Ok(())
    }

    /// The rate, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Takes the tokens of a packet if it conforms.
    pub fn take(&mut self, bytes: u32, now_ns: u64) -> bool {
        self.refill(now_ns);
        let conforms = self.level >= self.needed(bytes);
        if conforms {
            self.charge(bytes, now_ns);
        }
        conforms
    }

    /// Takes the tokens of a packet that has gone, whether it conformed or not.
    pub fn charge(&mut self, bytes: u32, now_ns: u64) {
        self.refill(now_ns);
        // In two steps, because one packet of 2^32 bytes does not fit the unit.
        let units = i128::from(bytes) * i128::from(BYTE_NS);
        self.level = self.level.saturating_sub(i64::try_from(units).unwrap_or(i64::MAX));
    }

    /// When a packet conforms, if nothing else takes tokens: `now_ns` if it does already, `None`
    /// if never (rate 0). The answer is the first whole nanosecond at which [`TokenBucket::take`]
    /// succeeds.
    pub fn ready_ns(&mut self, bytes: u32, now_ns: u64) -> Option<u64> {
        self.refill(now_ns);
        let missing = self.needed(bytes).saturating_sub(self.level);
        match u64::try_from(missing) {
            Err(_) | Ok(0) => Some(now_ns),
            Ok(_) if self.rate_bps == 0 => None,
            Ok(missing) => {
                Some(now_ns.max(self.refilled_ns).saturating_add(missing.div_ceil(self.rate_bps)))
            }
        }
    }

    fn needed(&self, bytes: u32) -> i64 {
        in_units(u64::from(bytes).min(MAX_BURST_BYTES)).min(self.burst)
    }

    fn refill(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.refilled_ns);
        let gained = elapsed_ns.saturating_mul(self.rate_bps);
        let gained = i64::try_from(gained).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(gained).min(self.burst);
        self.refilled_ns = self.refilled_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whole bytes in a bucket; negative: overdrawn.
    fn level_bytes(bucket: &mut TokenBucket, now_ns: u64) -> i64 {
        bucket.refill(now_ns);
        bucket.level.div_euclid(in_units(1))
    }

    proptest! {
        /// However it is asked, what conforms in any time is at most rate x time + burst, and a
        /// bucket that is never full gives exactly the rate.
        #[test]
        fn the_rate_is_exact(
            rate_bps in 1_000..100_000_000_000u64,
            burst_bytes in 1_500..100_000u64,
            gaps_ns in prop::collection::vec(0..20_000u64, 1..300),
        ) {
            let mut bucket = TokenBucket::new(rate_bps, burst_bytes, 0).unwrap();
            let (mut now_ns, mut taken_bytes) = (0, 0u128);
            for gap_ns in gaps_ns {
                now_ns += gap_ns;
                while bucket.take(1_000, now_ns) {
                    taken_bytes += 1_000;
                }
                let allowed = u128::from(now_ns) * u128::from(rate_bps)
                    + u128::from(burst_bytes) * u128::from(BYTE_NS);
                prop_assert!(taken_bytes * u128::from(BYTE_NS) <= allowed);
            }
        }

        #[test]
        fn it_is_ready_when_it_says_and_not_before(
            rate_bps in 1..100_000_000_000u64,
            burst_bytes in 1..100_000u64,
            spent_bytes in 0..200_000u32,
            bytes in 0..200_000u32,
        ) {
            let mut bucket = TokenBucket::new(rate_bps, burst_bytes, 7).unwrap();
            bucket.charge(spent_bytes, 7);
            let ready_ns = bucket.ready_ns(bytes, 7).unwrap();
            let mut early = bucket.clone();
            prop_assert!(ready_ns == 7 || !early.take(bytes, ready_ns - 1));
            prop_assert!(bucket.take(bytes, ready_ns));
        }
    }

    #[test]
    fn a_third_of_a_byte_per_nanosecond_is_not_rounded_away() {
        let mut bucket = TokenBucket::new(1_000_000_000, 10_000, 0).unwrap();
        bucket.charge(10_000, 0);
        for now_ns in 1..=24 {
            level_bytes(&mut bucket, now_ns);
        }
        assert_eq!(level_bytes(&mut bucket, 24), 3);
    }

    #[test]
    fn changes_keep_what_is_there() {
        let mut bucket = TokenBucket::new(0, 3_000, 0).unwrap();
        assert!(bucket.take(2_000, 0));
        assert_eq!(bucket.ready_ns(1_500, 5), None);
        bucket.set_rate(8_000_000_000, 1_000);
        assert_eq!(bucket.ready_ns(1_500, 1_000), Some(1_500));
        bucket.set_burst(500, 1_000).unwrap();
        assert_eq!(level_bytes(&mut bucket, 1_000), 500);
        // Longer than the burst: conforms when full, and what was overdrawn is filled first.
        assert!(bucket.take(1_500, 1_000));
        assert_eq!(level_bytes(&mut bucket, 1_000), -1_000);
        assert_eq!(bucket.ready_ns(500, 1_000), Some(2_500));
    }

    #[test]
    fn time_that_goes_back_adds_nothing() {
        let mut bucket = TokenBucket::new(8_000_000_000, 1_000, 1_000).unwrap();
        assert!(bucket.take(1_000, 1_000));
        assert_eq!(level_bytes(&mut bucket, 500), 0);
        assert_eq!(level_bytes(&mut bucket, 1_100), 100);
    }

    #[test]
    fn an_impossible_burst_is_refused() {
        for burst_bytes in [0, MAX_BURST_BYTES + 1] {
            let refused = TokenBucket::new(1, burst_bytes, 0).unwrap_err();
            assert!(refused.to_string().contains(&burst_bytes.to_string()));
        }
    }
}
