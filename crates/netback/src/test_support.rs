//! What several modules' tests need.

use std::{
    ffi::CStr,
    fs::File,
    net::UdpSocket,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
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

/// Index of the loopback interface of each network namespace.
pub(crate) const LO: u32 = 1;

/// Does something in a thread with a network namespace of its own, whose loopback interface is up: what is
/// sent there arrives there.
pub(crate) fn in_network_namespace(act: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
        // SAFETY: all zeros are a value of this plain structure.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip([b'l', b'o']) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).unwrap();
        // Any socket will do.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // SAFETY: the pointer is to a live request.
        let failed =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) };
        assert_eq!(failed, 0);
        act();
    });
    assert!(thread.join().is_ok());
}
