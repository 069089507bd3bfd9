//! What several modules' tests need.

use std::{
    ffi::CStr,
    fs::File,
    os::fd::{FromRawFd, OwnedFd},
};

/// A file in memory of this size, as a virtual machine's memory is.
pub(crate) fn memory_file(bytes: u64) -> OwnedFd {
    named_memory_file(c"isolane-netback", bytes)
}

/// As [`memory_file`], with the name that `/proc/self/maps` shows.
pub(crate) fn named_memory_file(name: &CStr, bytes: u64) -> OwnedFd {
    // SAFETY: a string that ends with 0.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd_create failed");
    // SAFETY: a descriptor that nobody else has.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes).unwrap();
    file.into()
}

/// An eventfd with this flag or none, starting at 0.
pub(crate) fn eventfd(flags: i32) -> OwnedFd {
    // SAFETY: no arguments that could be wrong.
    let fd = unsafe { libc::eventfd(0, flags) };
    assert!(fd >= 0, "eventfd failed");
    // SAFETY: a descriptor that nobody else has.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A pipe: its end to read from, and its end to write to.
pub(crate) fn pipe() -> (File, OwnedFd) {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: two descriptors that nobody else has.
    unsafe { (File::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) }
}
