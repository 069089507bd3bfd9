//! The time, which all else takes as an argument.

/// `CLOCK_MONOTONIC`, ns.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let whole = |part| u64::try_from(part).expect("that clock begins at 0");
    whole(now.tv_sec) * 1_000_000_000 + whole(now.tv_nsec)
}
