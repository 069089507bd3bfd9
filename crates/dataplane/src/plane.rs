//! The packet path of a policy: the programs of `bpf/demux.bpf.c` and `bpf/forward.bpf.c` on
//! interfaces, and their tables. Nothing of it needs this process: what is attached stays, and the
//! tables live as long as the program on a NIC does. [`Plane::open`] finds them again.

mod queues;
mod tables;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
    ptr,
};

use libbpf_rs::{MapCore, MapHandle, OpenMapMut, OpenObject, skel::OpenSkel};

pub use self::{
    queues::{
        Budget, PortCounts, PortSettings, QueueCounts, QueueSettings, RateLimits, TokenBucket,
    },
    tables::{Table, TableIds},
};
use crate::{
    Error, Result,
    attach::{self, AttachedProgram},
    load::{Family, Loaded},
    mapped::MappedArray,
    netns,
    skeletons::{
        demux::{DemuxSkel, DemuxSkelBuilder, types as host},
        forward::{ForwardSkel, ForwardSkelBuilder, types as router},
    },
};

const DEMUX: Family = Family {
    program: "demux",
    feature: "XDP with frames in several parts (Linux 5.18), BPF in clsact",
};
const FORWARD: Family = Family { program: "forward", ..DEMUX };
const MAPPED: Family = Family { program: "demux", feature: "memory-mapped BPF arrays (Linux 5.5)" };
const BOUND: Family = Family { program: "demux", feature: "maps bound to programs (Linux 5.10)" };

/// Both programs see the same queue and budget, or this does not compile.
const _: () = {
    assert!(size_of::<host::isl_queue>() == size_of::<router::isl_queue>());
    assert!(size_of::<host::isl_budget>() == size_of::<router::isl_budget>());
};

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The demultiplexer, on a NIC.
    Nic,
    /// The demultiplexer of a NIC whose driver does not run XDP.
    NicTc,
    /// The counting (and forwarding) program, on a router's receiving interface.
    Router,
    /// Straight to the uplink, on the host's side of a router's interface.
    EgressXdp,
    /// The classifier, on the host's side of a router's interface.
    EgressTc,
}

impl Hook {
    /// Name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Name of the program, and what earlier versions of Isolane called it.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Nic => &["isl_demux"],
            Self::NicTc => &["isl_demux_tc"],
            Self::Router => &["isl_router_rx", "isl_serve"],
            Self::EgressXdp => &["isl_egress_xdp", "isl_leave"],
            Self::EgressTc => &["isl_egress_tc", "isl_egress"],
        }
    }

    /// Whether it is one of tc's.
    fn tc(self) -> bool {
        matches!(self, Self::NicTc | Self::EgressTc)
    }

    /// Whose the program there is.
    #[must_use]
    pub fn owner(self, found: &AttachedProgram) -> Owner {
        match self.names().iter().position(|name| *name == found.name) {
            None => Owner::Other,
            // Its name has stayed, its tables have not.
            Some(0)
                if matches!(self, Self::Nic | Self::NicTc) && found.map("isl_fdb").is_none() =>
            {
                Owner::FormerVersion
            }
            Some(0) => Owner::Isolane,
            Some(_) => Owner::FormerVersion,
        }
    }
}

/// Whose an attached program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This version of Isolane put it there.
    Isolane,
    /// An earlier version of Isolane, whose tables this one does not read: to be replaced or removed.
    FormerVersion,
    /// Somebody else.
    Other,
}

/// Programs and tables.
pub struct Plane {
    demux: Loaded<DemuxSkel<'static>>,
    forward: Loaded<ForwardSkel<'static>>,
    queues: MappedArray<host::isl_queue>,
    ports: MappedArray<host::isl_port>,
    budgets: MappedArray<host::isl_budget>,
}

impl Plane {
    /// Loads the programs with empty tables.
    pub fn create() -> Result<Self> {
        Self::load(&[])
    }

    /// Loads the programs with the tables of the demultiplexer that is attached to an interface;
    /// None when there is none, or one of a former version.
    pub fn open(path: Option<&Path>, ifindex: u32) -> Result<Option<Self>> {
        for hook in [Hook::Nic, Hook::NicTc] {
            match Self::attached(hook, path, ifindex)? {
                Some(found) if hook.owner(&found) == Owner::Isolane => {
                    return Self::load(&found.maps).map(Some);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn load(maps: &[u32]) -> Result<Self> {
        let mut known: Vec<(String, MapHandle)> = maps
            .iter()
            .filter_map(|&id| MapHandle::from_map_id(id).ok())
            .map(|map| (map.name().to_string_lossy().into_owned(), map))
            .collect();
        let demux = Loaded::load(DEMUX, DemuxSkelBuilder::default(), |open| {
            reuse(DEMUX, open.open_object_mut(), &known)
        })?;
        for map in [&demux.maps.isl_queues, &demux.maps.isl_budgets] {
            let name = map.name().to_string_lossy().into_owned();
            known.retain(|(other, _)| *other != name);
            known.push((name, MapHandle::try_from(map).map_err(|error| DEMUX.refused(&error))?));
        }
        let forward = Loaded::load(FORWARD, ForwardSkelBuilder::default(), |open| {
            reuse(FORWARD, open.open_object_mut(), &known)
        })?;
        let plane = Self {
            queues: mapped(&demux.maps.isl_queues)?,
            ports: mapped(&demux.maps.isl_ports)?,
            budgets: mapped(&demux.maps.isl_budgets)?,
            demux,
            forward,
        };
        plane.bind()?;
        Ok(plane)
    }

    /// Ties the life of all tables to the demultiplexers'.
    fn bind(&self) -> Result<()> {
        let programs = [&self.demux.progs.isl_demux, &self.demux.progs.isl_demux_tc]
            .map(|program| program.as_fd().as_raw_fd());
        let maps = [
            self.demux.maps.isl_ingress_dev.as_fd().as_raw_fd(),
            self.demux.maps.isl_ingress_tc.as_fd().as_raw_fd(),
            self.demux.maps.isl_port_of.as_fd().as_raw_fd(),
            self.demux.maps.isl_ports.as_fd().as_raw_fd(),
            self.demux.maps.isl_uplinks.as_fd().as_raw_fd(),
            self.forward.maps.isl_redirects.as_fd().as_raw_fd(),
            self.forward.maps.isl_egress_dev.as_fd().as_raw_fd(),
        ];
        for (program, map) in programs.into_iter().flat_map(|one| maps.map(|map| (one, map))) {
            // SAFETY: two open descriptors; no options.
            let failed = unsafe { libbpf_sys::bpf_prog_bind_map(program, map, ptr::null()) };
            if failed != 0 {
                let reason = io::Error::from_raw_os_error(-failed).to_string();
                return Err(BOUND.refused_because(reason));
            }
        }
        Ok(())
    }

    /// Attaches a program to an interface (one of tc's: to one with a clsact qdisc).
    pub fn attach(&self, hook: Hook, path: Option<&Path>, ifindex: u32) -> Result<()> {
        let fd = self.program(hook);
        netns::within(path, || {
            if hook.tc() {
                attach::attach_tc(fd, ifindex)
            } else {
                attach::attach_xdp(fd, ifindex, hook.names())
            }
        })
    }

    /// Detaches it; false when it was not there.
    pub fn detach(&self, hook: Hook, path: Option<&Path>, ifindex: u32) -> Result<bool> {
        let fd = self.program(hook);
        netns::within(path, || {
            if hook.tc() {
                attach::detach_tc(fd, ifindex)
            } else {
                attach::detach_xdp(fd, ifindex, hook.names())
            }
        })
    }

    /// The program that is attached at a hook of an interface.
    pub fn attached(
        hook: Hook,
        path: Option<&Path>,
        ifindex: u32,
    ) -> Result<Option<AttachedProgram>> {
        netns::within(path, || {
            if !hook.tc() {
                return attach::attached_xdp(ifindex);
            }
            // The kernel is asked for what is there; which program would be put there is all the same.
            let any = File::open("/dev/null").map_err(|error| Error::Attach {
                interface: netns::interface_name(ifindex),
                reason: format!("cannot open /dev/null: {error}"),
            })?;
            attach::attached_tc(any.as_fd(), ifindex)
        })
    }

    fn program(&self, hook: Hook) -> BorrowedFd<'_> {
        match hook {
            Hook::Nic => self.demux.progs.isl_demux.as_fd(),
            Hook::NicTc => self.demux.progs.isl_demux_tc.as_fd(),
            Hook::Router => self.forward.progs.isl_router_rx.as_fd(),
            Hook::EgressXdp => self.demux.progs.isl_egress_xdp.as_fd(),
            Hook::EgressTc => self.demux.progs.isl_egress_tc.as_fd(),
        }
    }
}

/// Has a program family work on maps that exist already, where their names are the same.
fn reuse(family: Family, object: &mut OpenObject, known: &[(String, MapHandle)]) -> Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, old)) = known.iter().find(|(other, _)| *other == name) {
            let map: &mut OpenMapMut<'_> = &mut map;
            map.reuse_fd(old.as_fd()).map_err(|error| family.refused(&error))?;
        }
    }
    Ok(())
}

/// All entries of an array, in our memory.
fn mapped<T: Copy + Default>(map: &impl MapCore) -> Result<MappedArray<T>> {
    let entries = map.max_entries() as usize;
    MappedArray::new(map.as_fd(), entries)
        .map_err(|error| MAPPED.refused_because(error.to_string()))
}
