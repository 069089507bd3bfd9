//! Programs on the uplink of a network back-end: a frame that its router has no buffer for is refused before it
//! costs more than a look.

use std::{
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use libbpf_rs::{MapCore, MapFlags};

use crate::{
    Error, Result,
    error::one_line,
    load::{Family, Loaded},
    netns,
    skeletons::admit::{AdmitSkel, AdmitSkelBuilder, types},
    xdp,
};

const FAMILY: Family = Family {
    program: "admit",
    feature: "socket filters, XDP of frames in parts (Linux 5.18 or later)",
};

/// Entries before those of ports: the whole ring's, and that of frames for several ports.
const FIRST: usize = 2;

/// Receive queues whose frames can be handed over without a packet.
pub const MAX_SOCKETS: u32 = 64;

/// Who a frame is for: a VLAN, or 0, and an address.
pub type LanAddress = (u16, [u8; 6]);

/// Loaded programs, and the counters that they share with a back-end. Each is there as long as somebody uses
/// it.
pub struct Admission {
    loaded: Loaded<AdmitSkel<'static>>,
}

impl Admission {
    /// Loads the programs of an uplink with these ports. Nothing is let in until its back-end has opened
    /// windows.
    pub fn load(ports: &[LanAddress]) -> Result<Self> {
        let sizes = [ports.len().max(1), FIRST + ports.len()]
            .map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let loaded = Loaded::load(FAMILY, AdmitSkelBuilder::default(), |open| {
            let refuse = |error| FAMILY.refused(&error);
            open.maps.isl_addresses.set_max_entries(sizes[0]).map_err(refuse)?;
            open.maps.isl_entries.set_max_entries(sizes[1]).map_err(refuse)
        })?;
        for (entry, &(vlan, mac)) in (FIRST..).zip(ports) {
            let key = types::isl_lan_address { vlan, mac };
            // SAFETY: plain data without padding.
            let key: [u8; 8] = unsafe { mem::transmute(key) };
            let number = u32::try_from(entry).unwrap_or(u32::MAX).to_ne_bytes();
            loaded
                .maps
                .isl_addresses
                .update(&key, &number, MapFlags::ANY)
                .map_err(|error| FAMILY.refused_because(one_line(&error)))?;
        }
        Ok(Self { loaded })
    }

    /// For a packet socket: it lets in what there is space for.
    #[must_use]
    pub fn filter(&self) -> BorrowedFd<'_> {
        self.loaded.progs.isl_admit.as_fd()
    }

    /// The map of counters, one entry for all, one for frames for several ports, and one for each port.
    #[must_use]
    pub fn entries(&self) -> BorrowedFd<'_> {
        self.loaded.maps.isl_entries.as_fd()
    }

    /// Has frames of a receive queue that are let in handed to this `AF_XDP` socket, as long as it is open;
    /// of others the kernel makes packets.
    pub fn hand_to(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        let fd = socket.as_raw_fd().to_ne_bytes();
        let sockets = &self.loaded.maps.isl_sockets;
        sockets
            .update(&queue.to_ne_bytes(), &fd, MapFlags::ANY)
            .map_err(|error| FAMILY.refused_because(one_line(&error)))
    }

    /// Has the driver of an interface refuse what there is no space for, until the link is closed.
    ///
    /// Not on the generic hook: there the kernel has made a packet of the frame by then.
    pub fn attach(&self, ifindex: u32) -> Result<OwnedFd> {
        let link = xdp::attach_link(self.loaded.progs.isl_refuse.as_fd().as_raw_fd(), ifindex)?;
        if !xdp::is_native(ifindex) {
            let interface = netns::interface_name(ifindex);
            return Err(Error::Attach { interface, reason: "its driver runs no XDP".into() });
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests;
