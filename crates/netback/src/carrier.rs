//! Which interfaces have a carrier, as the kernel tells (rtnetlink).
//!
//! An interface that is up and has no carrier has the qdisc `noop`, which drops frames and does not say so.
//! When the carrier comes, linkwatch puts the real qdisc in and then sends `RTM_NEWLINK`, with the lock held
//! under which `RTM_GETLINK` is answered (`linkwatch_do_dev()`, `net/core/link_watch.c`). So whoever goes by
//! these messages does not send too early; by `SIOCGIFFLAGS`, which waits for no lock, one might.

#![expect(clippy::cast_possible_truncation, reason = "sizes of structures, kernel constants")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use crate::packet_socket::keep_more_waiting;

const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
const LINK_BYTES: usize = size_of::<libc::ifinfomsg>();
const REQUEST_BYTES: usize = HEADER_BYTES + LINK_BYTES;
const ALIGNED_TO: usize = 4;
/// Of messages that wait, bytes. One has some 2 KiB; where containers come and go, there are many.
const WAITING_BYTES: libc::c_int = 1 << 20;
/// Only the beginning of a message is looked at; the kernel cuts off what is longer.
const LOOKED_AT_BYTES: usize = 4096;
const ERROR: u16 = 2; // NLMSG_ERROR

/// Tells of carriers, of all interfaces in its network namespace.
#[derive(Debug)]
pub(crate) struct Carriers {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Carriers {
    /// Hears of interfaces in the calling thread's network namespace from now on; no capability is needed.
    pub(crate) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        keep_more_waiting(&socket, WAITING_BYTES)?;
        let mut address = nobody();
        address.nl_groups = libc::RTMGRP_LINK.unsigned_abs();
        // SAFETY: the pointer is to a live address of that length.
        let failed =
            unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), address_bytes()) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, buffer: vec![0; LOOKED_AT_BYTES] })
    }

    /// Asks about an interface: the answer comes among the other messages, and what is told after it is
    /// newer.
    pub(crate) fn ask(&self, ifindex: u32) -> io::Result<()> {
        let request = request(ifindex);
        let kernel = nobody();
        // SAFETY: both pointers are to live values of these lengths.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
                (&raw const kernel).cast(),
                address_bytes(),
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Gives on what the kernel has told: an interface, and whether it has a carrier. False: some of it was
    /// lost, so that all are to be asked.
    pub(crate) fn hear(&mut self, mut told: impl FnMut(u32, bool)) -> bool {
        let mut heard_all = true;
        loop {
            match self.receive() {
                Ok(bytes) => read(&self.buffer[..bytes], &mut told),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => heard_all = false,
                Err(_) => return heard_all, // there is no more
            }
        }
    }

    /// The next datagram. One that is not the kernel's has no bytes.
    fn receive(&mut self) -> io::Result<usize> {
        let mut from = nobody();
        let mut length = address_bytes();
        // SAFETY: all pointers are to live values, and the lengths say how long they are.
        let received = unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                self.buffer.as_mut_ptr().cast(),
                self.buffer.len(),
                0,
                (&raw mut from).cast(),
                &raw mut length,
            )
        };
        let bytes = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(if from.nl_pid == 0 { bytes } else { 0 })
    }

    /// For polling.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kernel's address.
fn nobody() -> libc::sockaddr_nl {
    // SAFETY: all zeros are a value of this plain structure.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address
}

fn address_bytes() -> libc::socklen_t {
    size_of::<libc::sockaddr_nl>() as libc::socklen_t
}

/// A question about an interface. Its sequence number is the interface's, which an error tells, too.
fn request(ifindex: u32) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request[8..12].copy_from_slice(&ifindex.to_ne_bytes());
    request[HEADER_BYTES + 4..][..4].copy_from_slice(&ifindex.to_ne_bytes());
    request
}

/// Gives on what the messages of a datagram tell. The last one may be cut off.
fn read(mut datagram: &[u8], told: &mut impl FnMut(u32, bool)) {
    while datagram.len() >= HEADER_BYTES {
        let bytes = word(datagram, 0) as usize;
        if bytes < HEADER_BYTES {
            return;
        }
        if let Some((ifindex, has_carrier)) = read_one(&datagram[..bytes.min(datagram.len())]) {
            told(ifindex, has_carrier);
        }
        datagram = datagram.get(bytes.next_multiple_of(ALIGNED_TO)..).unwrap_or_default();
    }
}

/// What a message tells of an interface's carrier, if it does.
fn read_one(message: &[u8]) -> Option<(u32, bool)> {
    let kind = u16::from_ne_bytes([message[4], message[5]]);
    if kind == ERROR {
        // An interface of which nobody tells is sent to.
        let is_error = message.len() >= HEADER_BYTES + 4 && word(message, HEADER_BYTES) != 0;
        return is_error.then(|| (word(message, 8), true));
    }
    // Others are a bridge's, of its ports.
    let is_of_interface =
        message.len() >= REQUEST_BYTES && i32::from(message[HEADER_BYTES]) == libc::AF_UNSPEC;
    let has_carrier = match kind {
        _ if !is_of_interface => return None,
        libc::RTM_NEWLINK => carries(word(message, HEADER_BYTES + 8)),
        libc::RTM_DELLINK => false,
        _ => return None,
    };
    Some((word(message, HEADER_BYTES + 4), has_carrier))
}

/// Whether an interface with these flags sends what it is given: it is up, has a carrier, and linkwatch has
/// been there. One that does not know whether it has a carrier (a dummy, a tap) has these flags, too.
fn carries(flags: u32) -> bool {
    const ALL: u32 = (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_LOWER_UP).unsigned_abs();
    flags & ALL == ALL
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
