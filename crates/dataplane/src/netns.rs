//! Work inside another network namespace, on a thread of its own.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::Path,
    thread,
};

use crate::{Error, Result};

/// Moves the calling thread into the namespace; None leaves it where it is.
pub fn enter(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let wrap = |source| Error::Netns { path: path.to_owned(), source };
    let file = File::open(path).map_err(wrap)?;
    // SAFETY: setns takes no pointers; the descriptor is open.
    if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        return Err(wrap(io::Error::last_os_error()));
    }
    Ok(())
}

/// The number by which the kernel knows a namespace.
pub fn number(path: &Path) -> Result<u32> {
    let wrap = |source| Error::Netns { path: path.to_owned(), source };
    let inode = fs::metadata(path).map_err(wrap)?.ino();
    u32::try_from(inode).map_err(|_| wrap(io::Error::other("not a namespace's file")))
}

/// Runs `work` in the namespace, on a thread that ends with it, so that the caller's never moves;
/// without a path at once, where the caller is.
pub fn within<T: Send>(path: Option<&Path>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if path.is_none() {
        return work();
    }
    thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(path)?;
                work()
            })
            .join()
            .unwrap_or(Err(Error::State("a worker thread panicked")))
    })
}

/// The name of an interface of the calling thread's namespace, for people; its number if it has
/// vanished.
#[must_use]
pub fn interface_name(ifindex: u32) -> String {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call asks for.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr().cast()) };
    if found.is_null() {
        return format!("number {ifindex}, which is gone");
    }
    String::from_utf8_lossy(name.split(|&letter| letter == 0).next().unwrap_or(&[])).into_owned()
}

/// Pins the calling thread to one core.
pub fn pin(core: usize) -> Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if core >= 8 * std::mem::size_of::<libc::cpu_set_t>() {
        return Err(Error::Core { core, source: io::Error::from_raw_os_error(libc::EINVAL) });
    }
    // SAFETY: core lies inside the set, as checked above.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set lives through the call and its size is passed.
    if unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set) } != 0 {
        return Err(Error::Core { core, source: io::Error::last_os_error() });
    }
    Ok(())
}

/// Puts the calling thread before ordinary ones on its core, as far as the kernel lets it: those of
/// other sessions and cgroups have their part of it all the same.
pub fn prefer() {
    // SAFETY: takes no pointers; 0 is the calling thread. Without the right it changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Puts the calling thread before all ordinary ones of its core, in real time. For threads that mostly
/// sleep, or end within [`RESERVE_AFTER_NS`].
pub fn go_first() -> io::Result<()> {
    schedule(libc::SCHED_FIFO, 1)
}

/// Takes [`go_first`] back.
pub fn go_with_the_others() -> io::Result<()> {
    schedule(libc::SCHED_OTHER, 0)
}

/// The kernel keeps 50 ms of each second for ordinary threads (`sched_rt_runtime_us`, fair servers):
/// a thread that spins in real time for less than this is not stopped for them.
pub const RESERVE_AFTER_NS: u64 = 800_000_000;

fn schedule(policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live through the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_called_by_its_name() {
        assert_eq!(interface_name(1), "lo");
        assert_eq!(interface_name(u32::MAX), "number 4294967295, which is gone");
    }
}
