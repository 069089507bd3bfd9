//! What a fair scheduler has to know of a task.

pub(super) const NICE_0: u64 = 1_024;

/// `sched_prio_to_weight`.
const WEIGHTS: [u64; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620,
    6_100, 4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272,
    215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Weight of a nice value, -20 to 19.
fn weight_of_nice(nice: i8) -> u64 {
    WEIGHTS[usize::try_from(i32::from(nice) + 20).unwrap_or(0).min(WEIGHTS.len() - 1)]
}

/// What a scheduler has to know of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) weight: u64,
    /// Its own slice, ns; none: the scheduler's. CFS has no such thing.
    pub(crate) slice_ns: Option<u64>,
    /// `SCHED_BATCH`: never takes the core because it wakes.
    pub(crate) batch: bool,
}

impl Task {
    /// One of this nice value, -20 to 19.
    pub(crate) fn of_nice(nice: i8) -> Self {
        Self { weight: weight_of_nice(nice), slice_ns: None, batch: false }
    }
}
