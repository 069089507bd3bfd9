//! CPU time of a thread, as its schedstat file in /proc tells.

use std::{fs::File, io, os::unix::fs::FileExt};

use crate::monotonic_ns;

/// A thread of the kernel or of a process. The open file stays with it: a later thread of the same
/// number is not taken for it.
pub(super) struct Thread {
    number: i32,
    file: File,
    before_ns: (u64, u64),
    looked_ns: u64,
}

/// What a thread did between two looks.
#[expect(clippy::struct_field_names, reason = "the unit is the last word of a name")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// Time on a core, ns.
    pub(super) ran_ns: u64,
    /// Time that it was ready to run and others ran, ns; counted when the wait is over.
    pub(super) waited_ns: u64,
    /// Time between the two looks, ns.
    pub(super) passed_ns: u64,
}

impl Used {
    /// Part of the time that it was on a core, percent.
    pub(super) fn ran_percent(self) -> u64 {
        self.ran_ns * 100 / self.passed_ns
    }

    /// Part of the time that it was on a core or waited for one, percent.
    pub(super) fn wanted_percent(self) -> u64 {
        (self.ran_ns + self.waited_ns) * 100 / self.passed_ns
    }
}

impl Thread {
    pub(super) fn open(number: i32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{number}/schedstat"))?;
        let before_ns = times(&file)?;
        Ok(Self { number, file, before_ns, looked_ns: monotonic_ns() })
    }

    pub(super) fn number(&self) -> i32 {
        self.number
    }

    /// What it used since the last call; an error when it has ended.
    pub(super) fn used(&mut self) -> io::Result<Used> {
        let now_ns = times(&self.file)?;
        let looked_ns = monotonic_ns();
        let used = Used {
            passed_ns: (looked_ns - self.looked_ns).max(1),
            ran_ns: now_ns.0.saturating_sub(self.before_ns.0),
            waited_ns: now_ns.1.saturating_sub(self.before_ns.1),
        };
        (self.before_ns, self.looked_ns) = (now_ns, looked_ns);
        Ok(used)
    }
}

/// Run time and waiting time, ns (`proc_pid_schedstat()` in fs/proc/base.c).
fn times(file: &File) -> io::Result<(u64, u64)> {
    let mut text = [0; 80];
    let length = file.read_at(&mut text, 0)?;
    let mut numbers = std::str::from_utf8(&text[..length])
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(ran_ns)), Some(Ok(waited_ns))) => Ok((ran_ns, waited_ns)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "schedstat does not hold numbers")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::test_thread;

    #[test]
    fn a_spinning_thread_runs_or_waits_all_the_time() {
        let began_ns = test_thread::raw_ns();
        // The file tells what the kernel has added up, and this has it add up all from before.
        test_thread::ran_ns();
        // SAFETY: gettid takes nothing.
        let mut me = Thread::open(unsafe { libc::gettid() }).expect("this thread is there");
        test_thread::spin(20_000_000);
        let used = me.used().expect("this thread is there");
        assert!(used.ran_ns >= 20_000_000, "{used:?}");
        let max_ns = test_thread::max_passed_ns(began_ns);
        assert!(used.ran_ns + used.waited_ns <= max_ns, "{used:?} of {max_ns} ns");
    }

    #[test]
    fn a_thread_that_has_ended_is_an_error() {
        let (send, number) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            // SAFETY: gettid takes nothing.
            send.send(unsafe { libc::gettid() }).expect("the test listens");
            let _ = wait.recv();
        });
        let mut thread = Thread::open(number.recv().expect("it tells")).expect("it runs");
        thread.used().expect("it runs");
        drop(end);
        other.join().expect("it ends");
        // It is joined when its memory is given back (mm_release() in kernel/fork.c), a moment
        // before it loses its number.
        let limit = Instant::now() + Duration::from_secs(60);
        while thread.used().is_ok() {
            assert!(Instant::now() < limit, "it has ended");
            std::thread::yield_now();
        }
    }
}
