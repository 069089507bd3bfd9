//! How much of its time a core is taken away from whoever wants it all: the floor of any pacing.

use std::path::Path;

use crate::{Histogram, Result, monotonic_ns, netns};

/// Spins on a core, as the generator does, and looks at the clock.
///
/// Gives the gaps longer than `min_ns`, ns; their sum is the time lost. Reading the clock itself
/// takes some 30 ns.
pub fn measure(core: usize, duration_ns: u64, min_ns: u64) -> Result<Histogram> {
    netns::within(None::<&Path>, || {
        netns::pin(core)?;
        netns::prefer();
        let mut gaps = Histogram::default();
        let end_ns = monotonic_ns().saturating_add(duration_ns);
        let mut before_ns = monotonic_ns();
        while before_ns < end_ns {
            let now_ns = monotonic_ns();
            let gap_ns = now_ns - before_ns;
            before_ns = now_ns;
            if gap_ns > min_ns {
                gaps.add(gap_ns);
            }
        }
        Ok(gaps)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_thread;

    #[test]
    fn what_is_lost_is_less_than_what_was_spent() {
        let began_ns = monotonic_ns();
        let core = test_thread::first_core();
        let gaps = measure(core, 5_000_000, 1_000).expect("the core is there");
        let spent_ns = monotonic_ns() - began_ns;
        let lost_ns = gaps.sum_ns().expect("each gap was added by its value");
        assert!(gaps.max_ns().unwrap_or(0) <= lost_ns && lost_ns <= spent_ns);
    }
}
