//! One question to rtnetlink: which XDP program is on an interface.
//!
//! libbpf asks for all interfaces and picks one; with hundreds of them that is the slowest part of
//! looking at each.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

const NLMSG_HEADER: usize = 16;
const IFINFO: usize = 16;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const REQUEST: u16 = 1;
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const NESTED: u16 = 0x8000;

/// Number of the XDP program on an interface of the calling thread's namespace; 0: none.
pub(crate) fn xdp_program_id(ifindex: i32) -> io::Result<u32> {
    let answer = ask(&request(ifindex))?;
    let kind = u16_at(&answer, 4);
    if kind == Some(NLMSG_ERROR) {
        let code = answer.get(NLMSG_HEADER..NLMSG_HEADER + 4).map_or(0, i32_of);
        return Err(io::Error::from_raw_os_error(-code));
    }
    if kind != Some(RTM_NEWLINK) {
        return Err(io::Error::other("an answer of another kind"));
    }
    let length = answer.get(..4).map_or(0, i32_of).unsigned_abs() as usize;
    let body = answer.get(NLMSG_HEADER + IFINFO..length.min(answer.len())).unwrap_or_default();
    let xdp = attribute(body, IFLA_XDP).unwrap_or_default();
    let attached = attribute(xdp, IFLA_XDP_ATTACHED).is_some_and(|mode| mode.first() != Some(&0));
    let id = attribute(xdp, IFLA_XDP_PROG_ID).map_or(0, |id| i32_of(id).unsigned_abs());
    Ok(if attached { id } else { 0 })
}

fn request(ifindex: i32) -> Vec<u8> {
    let mut message = Vec::with_capacity(40);
    message.extend(40u32.to_ne_bytes());
    message.extend(RTM_GETLINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence, port
    message.extend([0; 4]); // family, type
    message.extend(ifindex.to_ne_bytes());
    message.extend([0; 8]); // flags, change
    message.extend(8u16.to_ne_bytes());
    message.extend(IFLA_EXT_MASK.to_ne_bytes());
    message.extend(RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    message
}

fn ask(request: &[u8]) -> io::Result<Vec<u8>> {
    // SAFETY: takes no pointers.
    let raw = unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given us this descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut answer = vec![0u8; 1 << 15];
    // SAFETY: the buffers live through the calls and their sizes are passed.
    let (sent, got) = unsafe {
        let sent = libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0);
        (sent, libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0))
    };
    if sent < 0 || got < 0 {
        return Err(io::Error::last_os_error());
    }
    answer.truncate(got.unsigned_abs());
    Ok(answer)
}

/// Content of the first attribute of a kind.
fn attribute(mut data: &[u8], wanted: u16) -> Option<&[u8]> {
    while let (Some(length), Some(kind)) = (u16_at(data, 0), u16_at(data, 2)) {
        let length = usize::from(length);
        if kind & !NESTED == wanted {
            return data.get(4..length);
        }
        data = data.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes)
}

fn i32_of(bytes: &[u8]) -> i32 {
    bytes.get(..4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_a_program_has_none_and_a_missing_one_is_an_error() {
        assert_eq!(xdp_program_id(1).expect("lo is always there"), 0);
        let error = xdp_program_id(0x7fff_fff0).expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn attributes_are_found_and_padding_is_skipped() {
        let data = [5, 0, 7, 0, 9, 0, 0, 0, 6, 0, 8, 0x80, 1, 2];
        assert_eq!(attribute(&data, 7), Some(&[9u8][..]));
        assert_eq!(attribute(&data, 8), Some(&[1u8, 2][..]));
        assert_eq!(attribute(&data, 9), None);
    }
}
