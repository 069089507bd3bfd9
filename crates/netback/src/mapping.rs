//! Memory that is mapped as long as somebody has it.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

/// Memory of this process, or shared with the kernel.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and its other user is the kernel.
unsafe impl Send for Mapping {}

impl Mapping {
    /// So many bytes of what a descriptor stands for, from this offset on, or (None) of fresh memory.
    pub(crate) fn new(bytes: usize, of: Option<(&OwnedFd, libc::off_t)>) -> io::Result<Self> {
        let (fd, offset, kind) = match of {
            Some((fd, offset)) => (fd.as_raw_fd(), offset, libc::MAP_SHARED),
            None => (-1, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
        };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, kind | libc::MAP_POPULATE);
        // SAFETY: a new mapping, wherever the kernel likes.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, and nobody borrows from it.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
