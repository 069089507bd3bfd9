//! Who is let into a queue: by the queue's limit, by rate, by the CPU time of whoever serves it. What a
//! demultiplexer looks at before it spends anything on a frame (`bpf/demux.bpf.c`).

use isolane_sched::TokenBucket;

use crate::engine::{
    frame::Frame,
    ids::{ContextId, Id, RouterId, Table},
};

const SECOND_NS: i128 = 1_000_000_000;

/// What each router's frames must keep; nothing where all are welcome.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    by_router: Table<RouterId, Option<Box<Admission>>>,
}

/// For one router's frames.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Frames that may wait.
    pub(crate) capacity: usize,
    /// Frames that may wait while the pressure is low.
    pub(crate) burst: usize,
    pub(crate) pressure: Pressure,
    /// A token is a frame, as a byte of the bucket.
    pub(crate) frames: Option<TokenBucket>,
    pub(crate) bytes: Option<TokenBucket>,
    /// What each frame takes on the wire besides its size.
    pub(crate) overhead_bytes: u32,
    pub(crate) budget: Option<Budget>,
}

/// Grows with each frame that a queue refuses, falls with each that it takes: high for one that refuses
/// more than one for eight that it takes, as `within_limit()` in `bpf/demux.bpf.c` has it.
#[derive(Debug, Default)]
pub(crate) struct Pressure(u32);

impl Pressure {
    const REFUSED: u32 = 8;
    const HIGH: u32 = 1024;
    const MAX: u32 = 2048;

    fn is_high(&self) -> bool {
        self.0 >= Self::HIGH
    }

    fn note(&mut self, taken: bool) {
        if taken {
            self.0 = self.0.saturating_sub(1);
        } else if self.0 < Self::MAX {
            self.0 += Self::REFUSED;
        }
    }
}

/// CPU time that a context may use.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) context: ContextId,
    /// ns per second.
    pub(crate) rate_ns: u64,
    /// How much can be saved up, ns.
    pub(crate) depth_ns: u64,
    /// ns / 10^9.
    pub(crate) left: i128,
    pub(crate) at_ns: u64,
    pub(crate) seen_ns: u64,
}

impl Budget {
    /// Whether there is time left.
    fn has_left(&mut self, spent_ns: u64, now_ns: u64) -> bool {
        self.left += i128::from(now_ns - self.at_ns) * i128::from(self.rate_ns);
        self.left -= i128::from(spent_ns - self.seen_ns) * SECOND_NS;
        self.left = self.left.min(i128::from(self.depth_ns) * SECOND_NS);
        (self.at_ns, self.seen_ns) = (now_ns, spent_ns);
        self.left > 0
    }
}

impl Admission {
    /// Whether a frame is let in; its tokens are taken then.
    fn admits(
        &mut self,
        waiting: usize,
        frame: &Frame,
        cpu_ns: impl FnOnce(ContextId) -> u64,
        now_ns: u64,
    ) -> bool {
        self.is_within_limit(waiting)
            && self.frames.as_mut().is_none_or(|bucket| bucket.take(1, now_ns))
            && self.bytes.as_mut().is_none_or(|bucket| {
                bucket.take(u32::from(frame.bytes) + self.overhead_bytes, now_ns)
            })
            && self
                .budget
                .as_mut()
                .is_none_or(|budget| budget.has_left(cpu_ns(budget.context), now_ns))
    }

    fn is_within_limit(&mut self, waiting: usize) -> bool {
        let within = waiting < self.capacity || (!self.pressure.is_high() && waiting < self.burst);
        self.pressure.note(within);
        within
    }
}

impl Admissions {
    pub(crate) fn add(&mut self, router: RouterId, admission: Admission) {
        while self.by_router.len() <= router.index() {
            self.by_router.push(None);
        }
        self.by_router[router] = Some(Box::new(admission));
    }

    /// Whether this router's frames must keep anything.
    pub(crate) fn has(&self, router: RouterId) -> bool {
        self.by_router.get(router).is_some_and(Option::is_some)
    }

    /// Whether a frame is let in; its tokens are taken then. `waiting`: how many wait where it would;
    /// `cpu_ns`: the CPU time that a context has had so far.
    #[inline]
    pub(super) fn admit(
        &mut self,
        frame: &Frame,
        waiting: impl FnOnce() -> usize,
        cpu_ns: impl FnOnce(ContextId) -> u64,
        now_ns: u64,
    ) -> bool {
        match self.by_router.get_mut(frame.router) {
            Some(Some(admission)) => admission.admits(waiting(), frame, cpu_ns, now_ns),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pressure;

    fn after(pattern: impl IntoIterator<Item = bool>) -> Pressure {
        let mut pressure = Pressure::default();
        pattern.into_iter().for_each(|taken| pressure.note(taken));
        pressure
    }

    #[test]
    fn one_refused_for_eight_taken_is_the_limit() {
        let refusing_one_of = |n: usize| after((0..100_000).map(|i| i % n != 0));
        assert!(refusing_one_of(8).is_high());
        assert!(!refusing_one_of(10).is_high());
    }

    #[test]
    fn a_thousand_refused_at_once_are_forgiven_after_as_many_that_were_taken() {
        let pause = || std::iter::repeat_n(false, 1_000);
        assert!(after(pause()).is_high());
        assert!(!after(pause().chain(std::iter::repeat_n(true, 1_100))).is_high());
    }
}
