//! XDP on an interface of the calling thread's namespace: putting a program there, and what the
//! interface can do.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    ptr,
};

use crate::{Error, Result, netns};

/// Puts the program on an interface until the link is closed.
pub(crate) fn attach_link(program: RawFd, ifindex: u32) -> Result<OwnedFd> {
    let index = i32::try_from(ifindex).unwrap_or(-1);
    // SAFETY: no options; the descriptor is an open program's.
    let link =
        unsafe { libbpf_sys::bpf_link_create(program, index, libbpf_sys::BPF_XDP, ptr::null()) };
    if link >= 0 {
        // SAFETY: the call has just given us this descriptor.
        return Ok(unsafe { OwnedFd::from_raw_fd(link) });
    }
    let error = io::Error::from_raw_os_error(-link);
    let reason = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            "another XDP program is there; remove it first (ip link set dev ... xdp off)".into()
        }
        Some(libc::ENODEV | libc::EINVAL) if index <= 0 => "there is no such interface".into(),
        _ => error.to_string(),
    };
    Err(Error::Attach { interface: netns::interface_name(ifindex), reason })
}

/// Index of the interface that an XDP link is on, 0 for one that is gone; None where the kernel does
/// not say.
pub(crate) fn linked_to(link: RawFd) -> Option<u32> {
    // SAFETY: zero is a valid value of every field.
    let mut info: libbpf_sys::bpf_link_info = unsafe { std::mem::zeroed() };
    let mut size = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: the structure lives through the call, and its size goes with it.
    let failed = unsafe { libbpf_sys::bpf_link_get_info_by_fd(link, &raw mut info, &raw mut size) };
    // SAFETY: all of the union was zero, and the kernel writes the part of an XDP link.
    (failed == 0).then_some(unsafe { info.__bindgen_anon_1.xdp.ifindex })
}

/// Whether the interface's driver runs the program itself.
pub(crate) fn is_native(ifindex: u32) -> bool {
    query(ifindex).is_some_and(|found| u32::from(found.attach_mode) == libbpf_sys::XDP_ATTACHED_DRV)
}

/// Whether the interface sends what XDP redirects to it; a frame that it refuses would count as
/// sent. Kernels before 6.3 do not tell; they are assumed to do it.
pub(crate) fn takes_redirects(ifindex: u32) -> bool {
    /// `NETDEV_XDP_ACT_NDO_XMIT`
    const NDO_XMIT: u64 = 4;
    match query(ifindex) {
        Some(found) if found.feature_flags != 0 || kernel_tells_features() => {
            found.feature_flags & NDO_XMIT != 0
        }
        _ => true,
    }
}

fn query(ifindex: u32) -> Option<libbpf_sys::bpf_xdp_query_opts> {
    // SAFETY: zero is a valid value of every field.
    let mut found: libbpf_sys::bpf_xdp_query_opts = unsafe { std::mem::zeroed() };
    found.sz = size_of_val(&found) as libbpf_sys::size_t;
    let index = i32::try_from(ifindex).unwrap_or(-1);
    // SAFETY: the structure lives through the call and tells its size.
    let failed = unsafe { libbpf_sys::bpf_xdp_query(index, 0, &raw mut found) };
    (failed == 0).then_some(found)
}

/// Since Linux 6.3 an interface without a feature says so; before, silence means nothing.
fn kernel_tells_features() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 3)
}
