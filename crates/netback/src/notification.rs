//! Kicks and calls: how guest and back-end wake each other, without ever blocking.
//!
//! Both descriptors come from the front-end, which shares their flags with us: it could clear
//! `O_NONBLOCK` at any moment. `RWF_NOWAIT` does not depend on that flag, so it comes first;
//! [`Call::signal`] on an eventfd has to rely on the flag, because the kernel does not know
//! `RWF_NOWAIT` for writing there: **not contained:** a front-end that fills the eventfd to its
//! limit and clears the flag blocks the caller.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::error::{CutOff, system};

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalled {
    /// The guest will see it; or there are so many unseen ones that one more makes no difference.
    Delivered,
    /// The other end is gone, or the descriptor cannot be written.
    Lost,
}

/// How the back-end tells the guest that it has used buffers: an eventfd, a pipe or a socket.
#[derive(Debug)]
pub struct Call(Notifier);

impl Call {
    /// Takes over a descriptor of the front-end's.
    pub fn new(fd: OwnedFd) -> Result<Self, CutOff> {
        Notifier::new(fd).map(Self)
    }

    /// Signals the guest. The process must ignore `SIGPIPE`: the reader of a pipe may be gone.
    #[must_use = "a signal that is lost may leave the guest waiting"]
    pub fn signal(&self) -> Signalled {
        let mut number = 1u64.to_ne_bytes();
        let part = libc::iovec { iov_base: number.as_mut_ptr().cast(), iov_len: number.len() };
        let written = self.0.transfer(
            // SAFETY: one buffer of eight bytes that outlives the call.
            |fd| unsafe { libc::pwritev2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) },
            // SAFETY: as above.
            |fd| unsafe { libc::write(fd, part.iov_base, part.iov_len) },
        );
        match written {
            Ok(_) => Signalled::Delivered,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Signalled::Delivered,
            Err(_) => Signalled::Lost,
        }
    }
}

/// How the guest tells the back-end that buffers are available.
#[derive(Debug)]
pub struct Kick(Notifier);

impl Kick {
    /// Takes over a descriptor of the front-end's.
    pub fn new(fd: OwnedFd) -> Result<Self, CutOff> {
        Notifier::new(fd).map(Self)
    }

    /// Takes away what made the descriptor readable; true: something did. Several kicks may be one.
    /// False although it polls as readable: the other end is gone, and polling it again would spin.
    #[must_use]
    pub fn take(&self) -> bool {
        // A pipe may hold many; an eventfd gives eight bytes, whatever the buffer.
        let mut space = [0u8; 512];
        let part = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
        let read = self.0.transfer(
            // SAFETY: one buffer of this length that outlives the call.
            |fd| unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) },
            // SAFETY: as above.
            |fd| unsafe { libc::read(fd, part.iov_base, part.iov_len) },
        );
        read.is_ok_and(|bytes| bytes > 0)
    }
}

impl AsFd for Kick {
    /// For polling.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

#[derive(Debug)]
struct Notifier {
    fd: OwnedFd,
    /// The kernel knows `RWF_NOWAIT` for this descriptor and direction, as far as we have seen.
    nowait: AtomicBool,
}

impl Notifier {
    fn new(fd: OwnedFd) -> Result<Self, CutOff> {
        // SAFETY: all zeros are a value of this plain structure.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor, and room for one structure.
        if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut status) } != 0 {
            return Err(system("fstat of a descriptor to notify through"));
        }
        // A file of a file system in user space could block us whatever its flags. Eventfds have
        // no type.
        let kind = status.st_mode & libc::S_IFMT;
        if ![0, libc::S_IFIFO, libc::S_IFSOCK].contains(&kind) {
            return Err(CutOff::DescriptorKind { kind });
        }
        // SAFETY: an open descriptor and an integer.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        let flags = flags | libc::O_NONBLOCK;
        // SAFETY: as above; if the first call failed, all bits are set and this one fails too.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) } != 0 {
            return Err(system("making a descriptor non-blocking"));
        }
        Ok(Self { fd, nowait: AtomicBool::new(true) })
    }

    /// Reads or writes: with `RWF_NOWAIT` where that is possible, else plainly.
    fn transfer(
        &self,
        with_nowait: impl Fn(i32) -> isize,
        plainly: impl Fn(i32) -> isize,
    ) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        loop {
            let nowait = self.nowait.load(Ordering::Relaxed);
            let bytes = if nowait { with_nowait(fd) } else { plainly(fd) };
            if let Ok(bytes) = usize::try_from(bytes) {
                return Ok(bytes);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ESPIPE) if nowait => {
                    self.nowait.store(false, Ordering::Relaxed);
                }
                Some(libc::EINTR) => {}
                _ => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use super::*;
    use crate::test_support::{eventfd, memory_file, pipe};

    #[test]
    fn an_eventfd_adds_up_and_never_blocks() {
        let fd = eventfd(0);
        let call = Call::new(fd.try_clone().unwrap()).unwrap();
        let kick = Kick::new(fd.try_clone().unwrap()).unwrap();
        assert!(!kick.take());
        assert_eq!(call.signal(), Signalled::Delivered);
        assert_eq!(call.signal(), Signalled::Delivered);
        assert!(kick.take());
        assert!(!kick.take());
        let almost_full = u64::MAX - 1;
        // SAFETY: eight bytes.
        let written = unsafe { libc::write(fd.as_raw_fd(), (&raw const almost_full).cast(), 8) };
        assert_eq!(written, 8);
        assert_eq!(call.signal(), Signalled::Delivered, "would block: the guest has enough to see");
    }

    #[test]
    fn a_full_pipe_does_not_block_even_if_its_flag_is_cleared() {
        let (mut reader, writer) = pipe();
        let call = Call::new(writer.try_clone().unwrap()).unwrap();
        assert_eq!(call.signal(), Signalled::Delivered);
        let mut number = [0; 8];
        reader.read_exact(&mut number).unwrap();
        assert_eq!(u64::from_ne_bytes(number), 1);
        // Pipes know RWF_NOWAIT since Linux 6.5; before, this would block.
        if call.0.nowait.load(Ordering::Relaxed) {
            // SAFETY: an open descriptor and an integer.
            assert_eq!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, 0) }, 0);
        }
        for _ in 0..100_000 {
            assert_eq!(call.signal(), Signalled::Delivered);
        }
    }

    #[test]
    fn a_closed_reader_is_survived() {
        // Rust's runtime ignores SIGPIPE, as the process around this crate has to.
        let (reader, writer) = pipe();
        let call = Call::new(writer).unwrap();
        drop(reader);
        assert_eq!(call.signal(), Signalled::Lost);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let call = Call::new(ours.into()).unwrap();
        drop(theirs);
        assert_eq!(call.signal(), Signalled::Lost);
    }

    #[test]
    fn a_kick_whose_other_end_is_gone_is_none() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let kick = Kick::new(ours.into()).unwrap();
        let call = Call::new(theirs.into()).unwrap();
        assert!(!kick.take());
        assert_eq!(call.signal(), Signalled::Delivered);
        assert!(kick.take());
        drop(call);
        assert!(!kick.take());
    }

    #[test]
    fn files_are_refused() {
        let refused = Call::new(memory_file(8)).unwrap_err();
        assert!(matches!(refused, CutOff::DescriptorKind { kind: libc::S_IFREG }));
    }
}
