//! For tests: the calling thread's own time, which is the same however busy the machine is, and its cores.

/// What the thread has run for, ns. Asking has the kernel add up all until now
/// (`task_sched_runtime()` in kernel/sched/core.c), which it else does at ticks and switches.
pub(crate) fn ran_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Spins until the thread has run for `more_ns`, however long that takes.
pub(crate) fn spin(more_ns: u64) {
    let end_ns = ran_ns() + more_ns;
    while ran_ns() < end_ns {}
}

/// The clock that nobody steers, ns: as fast as the scheduler's, while NTP may have
/// `CLOCK_MONOTONIC` run some percent slower.
pub(crate) fn raw_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// At most so much has passed on the scheduler's clock since `began_raw_ns`, ns: the two may be
/// different counters (TSC and HPET), whose rates the kernel knows to a hundredth at worst.
pub(crate) fn max_passed_ns(began_raw_ns: u64) -> u64 {
    let passed_ns = raw_ns() - began_raw_ns;
    passed_ns + passed_ns / 100
}

/// The first core that the thread may run on: in a container that need not be core 0.
pub(crate) fn first_core() -> usize {
    cores()[0]
}

/// The cores that the thread may run on, one at least.
pub(crate) fn cores() -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives through the call and its size is passed.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(failed, 0, "a set of 1,024 cores holds all");
    // SAFETY: the cores lie inside the set.
    let allowed = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    (0..8 * size_of_val(&set)).filter(allowed).collect()
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0, "Linux has the clock");
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("positive")
}
