//! What a core needs of the pacemaker, from what its threads did lately. No clock, no kernel.

/// A router that has had work is expected to have some again for so long.
pub(super) const ACTIVE_NS: u64 = 1_000_000_000;
/// A core that was overloaded is taken for overloaded for so long.
pub(super) const OVERLOADED_NS: u64 = 50_000_000;

/// Between two choices of the scheduler while routers compete. With 50 us the beats take a fifth of
/// a core of a virtual machine.
pub(super) const BEAT_NS: u64 = 150_000;
/// The same while a virtual machine waits for others: it may wait longer, and each beat takes time from
/// whoever computes meanwhile.
const MACHINE_BEAT_NS: u64 = 500_000;
/// Between two looks at what the threads do.
const SAMPLE_NS: u64 = 1_000_000;
/// The same while the NIC's threads of a contended core yield to the routers.
const YIELDING_SAMPLE_NS: u64 = 2_000_000;
/// The same where nothing can change at once: routers compete, or have had no work for [`QUIET_NS`].
const SLOW_SAMPLE_NS: u64 = 10_000_000;
pub(super) const QUIET_NS: u64 = 100_000_000;
/// How the pacemaker treats a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nobody waits for the core: the NIC's threads go first, since that makes delays short.
    Free,
    /// Only one router has work, and more than the core can do. The NIC's threads go last: then the
    /// NIC's ring refuses what is too much, which costs the core nothing, while dropping it would.
    Alone,
    /// Several routers have work, and the core cannot do it all. The NIC's threads go first, so that
    /// the NIC's ring never refuses the frames of a router within its share, unless that takes the
    /// time that its frames need (see `Yielding`); and the CPU scheduler chooses anew at every beat,
    /// so that no router waits for the kernel's tick.
    Contended,
}

/// One sample of a core.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// When it was taken.
    pub now_ns: u64,
    /// Of each router: whether it had work since the last sample.
    pub active: &'a [bool],
    /// Whether a queue was full, or a thread was running or waiting for the core all the time.
    pub overloaded: bool,
    /// Whether others than the policy's threads took a good part of the core.
    pub shared: bool,
}

/// Chooses the mode of a core.
#[derive(Debug)]
pub struct Chooser {
    active_ns: Vec<Option<u64>>,
    overloaded_ns: Option<u64>,
}

impl Chooser {
    /// For a core with so many routers, none of which has had work yet.
    #[must_use]
    pub fn new(routers: usize) -> Self {
        Self { active_ns: vec![None; routers], overloaded_ns: None }
    }

    /// The mode after a sample.
    pub fn mode(&mut self, sample: Sample<'_>) -> Mode {
        for (last_ns, active) in self.active_ns.iter_mut().zip(sample.active) {
            if *active {
                *last_ns = Some(sample.now_ns);
            }
        }
        if sample.overloaded {
            self.overloaded_ns = Some(sample.now_ns);
        }
        let now_ns = sample.now_ns;
        let active = (0..self.active_ns.len()).filter(|&one| self.expects(one, now_ns)).count();
        match (within(self.overloaded_ns, now_ns, OVERLOADED_NS), active) {
            (true, 2..) => Mode::Contended,
            // Ordinary processes would starve a NIC's thread that goes last.
            (true, 1) if !sample.shared => Mode::Alone,
            _ => Mode::Free,
        }
    }

    /// Whether a router is expected to have work: it had some not long ago.
    #[must_use]
    pub fn expects(&self, router: usize, now_ns: u64) -> bool {
        within(self.active_ns[router], now_ns, ACTIVE_NS)
    }

    /// Whether no router has had work for so long that the core may be looked at less often.
    #[must_use]
    pub fn is_quiet(&self, now_ns: u64, for_ns: u64) -> bool {
        self.active_ns.iter().flatten().all(|&last_ns| now_ns.saturating_sub(last_ns) > for_ns)
    }
}

/// What says how often the pacemaker wakes up.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Pace {
    pub(super) mode: Mode,
    /// Whether a NIC's thread polls on this core.
    pub(super) polls_nic: bool,
    pub(super) is_quiet: bool,
    /// Whether the NICs' threads yield.
    pub(super) yields: bool,
    pub(super) beside_others: bool,
    /// Whether a virtual machine waits for others.
    pub(super) machines_wait: bool,
}

impl Pace {
    /// Between two beats.
    pub(super) fn interval_ns(self) -> u64 {
        match self.mode {
            Mode::Free if self.is_quiet && self.machines_wait => MACHINE_BEAT_NS,
            Mode::Free if self.is_quiet => SLOW_SAMPLE_NS,
            // A NIC's thread wakes up at least as often by itself.
            Mode::Contended if !self.polls_nic => BEAT_NS,
            // But when a thread wakes, the kernel only asks whether it is first. Where a third one is,
            // a program that has the core keeps it up to the tick, though its turn may be over.
            _ if self.beside_others => BEAT_NS,
            _ if self.machines_wait => MACHINE_BEAT_NS,
            _ => self.sample_ns(),
        }
    }

    /// Between two looks at what the threads do.
    pub(super) fn sample_ns(self) -> u64 {
        match self.mode {
            Mode::Contended if self.yields => YIELDING_SAMPLE_NS,
            Mode::Contended => SLOW_SAMPLE_NS,
            Mode::Free if self.is_quiet => SLOW_SAMPLE_NS,
            Mode::Free | Mode::Alone => SAMPLE_NS,
        }
    }
}

fn within(last_ns: Option<u64>, now_ns: u64, limit_ns: u64) -> bool {
    last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) < limit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sample(now_ns: u64, active: &[bool], overloaded: bool) -> Sample<'_> {
        Sample { now_ns, active, overloaded, shared: false }
    }

    fn pace(mode: Mode) -> Pace {
        Pace {
            mode,
            polls_nic: true,
            is_quiet: false,
            yields: false,
            beside_others: false,
            machines_wait: false,
        }
    }

    #[test]
    fn turns_are_short_where_nobody_else_wakes_and_beside_other_programs() {
        for (mode, polls_nic, beside_others, interval_ns) in [
            (Mode::Contended, false, false, BEAT_NS),
            (Mode::Contended, true, false, SLOW_SAMPLE_NS),
            (Mode::Contended, true, true, BEAT_NS),
            (Mode::Free, true, true, BEAT_NS),
            (Mode::Free, false, true, BEAT_NS),
            (Mode::Free, true, false, SAMPLE_NS),
            (Mode::Alone, true, false, SAMPLE_NS),
        ] {
            let pace = Pace { polls_nic, beside_others, ..pace(mode) };
            assert_eq!(pace.interval_ns(), interval_ns, "{pace:?}");
        }
        let quiet = Pace { is_quiet: true, beside_others: true, ..pace(Mode::Free) };
        assert_eq!(quiet.interval_ns(), SLOW_SAMPLE_NS, "nobody needs it");
        for mode in [Mode::Free, Mode::Alone, Mode::Contended] {
            for is_quiet in [true, false] {
                let waits = Pace { machines_wait: true, is_quiet, ..pace(mode) };
                assert_eq!(waits.interval_ns(), MACHINE_BEAT_NS, "{waits:?}");
                let others = Pace { beside_others: true, is_quiet: false, ..waits };
                assert_eq!(others.interval_ns(), BEAT_NS, "{others:?}");
            }
        }
        let yields = Pace { yields: true, ..pace(Mode::Contended) };
        assert_eq!(yields.interval_ns(), YIELDING_SAMPLE_NS);
    }

    #[test]
    fn the_nic_does_not_wait_for_other_processes() {
        let mut chooser = Chooser::new(1);
        let sample = Sample { shared: true, ..sample(0, &[true], true) };
        assert_eq!(chooser.mode(sample), Mode::Free);
    }

    #[test]
    fn a_core_with_time_left_is_left_alone() {
        let mut chooser = Chooser::new(2);
        for step in 0..100 {
            assert_eq!(chooser.mode(sample(step * MS, &[true, true], false)), Mode::Free);
        }
    }

    #[test]
    fn one_overloaded_router_makes_the_nic_wait_until_another_has_work() {
        let mut chooser = Chooser::new(2);
        assert_eq!(chooser.mode(sample(0, &[true, false], true)), Mode::Alone);
        assert_eq!(chooser.mode(sample(MS, &[true, false], true)), Mode::Alone);
        assert_eq!(chooser.mode(sample(2 * MS, &[true, true], true)), Mode::Contended);
    }

    #[test]
    fn a_router_that_pauses_is_still_expected() {
        let mut chooser = Chooser::new(2);
        chooser.mode(sample(0, &[true, true], true));
        let later_ns = ACTIVE_NS - MS;
        assert_eq!(chooser.mode(sample(later_ns, &[true, false], true)), Mode::Contended);
        let gone_ns = ACTIVE_NS + MS;
        assert_eq!(chooser.mode(sample(gone_ns, &[true, false], true)), Mode::Alone);
    }

    #[test]
    fn overload_ends_after_a_while_without() {
        let mut chooser = Chooser::new(1);
        assert_eq!(chooser.mode(sample(0, &[true], true)), Mode::Alone);
        assert_eq!(chooser.mode(sample(OVERLOADED_NS - 1, &[true], false)), Mode::Alone);
        assert_eq!(chooser.mode(sample(OVERLOADED_NS, &[true], false)), Mode::Free);
    }

    #[test]
    fn a_core_without_work_is_quiet() {
        let mut chooser = Chooser::new(2);
        assert!(chooser.is_quiet(5 * MS, MS));
        chooser.mode(sample(5 * MS, &[false, true], false));
        assert!(!chooser.is_quiet(6 * MS, MS));
        assert!(chooser.is_quiet(7 * MS, MS));
    }
}
