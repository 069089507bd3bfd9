//! A guest's memory: a file without a name that the back-end maps, too.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU16, AtomicU32},
};

/// Where the guest has it.
pub const GUEST: u64 = 0x4000_0000;

/// Mapped until this value is dropped. All positions are offsets from its start, in bytes.
pub struct Memory {
    file: OwnedFd,
    start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    pub fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a string that ends with 0.
        let fd = unsafe { libc::memfd_create(c"isolane-guest".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that nobody else has.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: an open descriptor and a number.
        if unsafe { libc::ftruncate(fd, length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh shared mapping, where the kernel likes it.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, bytes })
    }

    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Where this process has it: what the protocol calls a user address.
    pub fn user_address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// 16 bits that the back-end accesses, too.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU16 {
        assert!(at.is_multiple_of(2) && at + 2 <= self.bytes);
        // SAFETY: inside the mapping and aligned, as was just checked; others access it atomically.
        unsafe { AtomicU16::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// 32 bits that the back-end accesses, too.
    #[inline]
    pub fn double_word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.bytes);
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Writes bytes that the back-end does not look at yet.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes);
        // SAFETY: inside the mapping, as was just checked, and no other memory of this process.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len());
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by new(), with this length; nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
