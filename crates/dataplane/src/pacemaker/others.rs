//! Whether the threads of a core wait for programs that are none of theirs.

use super::thread_time::{Thread, Used};

/// Between two looks at all threads, at least; and for each of them, since a look takes about a microsecond
/// for each.
const LOOK_NS: u64 = 5_000_000;
const LOOK_EACH_NS: u64 = 1_000_000;
/// Others that were there are taken for being there for so long. Beside them the waits become short.
const THERE_NS: u64 = 2_000_000_000;
/// Threads that ran for more of the time than this (percent) had the core to themselves.
const OWN_PERCENT: u64 = 80;
/// A thread that waited for more of the time than this (percent), and not for the other threads, waited
/// for others; and for how much of the time while these are there.
const WAITED_PERCENT: u64 = 10;
const STILL_PERCENT: u64 = 3;

/// The other programs of a core.
pub(super) struct Others {
    /// The threads that may run on this core.
    threads: Vec<Thread>,
    looked_ns: u64,
    there_until_ns: Option<u64>,
}

impl Others {
    /// Beside these threads, as far as they may run on this core.
    pub(super) fn new(core: usize, threads: impl Iterator<Item = i32>) -> Self {
        let here = threads.filter(|&number| may_run_on(number, core));
        let threads = here.filter_map(|number| Thread::open(number).ok()).collect();
        Self { threads, looked_ns: 0, there_until_ns: None }
    }

    pub(super) fn are_there(&self) -> bool {
        self.there_until_ns.is_some()
    }

    /// Looks at the threads, if it is time to.
    pub(super) fn look(&mut self, now_ns: u64) {
        let pause_ns = LOOK_NS.max(LOOK_EACH_NS * self.threads.len() as u64);
        if now_ns - self.looked_ns < pause_ns {
            return;
        }
        self.looked_ns = now_ns;
        let mut used = Vec::with_capacity(self.threads.len());
        self.threads.retain_mut(|thread| thread.used().map(|one| used.push(one)).is_ok());
        self.judge(&used, now_ns);
    }

    fn judge(&mut self, used: &[Used], now_ns: u64) {
        let percent = if self.are_there() { STILL_PERCENT } else { WAITED_PERCENT };
        if waits_for_others(used, percent) {
            self.there_until_ns = Some(now_ns + THERE_NS);
        } else if self.there_until_ns.is_some_and(|until_ns| now_ns >= until_ns) {
            self.there_until_ns = None;
        }
    }
}

/// Whether one of the threads waited for more of the time than the others of them can have been the reason,
/// by so many percent.
fn waits_for_others(used: &[Used], percent: u64) -> bool {
    let ran: u64 = used.iter().map(|one| one.ran_percent()).sum();
    let waits = |one: &Used| {
        let waited = one.wanted_percent() - one.ran_percent();
        waited >= ran - one.ran_percent() + percent
    };
    ran < OWN_PERCENT && used.iter().any(waits)
}

fn may_run_on(thread: i32, core: usize) -> bool {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives through the call and its size is passed; a thread that has ended is an error.
    let failed = unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &raw mut set) } != 0;
    // SAFETY: the set is large enough for this core, as is checked.
    !failed && core < 8 * size_of_val(&set) && unsafe { libc::CPU_ISSET(core, &set) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_thread;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A thread that ran and waited for such parts of the time, percent.
    fn used(ran: u64, waited: u64) -> Used {
        Used { ran_ns: ran * 1_000, waited_ns: waited * 1_000, passed_ns: 100_000 }
    }

    fn others() -> Others {
        Others { threads: Vec::new(), looked_ns: 0, there_until_ns: None }
    }

    #[test]
    fn threads_that_wait_for_each_other_wait_for_no_others() {
        for (all, expected) in [
            (vec![used(30, 40), used(40, 30)], false),
            (vec![used(30, 50), used(40, 5)], true),
            (vec![used(20, 9)], false),
            (vec![used(20, 10)], true),
            (vec![used(60, 40), used(20, 60)], false),
            (vec![used(0, 0), used(0, 100)], true),
            (vec![], false),
        ] {
            assert_eq!(waits_for_others(&all, WAITED_PERCENT), expected, "{all:?}");
        }
    }

    #[test]
    fn others_are_there_until_nobody_has_waited_for_them_for_a_while() {
        let mut others = others();
        others.judge(&[used(20, 5)], SECOND_NS);
        assert!(!others.are_there());
        others.judge(&[used(20, 20)], 2 * SECOND_NS);
        assert!(others.are_there());
        others.judge(&[used(20, 5)], 3 * SECOND_NS);
        others.judge(&[used(20, 2)], 5 * SECOND_NS - 1);
        assert!(others.are_there(), "short waits tell that they are, until 5 s");
        others.judge(&[used(20, 2)], 5 * SECOND_NS);
        assert!(!others.are_there());
    }

    #[test]
    fn a_thread_counts_where_it_may_run() {
        let core = test_thread::first_core();
        // SAFETY: takes nothing.
        let me = unsafe { libc::gettid() };
        assert_eq!(Others::new(core, [me].into_iter()).threads.len(), 1);
        assert_eq!(Others::new(1_000, [me, -1].into_iter()).threads.len(), 0);
        assert!(!may_run_on(me, 1_000_000));
    }
}
