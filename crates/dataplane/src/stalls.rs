//! How much of its time a core is taken away from whoever wants it all: the floor of any pacing.

use std::path::Path;

use crate::{
    Result,
    histogram::{BUCKETS, Histogram, bucket_of},
    monotonic_ns, netns,
};

/// Spins on a core, as the generator does, and looks at the clock.
///
/// Gives the histogram of the gaps longer than `least_ns`, ns, and their sum, ns. Reading the clock
/// itself takes some 30 ns.
pub fn measure(core: usize, duration_ns: u64, least_ns: u64) -> Result<(Histogram, u64)> {
    netns::within(None::<&Path>, || {
        netns::pin(core)?;
        netns::prefer();
        let mut counts = vec![0; BUCKETS];
        let mut lost_ns = 0;
        let end_ns = monotonic_ns().saturating_add(duration_ns);
        let mut before_ns = monotonic_ns();
        while before_ns < end_ns {
            let now_ns = monotonic_ns();
            let gap_ns = now_ns - before_ns;
            before_ns = now_ns;
            if gap_ns > least_ns {
                counts[bucket_of(gap_ns)] += 1;
                lost_ns += gap_ns;
            }
        }
        Ok((Histogram::new(counts), lost_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_less_than_what_was_spent() {
        let (gaps, lost_ns) = measure(0, 5_000_000, 1_000).expect("core 0 is there");
        let longest = gaps.quantile_ns(1.0).unwrap_or(0.0);
        assert!(longest <= 1.016 * lost_ns as f64);
    }
}
