//! How much of a contended core the NIC's threads are to have, from what was lost behind them. No
//! clock, no kernel.

/// Nice values of a NIC's threads.
pub(super) const FIRST: i32 = -20;
pub(super) const LAST: i32 = 19;
/// The first step back: a NIC's thread that always has work gets nine tenths of a core then.
const BEGIN: i32 = -10;
/// Steps of nice values, each a fifth of the weight. Back faster than forth: a frame that is lost
/// behind the NIC has cost the core something, one that the NIC refuses has not.
const BACK: i32 = 2;
const FORTH: i32 = 1;
/// Parts of the core, percent. With less than this the NIC's threads do not begin to yield: whenever
/// routers run for longer than the NIC's ring takes to fill, it refuses the frames of all of them.
const SATURATED: u64 = 80;
/// Once they yield, they do not yield any more below this, ...
const HALF: u64 = 50;
/// ... and less and less below this: what is lost then is lost for another reason.
const LITTLE: u64 = 40;
/// A router that loses less than one frame in so many behind the NIC is taken to keep up.
const ONE_IN: u64 = 16;

/// What a router that is expected to have work did since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Frames for it that the NIC's threads took from the NIC.
    pub frames: u64,
    /// Of these, frames that were dropped: its queue was full, or it had had its share.
    pub dropped: u64,
}

impl Taken {
    fn keeps_up(self) -> bool {
        self.dropped * ONE_IN <= self.frames
    }
}

/// Chooses the nice value of a NIC's threads while several routers compete for their core.
///
/// As long as one of them keeps up, the threads go first, or more and more so, so that the NIC
/// refuses none of its frames. When they take most of the core, and frames of every router are
/// dropped behind the NIC, looking at them takes the time that the router needs that has had least:
/// then the threads yield, step by step, and the NIC refuses for nothing what would be dropped
/// anyway.
#[derive(Debug)]
pub struct Yielding {
    nice: i32,
}

impl Yielding {
    /// The threads go first.
    #[must_use]
    pub fn new() -> Self {
        Self { nice: FIRST }
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        self.nice = FIRST;
    }

    /// Whether the threads yield.
    #[must_use]
    pub fn yields(&self) -> bool {
        self.nice > FIRST
    }

    /// The nice value after a sample, which holds the part of the core that the threads had (percent)
    /// and each router that is expected to have work.
    pub fn nice(&mut self, ran_percent: u64, taken: impl IntoIterator<Item = Taken>) -> i32 {
        let wants_less = ran_percent < LITTLE || taken.into_iter().any(Taken::keeps_up);
        self.nice = match self.nice {
            // Where it began; a step more would be next to nothing.
            ..=BEGIN if wants_less => FIRST,
            nice if wants_less => nice - FORTH,
            FIRST if ran_percent < SATURATED => FIRST,
            FIRST => BEGIN,
            nice if ran_percent < HALF => nice,
            nice => (nice + BACK).min(LAST),
        };
        self.nice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEPS_UP: Taken = Taken { frames: 160, dropped: 10 };
    const STARVES: Taken = Taken { frames: 160, dropped: 11 };
    const SILENT: Taken = Taken { frames: 0, dropped: 0 };

    #[test]
    fn the_nic_goes_first_while_one_router_keeps_up() {
        for other in [KEEPS_UP, SILENT] {
            let mut yielding = Yielding::new();
            assert_eq!(yielding.nice(90, [STARVES, other]), FIRST);
            assert!(!yielding.yields());
        }
    }

    #[test]
    fn the_nic_yields_step_by_step_while_all_starve() {
        let mut yielding = Yielding::new();
        let values: Vec<i32> = (0..3).map(|_| yielding.nice(90, [STARVES, STARVES])).collect();
        assert_eq!(values, [-10, -8, -6]);
        for _ in 0..100 {
            yielding.nice(90, [STARVES]);
        }
        assert_eq!(yielding.nice(90, [STARVES]), LAST);
    }

    #[test]
    fn it_comes_back_slower_and_is_first_in_the_end() {
        let mut yielding = Yielding::new();
        yielding.nice(90, [STARVES, STARVES]);
        yielding.nice(90, [STARVES, STARVES]);
        let values: Vec<i32> = (0..4).map(|_| yielding.nice(90, [STARVES, KEEPS_UP])).collect();
        assert_eq!(values, [-9, -10, FIRST, FIRST]);
        assert!(!yielding.yields());
    }

    #[test]
    fn the_nic_yields_no_more_than_helps() {
        let mut yielding = Yielding::new();
        assert_eq!(yielding.nice(79, [STARVES, STARVES]), FIRST);
        assert_eq!(yielding.nice(80, [STARVES, STARVES]), BEGIN);
        assert_eq!(yielding.nice(50, [STARVES, STARVES]), BEGIN + BACK);
        assert_eq!(yielding.nice(49, [STARVES, STARVES]), BEGIN + BACK);
        assert_eq!(yielding.nice(40, [STARVES, STARVES]), BEGIN + BACK);
        assert_eq!(yielding.nice(39, [STARVES, STARVES]), BEGIN + BACK - FORTH);
    }

    #[test]
    fn a_new_beginning_is_first() {
        let mut yielding = Yielding::new();
        yielding.nice(90, [STARVES]);
        yielding.reset();
        assert!(!yielding.yields());
    }
}
