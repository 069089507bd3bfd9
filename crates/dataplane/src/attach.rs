//! Programs on interfaces that outlive this process, and whose they are.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapHandle, Program, TC_INGRESS, TcHook, TcHookBuilder, Xdp, XdpFlags};

use crate::{Error, Result, error::one_line, netns, rtnl};

/// Preference of our tc filter: others' may be before or after it.
const TC_PRIORITY: u32 = 346;
const TC_HANDLE: u32 = 1;

/// A program that is attached to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The kernel's number of the program.
    pub id: u32,
    /// Its name, at most 15 characters.
    pub name: String,
    /// Maps that it uses.
    pub maps: Vec<u32>,
}

impl AttachedProgram {
    /// The map of a name that it uses.
    #[must_use]
    pub fn map(&self, name: &str) -> Option<u32> {
        self.maps.iter().copied().find(|&id| {
            MapHandle::from_map_id(id).is_ok_and(|map| map.name().to_str() == Some(name))
        })
    }
}

fn refuse(ifindex: u32, reason: impl Into<String>) -> Error {
    Error::Attach { interface: netns::interface_name(ifindex), reason: reason.into() }
}

fn index(ifindex: u32) -> Result<i32> {
    i32::try_from(ifindex).map_err(|_| refuse(ifindex, "no such interface index"))
}

/// The program of a number, if it is (still) there.
#[must_use]
pub fn program(id: u32) -> Option<AttachedProgram> {
    describe(Program::fd_from_id(id).ok()?.as_fd())
}

/// What the kernel says of a program.
pub(crate) fn describe(program: BorrowedFd<'_>) -> Option<AttachedProgram> {
    let mut maps = vec![0u32; 64];
    // SAFETY: zero is a valid value of every field.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    info.nr_map_ids = u32::try_from(maps.len()).ok()?;
    info.map_ids = maps.as_mut_ptr() as u64;
    let mut size = u32::try_from(size_of_val(&info)).ok()?;
    // SAFETY: both buffers live through the call and their sizes are passed.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    if failed != 0 {
        return None;
    }
    maps.truncate(info.nr_map_ids as usize);
    let name = info.name.iter().take_while(|&&letter| letter != 0);
    #[expect(clippy::cast_sign_loss, reason = "letters of a C string")]
    let name = name.map(|&letter| char::from(letter as u8)).collect();
    Some(AttachedProgram { id: info.id, name, maps })
}

/// The XDP program on an interface of the calling thread's namespace.
pub fn attached_xdp(ifindex: u32) -> Result<Option<AttachedProgram>> {
    let id = rtnl::xdp_program_id(index(ifindex)?)
        .map_err(|error| refuse(ifindex, error.to_string()))?;
    Ok(if id == 0 { None } else { program(id) })
}

/// Has an interface's driver run an XDP program. Replaces a program that has one of the names
/// `ours`, never another.
///
/// Not on the generic hook: there a frame loses its number on the way to a router's queue, and
/// segments that travel as one are dropped.
pub fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32, ours: &[&str]) -> Result<()> {
    if let Some(found) = attached_xdp(ifindex)?
        && !ours.contains(&found.name.as_str())
    {
        return Err(refuse(
            ifindex,
            format!("the XDP program '{}' (id {}) is there", found.name, found.id),
        ));
    }
    // libbpf would print what the kernel answers.
    let printer = libbpf_rs::set_print(None);
    let done = Xdp::new(program).attach(index(ifindex)?, XdpFlags::DRV_MODE);
    libbpf_rs::set_print(printer);
    done.map_err(|error| {
        refuse(
            ifindex,
            format!(
                "its driver refuses XDP: {}; a NIC may do it with ethtool -K lro off rx-gro-hw off \
                 or a smaller MTU, a veth needs as many receive queues as its other end has \
                 transmit queues (ethtool -l)",
                one_line(&error)
            ),
        )
    })
}

/// Detaches the XDP program that has one of the names `ours`; gives false when none is there.
pub fn detach_xdp(fd: BorrowedFd<'_>, ifindex: u32, ours: &[&str]) -> Result<bool> {
    match attached_xdp(ifindex)? {
        Some(found) if ours.contains(&found.name.as_str()) => {}
        _ => return Ok(false),
    }
    let xdp = Xdp::new(fd);
    let at = index(ifindex)?;
    xdp.detach(at, XdpFlags::DRV_MODE)
        .or_else(|_| xdp.detach(at, XdpFlags::SKB_MODE))
        .map(|()| true)
        .map_err(|error| refuse(ifindex, one_line(&error)))
}

/// Attaches a tc program where frames come in from an interface that has a clsact qdisc.
pub fn attach_tc(program: BorrowedFd<'_>, ifindex: u32) -> Result<()> {
    let mut hook = hook(program, ifindex)?;
    hook.replace(true);
    hook.attach().map(|_| ()).map_err(|error| refuse(ifindex, one_line(&error)))
}

/// Detaches our tc program; false when it was not there.
pub fn detach_tc(fd: BorrowedFd<'_>, ifindex: u32) -> Result<bool> {
    if attached_tc(fd, ifindex)?.is_none() {
        return Ok(false);
    }
    hook(fd, ifindex)?.detach().map(|()| true).map_err(|error| refuse(ifindex, one_line(&error)))
}

/// Our tc program on an interface.
pub fn attached_tc(fd: BorrowedFd<'_>, ifindex: u32) -> Result<Option<AttachedProgram>> {
    // libbpf would print what it asks for in vain.
    let printer = libbpf_rs::set_print(None);
    let found = hook(fd, ifindex)?.query().ok();
    libbpf_rs::set_print(printer);
    Ok(found.and_then(program))
}

fn hook(fd: BorrowedFd<'_>, ifindex: u32) -> Result<TcHook> {
    Ok(TcHookBuilder::new(fd)
        .ifindex(index(ifindex)?)
        .handle(TC_HANDLE)
        .priority(TC_PRIORITY)
        .hook(TC_INGRESS))
}
