//! The intended times of requests in an open loop. Pure.

use isolane_sched::Prng;

const NS_MILLI: u128 = 1_000_000_000_000;

/// Times at which requests are to be sent, ns after the start.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate_millirps: u64,
    number: u64,
    poisson: Option<Prng>,
    at_ns: f64,
}

impl Schedule {
    /// Equal times between requests, or exponential ones from a seed.
    #[must_use]
    pub fn new(rate_millirps: u64, poisson_seed: Option<u64>) -> Self {
        let poisson = poisson_seed.map(|seed| Prng::new(seed, "http requests"));
        let mut schedule = Self { rate_millirps, number: 0, poisson, at_ns: 0.0 };
        schedule.go_on();
        schedule.number = 0;
        schedule
    }

    /// The time of the next request, ns.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
    pub fn next_ns(&self) -> u64 {
        if self.poisson.is_some() {
            return self.at_ns as u64;
        }
        (u128::from(self.number) * NS_MILLI / u128::from(self.rate_millirps)) as u64
    }

    /// Goes on to the one after it.
    pub fn go_on(&mut self) {
        self.number += 1;
        if let Some(numbers) = &mut self.poisson {
            // 53 bits in (0, 1]: the logarithm is finite.
            let drawn = ((numbers.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            self.at_ns -= drawn.ln() * (NS_MILLI as f64 / self.rate_millirps as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut schedule: Schedule, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let at_ns = schedule.next_ns();
                schedule.go_on();
                at_ns
            })
            .collect()
    }

    #[test]
    fn equal_times_do_not_drift() {
        let found = times(Schedule::new(3_000, None), 4);
        assert_eq!(found, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        assert_eq!(times(Schedule::new(7_000_000, None), 7_000_001)[7_000_000], 1_000_000_000_000);
    }

    #[test]
    fn exponential_times_have_the_rate_and_the_spread() {
        let found = times(Schedule::new(1_000_000, Some(7)), 100_001);
        let gaps: Vec<f64> =
            found.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        // Five standard errors of 100,000 exponential values.
        assert!((mean - 1.0).abs() < 0.016, "{mean}");
        assert!((variance - 1.0).abs() < 0.045, "{variance}");
        assert_eq!(found, times(Schedule::new(1_000_000, Some(7)), 100_001));
        assert_ne!(found, times(Schedule::new(1_000_000, Some(8)), 100_001));
    }
}
