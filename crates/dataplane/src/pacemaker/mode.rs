//! What a core needs of the pacemaker, from what its threads did lately. No clock, no kernel.

/// A router that has had work is expected to have some again for so long.
pub(super) const ACTIVE_NS: u64 = 1_000_000_000;
/// A core that was overloaded is taken for overloaded for so long.
pub(super) const OVERLOADED_NS: u64 = 50_000_000;

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
