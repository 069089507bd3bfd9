//! What packet sockets are asked and told by system calls.

#![expect(clippy::cast_possible_truncation, reason = "sizes of structures, kernel constants")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// A socket in the calling thread's network namespace. Nothing arrives before it is bound.
pub(crate) fn open() -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has it hear and send by an interface, and the interface take frames for whomever.
pub(crate) fn bind(socket: &OwnedFd, ifindex: i32) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: ifindex,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &all)?;
    let address = address(ifindex);
    // SAFETY: the pointer is to a live address of that length.
    let failed = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has a program decide which frames the socket takes; this needs no right beyond the program.
pub(crate) fn filter_by(socket: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    set_of(libc::SOL_SOCKET, socket, libc::SO_ATTACH_BPF, &program.as_raw_fd())
}

/// Whether the interface that it was bound to is still there.
pub(crate) fn is_bound(socket: &OwnedFd) -> bool {
    let mut address = address(0);
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: both pointers are to live values, and the length says how long the first is.
    let failed = unsafe {
        libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length)
    };
    failed == 0 && address.sll_ifindex > 0
}

/// Whether an interface of this name is there and in service.
pub(crate) fn is_up(socket: &OwnedFd, name: &CStr) -> bool {
    let mut request = request();
    for (to, &byte) in request.ifr_name.iter_mut().zip(name.to_bytes_with_nul()) {
        *to = libc::c_char::from_ne_bytes([byte]);
    }
    flags(socket, &mut request).is_some_and(|flags| flags & libc::IFF_UP as i16 != 0)
}

/// Whether the interface with this index is not about to drop what it is to send, nor does so already:
/// linkwatch notes that the carrier is gone before it takes the qdisc away. No lock is waited for. What
/// nobody knows is as if.
pub(crate) fn is_running(socket: &OwnedFd, ifindex: i32) -> bool {
    let mut request = request();
    request.ifr_ifru.ifru_ifindex = ifindex;
    // SAFETY: the pointer is to a live request.
    let failed =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request) } != 0;
    let running = libc::IFF_RUNNING as i16;
    failed || flags(socket, &mut request).is_none_or(|flags| flags & running != 0)
}

/// Flags of the interface that a request names.
fn flags(socket: &OwnedFd, request: &mut libc::ifreq) -> Option<i16> {
    // SAFETY: the pointer is to a live request.
    let failed =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut *request) } != 0;
    // SAFETY: both are plain numbers, and it is the flags if the kernel has written them.
    (!failed).then_some(unsafe { request.ifr_ifru.ifru_flags })
}

fn request() -> libc::ifreq {
    // SAFETY: all zeros are a value of this plain structure.
    unsafe { std::mem::zeroed() }
}

/// Takes note of an error, such as that the interface went down: until then the poller tells of it
/// again and again.
pub(crate) fn take_error(socket: &OwnedFd) {
    let mut error: libc::c_int = 0;
    let mut length = size_of_val(&error) as libc::socklen_t;
    // SAFETY: both pointers are to live values, and the length says how long the first is.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut length,
        )
    };
}

/// Lets so many bytes wait, more than the host's administrator usually allows; of any socket.
pub(crate) fn keep_more_waiting(socket: &OwnedFd, limit: libc::c_int) -> io::Result<()> {
    set_of(libc::SOL_SOCKET, socket, libc::SO_RCVBUFFORCE, &limit)
        .or_else(|_| set_of(libc::SOL_SOCKET, socket, libc::SO_RCVBUF, &limit))
}

pub(crate) fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_of(libc::SOL_PACKET, socket, option, value)
}

fn set_of<T>(
    level: libc::c_int,
    socket: &OwnedFd,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of that length.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn address(ifindex: i32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}
