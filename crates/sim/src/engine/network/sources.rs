//! Open-loop traffic: when the next frame of a source is due is known in closed form, so that it needs no
//! event of its own: wires and ports are brought up to now before they are used.

use isolane_sched::Prng;

use crate::{
    engine::{
        frame::{Frame, Mark, NEVER},
        ids::{FlowId, RouterId},
    },
    random::exponential_ns,
};

/// ns x (frames per 1,000 seconds).
const MILLI: u64 = 1_000_000_000_000;

/// Sizes of a stream's frames.
#[derive(Debug, Clone)]
pub(crate) enum Sizes {
    Fixed(u16),
    Of(Vec<u16>, Prng),
}

impl Sizes {
    #[inline]
    pub(crate) fn next(&mut self) -> u16 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Of(sizes, prng) => {
                let len = u32::try_from(sizes.len()).expect("checked when the model was built");
                sizes[prng.below(len) as usize]
            }
        }
    }
}

/// Equal gaps, exact in the long run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    rate_millipps: u64,
    gap_ns: u64,
    gap_remainder: u64,
    remainder: u64,
}

impl Pace {
    /// `rate_millipps`: frames per 1,000 s, at least 1.
    pub(crate) fn new(rate_millipps: u64) -> Self {
        let (gap_ns, gap_remainder) = (MILLI / rate_millipps, MILLI % rate_millipps);
        Self { rate_millipps, gap_ns, gap_remainder, remainder: 0 }
    }

    #[inline]
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.remainder += self.gap_remainder;
        if self.remainder >= self.rate_millipps {
            self.remainder -= self.rate_millipps;
            self.gap_ns + 1
        } else {
            self.gap_ns
        }
    }

    pub(crate) fn gap_ns(&self) -> u64 {
        self.gap_ns
    }
}

/// Equal gaps within bursts, which come at equal intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnOff {
    pace: Pace,
    on_ns: u64,
    period_ns: u64,
    /// How far the present burst is.
    into_ns: u64,
}

impl OnOff {
    /// `rate_millipps`: in the mean.
    pub(crate) fn new(rate_millipps: u64, on_ns: u64, period_ns: u64) -> Self {
        let mut found = Self { pace: Pace::new(1), on_ns, period_ns, into_ns: 0 };
        found.set_rate(rate_millipps);
        found
    }

    pub(crate) fn gap_ns(&self) -> u64 {
        self.pace.gap_ns()
    }

    /// What the present burst has no time left for comes in the next ones.
    pub(crate) fn after_ns(&mut self, gap_ns: u64) -> u64 {
        let into_ns = self.into_ns + gap_ns;
        self.into_ns = into_ns % self.on_ns;
        gap_ns + into_ns / self.on_ns * (self.period_ns - self.on_ns)
    }

    fn next_ns(&mut self) -> u64 {
        let gap_ns = self.pace.next_ns();
        self.after_ns(gap_ns)
    }

    fn set_rate(&mut self, rate_millipps: u64) {
        let within =
            u128::from(rate_millipps) * u128::from(self.period_ns) / u128::from(self.on_ns);
        self.pace = Pace::new(u64::try_from(within).unwrap_or(u64::MAX));
    }
}

/// A rate that grows from 0 without end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ramp {
    rate_millipps: u64,
    /// When it has grown to `rate_millipps`.
    mid_ns: u64,
    /// The area under the rate, frames, and when it has grown to that.
    frames: f64,
    at_ns: u64,
}

impl Ramp {
    /// `frames`: the part of a frame that is due at the start.
    pub(crate) fn new(rate_millipps: u64, mid_ns: u64, frames: f64) -> Self {
        Self { rate_millipps, mid_ns, frames: frames - 1.0, at_ns: 0 }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative, and a root: 2^64 ns are 584 years"
    )]
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.frames += 1.0;
        let rate_per_ns = self.rate_millipps as f64 / MILLI as f64;
        let due_ns = (2.0 * self.frames * self.mid_ns as f64 / rate_per_ns).sqrt();
        let gap_ns = (due_ns as u64).saturating_sub(self.at_ns);
        self.at_ns += gap_ns;
        gap_ns
    }
}

/// How frames follow each other.
#[derive(Debug, Clone)]
pub(crate) enum Gaps {
    Cbr(Pace),
    OnOff(OnOff),
    Ramp(Ramp),
    Poisson { mean_ns: f64, prng: Prng },
    Bursts { mean_ns: f64, burst_frames: u32, left: u32, prng: Prng },
}

impl Gaps {
    /// From a frame to the next, ns.
    #[inline]
    fn next_ns(&mut self) -> u64 {
        match self {
            Self::Cbr(pace) => pace.next_ns(),
            Self::OnOff(bursts) => bursts.next_ns(),
            Self::Ramp(ramp) => ramp.next_ns(),
            Self::Poisson { mean_ns, prng } => exponential_ns(prng, *mean_ns),
            Self::Bursts { mean_ns, burst_frames, left, prng } => {
                if *left > 0 {
                    *left -= 1;
                    return 0;
                }
                *left = *burst_frames - 1;
                exponential_ns(prng, *mean_ns)
            }
        }
    }

    pub(crate) fn set_rate(&mut self, rate_millipps: u64) {
        let gap_ns = MILLI as f64 / rate_millipps as f64;
        match self {
            Self::Cbr(pace) => *pace = Pace::new(rate_millipps),
            Self::OnOff(bursts) => bursts.set_rate(rate_millipps),
            Self::Ramp(ramp) => ramp.rate_millipps = rate_millipps,
            Self::Poisson { mean_ns, .. } => *mean_ns = gap_ns,
            Self::Bursts { mean_ns, burst_frames, .. } => {
                *mean_ns = gap_ns * f64::from(*burst_frames);
            }
        }
    }
}

/// One open-loop entry of the traffic.
#[derive(Debug, Clone)]
pub(crate) struct Source<To> {
    /// When its next frame is due, ns.
    pub(crate) next_ns: u64,
    pub(crate) next_bytes: u16,
    pub(crate) flow: FlowId,
    pub(crate) router: RouterId,
    /// Where its frames go.
    pub(crate) to: To,
    pub(crate) stop_ns: u64,
    pub(crate) sizes: Sizes,
    pub(crate) gaps: Gaps,
}

impl<To> Source<To> {
    fn advance(&mut self) {
        let next_ns = self.next_ns.saturating_add(self.gaps.next_ns());
        self.next_ns = if next_ns < self.stop_ns { next_ns } else { NEVER };
        self.next_bytes = self.sizes.next();
    }
}

/// Sources that share a wire (their frames go to its rings) or a port (there is nowhere else to go).
/// Their frames come in the order in which they are due; of those due at once, in the order of the traffic.
#[derive(Debug, Clone)]
pub(crate) struct Feed<To> {
    sources: Vec<Source<To>>,
    first: usize,
}

impl<To> Default for Feed<To> {
    fn default() -> Self {
        Self { sources: Vec::new(), first: 0 }
    }
}

impl<To: Copy + PartialEq> Feed<To> {
    pub(super) fn add(&mut self, source: Source<To>) {
        self.sources.push(source);
    }

    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.sources.get(self.first).map_or(NEVER, |source| source.next_ns)
    }

    pub(super) fn next_bytes(&self) -> u16 {
        self.sources.get(self.first).map_or(0, |source| source.next_bytes)
    }

    /// From its next frame on, a flow comes at this rate.
    pub(super) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        for source in self.sources.iter_mut().filter(|source| source.flow == flow) {
            source.gaps.set_rate(rate_millipps);
        }
    }

    /// After a source's times have changed from outside.
    pub(super) fn sort(&mut self) {
        let (mut first, mut first_ns) = (0, NEVER);
        for (index, source) in self.sources.iter().enumerate() {
            if source.next_ns < first_ns {
                (first, first_ns) = (index, source.next_ns);
            }
        }
        self.first = first;
    }

    /// The next frame, and where it goes; there must be one.
    pub(super) fn pop(&mut self) -> (Frame, To) {
        let source = &mut self.sources[self.first];
        let frame = Frame {
            stamp_ns: source.next_ns,
            flow: source.flow,
            router: source.router,
            bytes: source.next_bytes,
            mark: Mark::default(),
        };
        let to = source.to;
        source.advance();
        self.sort();
        (frame, to)
    }

    /// When the next frame for there is due, before it waits for the wire.
    pub(super) fn next_for(&self, to: To) -> Option<(u64, u16)> {
        let due = |source: &&Source<To>| source.to == to && source.next_ns != NEVER;
        let next = self.sources.iter().filter(due).min_by_key(|source| source.next_ns)?;
        Some((next.next_ns, next.next_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_loses_no_fraction_of_a_nanosecond() {
        let mut pace = Pace::new(1_488_095_238);
        let total: u64 = (0..1_488_095_238 / 1_000).map(|_| pace.next_ns()).sum();
        // 1.488 million frames at 1,488,095.238 per second: one second, less the last fraction.
        assert!(total.abs_diff(1_000_000_000) < 1_000, "{total}");
    }
}
