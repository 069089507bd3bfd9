//! Waiting for descriptors, to the nanosecond.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

/// Events taken at once.
const EVENTS: usize = 64;

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    ReadAndWrite,
    /// That something is wrong with it, which all others tell, too.
    Errors,
}

impl Interest {
    fn events(self) -> u32 {
        match self {
            Self::Read => libc::EPOLLIN as u32,
            Self::ReadAndWrite => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
            Self::Errors => 0,
        }
    }
}

/// A set of descriptors, each with a number of the caller's.
///
/// A descriptor is removed before it is closed: others may hold what it stands for open, and then it
/// would stay in the set for ever.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS] })
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, number: u64, what: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, what)
    }

    pub(crate) fn change(&self, fd: BorrowedFd<'_>, number: u64, what: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, what)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Read)
    }

    fn control(
        &self,
        action: libc::c_int,
        fd: BorrowedFd<'_>,
        number: u64,
        what: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: what.events(), u64: number };
        // SAFETY: the pointer is to a live event, which the kernel copies.
        let failed = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), action, fd.as_raw_fd(), &raw mut event)
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits, and gives the numbers of descriptors that are ready; None: as long as it takes.
    pub(crate) fn wait(
        &mut self,
        limit: Option<Duration>,
        mut ready: impl FnMut(u64),
    ) -> io::Result<()> {
        let time = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: room for so many events, and a time that outlives the call, or none.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS,
                time,
                ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        match usize::try_from(found) {
            Ok(found) => {
                self.events[..found].iter().for_each(|event| ready(event.u64));
                Ok(())
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use super::*;

    fn ready(poller: &mut Poller) -> Vec<u64> {
        let mut found = Vec::new();
        poller.wait(Some(Duration::ZERO), |number| found.push(number)).unwrap();
        found
    }

    #[test]
    fn it_tells_which_descriptors_are_ready() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(there.as_fd(), 7, Interest::Read).unwrap();
        assert_eq!(ready(&mut poller), []);
        poller.change(there.as_fd(), 8, Interest::ReadAndWrite).unwrap();
        assert_eq!(ready(&mut poller), [8], "it can be written");
        poller.change(there.as_fd(), 9, Interest::Read).unwrap();
        here.write_all(b"x").unwrap();
        assert_eq!(ready(&mut poller), [9]);
        poller.remove(there.as_fd()).unwrap();
        assert_eq!(ready(&mut poller), []);
    }
}
