//! How often each clock of a core ticks, and how many ticks a window has.

/// How long the period stays the same, ns. Each change loses what has passed of one.
pub(super) const TURN_NS: u64 = 1_000_000_000;
/// Clocks of each core, which tick at rates of their own, so that they beat with nothing periodic.
pub(super) const CLOCKS: usize = 4;
/// By how much of itself a rate is varied: one clock is as much faster as another one is slower.
const VARIED: f64 = 0.2;

/// The rates at which each core is sampled: they change every second; their sum does not.
pub(super) struct Pace {
    hz: f64,
    /// Part of its rate that is added to each clock's now.
    varied: [f64; CLOCKS],
    pub(super) since_ns: u64,
    /// Which ticks count: from, to.
    pub(super) window: (u64, u64),
    /// Samples of a busy core in the turns that are over.
    pub(super) expected: f64,
    random: u64,
}

impl Pace {
    pub(super) fn new(hz: f64, now_ns: u64) -> Self {
        let (varied, window) = ([0.0; CLOCKS], (0, u64::MAX));
        Self { hz, varied, since_ns: now_ns, window, expected: 0.0, random: 1 }
    }

    /// The rate of each clock.
    pub(super) fn now_hz(&self) -> [f64; CLOCKS] {
        self.varied.map(|varied| self.hz / CLOCKS as f64 * (1.0 + varied))
    }

    pub(super) fn end_turn(&mut self, now_ns: u64) {
        let (from_ns, to_ns) = (self.since_ns.max(self.window.0), now_ns.min(self.window.1));
        let seconds = to_ns.saturating_sub(from_ns) as f64 / 1e9;
        for hz in self.now_hz() {
            // A turn that ends in the window loses what has passed of a period.
            let ticks = seconds * hz;
            self.expected += if to_ns == now_ns { ticks.floor() } else { ticks };
        }
        self.since_ns = now_ns;
        for clock in (0..CLOCKS).step_by(2) {
            let varied = VARIED * (2.0 * self.next_part() - 1.0);
            (self.varied[clock], self.varied[clock + 1]) = (varied, -varied);
        }
    }

    /// A number from 0 to 1, by Knuth's MMIX generator: it has to be like nothing else, not
    /// unpredictable.
    fn next_part(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_vary_and_their_sum_does_not() {
        let mut now_ns = 5;
        let mut pace = Pace::new(1000.0, now_ns);
        let mut seen = Vec::new();
        for _ in 0..100 {
            let rates = pace.now_hz();
            assert!((rates.iter().sum::<f64>() - 1000.0).abs() < 1e-9, "{rates:?}");
            seen.extend(rates);
            now_ns += TURN_NS;
            pace.end_turn(now_ns);
        }
        assert!(seen.iter().all(|rate| (200.0..=300.0).contains(rate)));
        assert!(seen.iter().any(|rate| *rate < 212.5) && seen.iter().any(|rate| *rate > 287.5));
        assert!((pace.expected - 100_000.0).abs() <= 400.0, "{}", pace.expected);
    }

    #[test]
    fn only_the_ticks_of_a_window_are_expected() {
        let mut pace = Pace::new(1000.0, 0);
        pace.window = (300_000_000, 800_000_000);
        for (now_ns, expected) in [(200, 0.0), (2_000, 500.0), (3_000, 500.0)] {
            pace.end_turn(now_ns * 1_000_000);
            assert!((pace.expected - expected).abs() < 1e-9, "{}", pace.expected);
        }
    }
}
