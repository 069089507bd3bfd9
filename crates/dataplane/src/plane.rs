//! The packet path of a policy: the programs of `bpf/demux.bpf.c` and `bpf/forward.bpf.c` on
//! interfaces, and their tables. Nothing of it needs this process: what is attached stays, and the
//! tables live as long as the program on a NIC does. [`Plane::open`] finds them again.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    ptr,
};

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapMut, OpenObject,
    skel::{OpenSkel, SkelBuilder},
};

use crate::{
    Error, Result,
    attach::{self, Standing},
    error::one_line,
    load::check_descriptor_limit,
    mapped::MappedArray,
    netns,
    skeletons::{
        demux::{DemuxSkel, DemuxSkelBuilder},
        forward::{ForwardSkel, ForwardSkelBuilder},
    },
};

/// `ISL_MAX_QUEUES`.
pub const MAX_QUEUES: usize = 2048;
/// `ISL_MAX_PORTS`.
pub const MAX_PORTS: usize = 2048;
/// `ISL_MAX_BUDGETS`.
pub const MAX_BUDGETS: usize = 1024;
const QUEUE_XDP: u32 = 1;
const QUEUE_UNCOUNTED: u32 = 2;

/// Where a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The demultiplexer, on a NIC.
    Nic,
    /// The demultiplexer of a NIC whose driver does not run XDP.
    NicTc,
    /// The counting (and forwarding) program, on a router's receiving interface.
    Router,
    /// Straight to the uplink, on the host's side of a router's interface.
    Leave,
    /// The classifier, on the host's side of a router's interface.
    Port,
}

impl Hook {
    /// Name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nic => "isl_demux",
            Self::NicTc => "isl_demux_tc",
            Self::Router => "isl_serve",
            Self::Leave => "isl_leave",
            Self::Port => "isl_egress",
        }
    }

    /// Whether it is one of tc's.
    fn tc(self) -> bool {
        matches!(self, Self::NicTc | Self::Port)
    }
}

/// The tables that user space fills; keys in the byte order of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// MAC address and VLAN (big endian; 0: untagged) -> queue.
    Routes,
    /// Queue -> the host's side of the router's interface.
    Inlets,
    /// The host's side of a router's interface -> port.
    PortOf,
    /// Port -> interface that its frames leave by.
    Uplinks,
    /// Queue and interface of the router that its routes name -> outlet.
    Ways,
    /// Outlet -> interface, whatever its namespace.
    Outlets,
}

/// A token bucket: tokens are frames, or bits on the wire. `struct isl_bucket`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens a second; 0: no limit.
    pub rate: u64,
    /// Most tokens at a time.
    pub depth: u64,
    tokens: u64,
    at_ns: u64,
}

impl Bucket {
    /// A bucket that is full from the first refill on.
    #[must_use]
    pub fn new(rate: u64, depth: u64) -> Self {
        Self { rate, depth, tokens: 0, at_ns: 0 }
    }
}

/// `struct isl_queue`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    limit: u32,
    flags: u32,
    budget: u32,
    burst: u32,
    seen: u32,
    pad0: [u32; 11],
    /// Limits that are in force: frames, bits on the wire.
    pub ingress: [Bucket; 2],
    /// Frames that came for the router.
    pub offered: u64,
    /// Their bytes, with the frame check sequence.
    pub offered_bytes: u64,
    /// Frames dropped because the queue was full.
    pub dropped_queue: u64,
    /// Frames dropped because they exceeded `rate_max`.
    pub dropped_rate: u64,
    /// Number of the latest frame that went in.
    pub passed: u32,
    tried_ms: u32,
    /// Frames dropped because the router had used up its CPU time.
    pub dropped_cpu: u64,
    overflowed_ns: u64,
    /// Frames dropped because they were longer than the router's interface takes.
    pub dropped_size: u64,
    /// Frames that the router took from the queue.
    pub served: u64,
    /// Of these, forwarded by XDP.
    pub forwarded: u64,
    /// Number of the latest frame that came out.
    pub latest: u32,
    thread: u32,
    ran_ns: u64,
    pad4: [u64; 4],
}

const _: () = assert!(size_of::<Queue>() == 256, "struct isl_queue");

impl Queue {
    /// Frames waiting.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        if self.counted() { self.passed.wrapping_sub(self.latest) } else { 0 }
    }

    /// Whether XDP forwards what needs nothing of the kernel.
    #[must_use]
    pub fn xdp(&self) -> bool {
        self.flags & QUEUE_XDP != 0
    }

    /// Number of the router's budget of CPU time.
    #[must_use]
    pub fn budget(&self) -> Option<u32> {
        self.budget.checked_sub(1)
    }

    /// Whether a program counts what leaves.
    #[must_use]
    pub fn counted(&self) -> bool {
        self.flags & QUEUE_UNCOUNTED == 0
    }

    /// Frames that may wait when it has not overflowed lately.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Frames that may wait while it overflows; 0 for a queue that is not in use.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }
}

/// `struct isl_port`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Port {
    /// Interface to send to; 0: the host decides.
    pub uplink: u32,
    /// Class of the uplink's queueing discipline; 0: none.
    pub class: u32,
    /// Limits that are in force: frames, bits on the wire.
    pub egress: [Bucket; 2],
    /// Frames that the router sent.
    pub offered: u64,
    /// Their bytes, with the frame check sequence.
    pub offered_bytes: u64,
    /// Frames dropped because they exceeded `rate_max`.
    pub dropped_rate: u64,
    /// Frames dropped because they were longer than the uplink takes.
    pub dropped_size: u64,
    pad0: [u64; 3],
}

const _: () = assert!(size_of::<Port>() == 128, "struct isl_port");

/// `struct isl_budget`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    rate_ns: u64,
    depth_ns: u64,
    left_ns: i64,
    at_ns: u64,
    seen_ns: u64,
    pad0: [u64; 3],
    spent_ns: u64,
    pad1: [u64; 7],
}

const _: () = assert!(size_of::<Budget>() == 128, "struct isl_budget");

/// How a queue is to work.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueSettings {
    /// Frames that may wait while it overflows.
    pub limit: u32,
    /// Frames that may wait when it has not overflowed lately.
    pub burst: u32,
    /// Forward by XDP what needs nothing of the kernel.
    pub xdp: bool,
    /// Whether a program at its end counts what leaves: only then can `limit` hold.
    pub counted: bool,
    /// Number of the router's budget of CPU time; None: no cap.
    pub budget: Option<u32>,
    /// Frames, bits on the wire.
    pub ingress: [Bucket; 2],
}

/// How a port is to work.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortSettings {
    /// Interface to send to; 0: the host's bridge or routes decide.
    pub uplink: u32,
    /// Class of the uplink's queueing discipline, as in `skb->priority`; 0: none.
    pub class: u32,
    /// Frames, bits on the wire.
    pub egress: [Bucket; 2],
}

/// Programs and tables.
pub struct Plane {
    demux: DemuxSkel<'static>,
    forward: ForwardSkel<'static>,
    queues: MappedArray<Queue>,
    ports: MappedArray<Port>,
    budgets: MappedArray<Budget>,
    // Declared last: dropped after the skeletons that borrow them.
    _objects: (Box<MaybeUninit<OpenObject>>, Box<MaybeUninit<OpenObject>>),
}

fn refuse(program: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |error| Error::Load {
        program,
        feature: "XDP with frames in several parts (Linux 5.18), BPF in clsact",
        reason: one_line(&error),
    }
}

impl Plane {
    /// Loads the programs with empty tables.
    pub fn create() -> Result<Self> {
        Self::load(&[])
    }

    /// Loads the programs with the tables of the demultiplexer that stands on an interface; None
    /// when there is none.
    pub fn open(path: Option<&Path>, ifindex: u32) -> Result<Option<Self>> {
        for hook in [Hook::Nic, Hook::NicTc] {
            match Self::standing(hook, path, ifindex)? {
                Some(standing) if standing.name == hook.name() => {
                    return Self::load(&standing.maps).map(Some);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn load(maps: &[u32]) -> Result<Self> {
        let old: Vec<MapHandle> =
            maps.iter().filter_map(|&id| MapHandle::from_map_id(id).ok()).collect();
        let find = |name: &str| old.iter().find(|map| map.name().to_str() == Some(name));
        let mut objects = (Box::new(MaybeUninit::uninit()), Box::new(MaybeUninit::uninit()));
        // SAFETY: the boxes are kept in `Plane` behind the skeletons and never move their content.
        let slots: (&'static mut MaybeUninit<OpenObject>, &'static mut MaybeUninit<OpenObject>) = unsafe {
            (&mut *ptr::from_mut(objects.0.as_mut()), &mut *ptr::from_mut(objects.1.as_mut()))
        };
        check_descriptor_limit("demux")?;
        let refuse_demux = refuse("demux");
        let mut open = DemuxSkelBuilder::default().open(slots.0).map_err(&refuse_demux)?;
        for mut map in open.open_object_mut().maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some(old) = find(&name) {
                map.reuse_fd(old.as_fd()).map_err(&refuse_demux)?;
            }
        }
        let demux = open.load().map_err(&refuse_demux)?;
        let refuse_forward = refuse("forward");
        let mut open = ForwardSkelBuilder::default().open(slots.1).map_err(&refuse_forward)?;
        open.maps.isl_queues.reuse_fd(demux.maps.isl_queues.as_fd()).map_err(&refuse_forward)?;
        open.maps.isl_budgets.reuse_fd(demux.maps.isl_budgets.as_fd()).map_err(&refuse_forward)?;
        for mut map in open.open_object_mut().maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name != "isl_queues"
                && name != "isl_budgets"
                && let Some(old) = find(&name)
            {
                map.reuse_fd(old.as_fd()).map_err(&refuse_forward)?;
            }
        }
        let forward = open.load().map_err(&refuse_forward)?;
        let mapping = |source: io::Error| Error::Load {
            program: "demux",
            feature: "memory-mapped BPF arrays (Linux 5.5)",
            reason: source.to_string(),
        };
        let plane = Self {
            queues: MappedArray::new(demux.maps.isl_queues.as_fd(), MAX_QUEUES).map_err(mapping)?,
            ports: MappedArray::new(demux.maps.isl_ports.as_fd(), MAX_PORTS).map_err(mapping)?,
            budgets: MappedArray::new(demux.maps.isl_budgets.as_fd(), MAX_BUDGETS)
                .map_err(mapping)?,
            demux,
            forward,
            _objects: objects,
        };
        plane.bind()?;
        Ok(plane)
    }

    /// Ties the life of all tables to the demultiplexers'.
    fn bind(&self) -> Result<()> {
        use std::os::fd::AsRawFd;
        let programs = [&self.demux.progs.isl_demux, &self.demux.progs.isl_demux_tc]
            .map(|program| program.as_fd().as_raw_fd());
        let maps = [
            self.demux.maps.isl_inlets.as_fd().as_raw_fd(),
            self.demux.maps.isl_inlets_tc.as_fd().as_raw_fd(),
            self.demux.maps.isl_port_of.as_fd().as_raw_fd(),
            self.demux.maps.isl_ports.as_fd().as_raw_fd(),
            self.demux.maps.isl_uplinks.as_fd().as_raw_fd(),
            self.forward.maps.isl_ways.as_fd().as_raw_fd(),
            self.forward.maps.isl_outlets.as_fd().as_raw_fd(),
        ];
        for (program, map) in programs.into_iter().flat_map(|one| maps.map(|map| (one, map))) {
            // SAFETY: two open descriptors; no options.
            let failed = unsafe { libbpf_sys::bpf_prog_bind_map(program, map, ptr::null()) };
            if failed != 0 {
                return Err(Error::Load {
                    program: "demux",
                    feature: "maps bound to programs (Linux 5.10)",
                    reason: io::Error::from_raw_os_error(-failed).to_string(),
                });
            }
        }
        Ok(())
    }

    /// Puts a program on an interface (for one of tc's: one with a clsact qdisc).
    pub fn attach(&self, hook: Hook, path: Option<&Path>, ifindex: u32) -> Result<()> {
        let fd = self.program(hook);
        netns::within(path, || {
            if hook.tc() {
                attach::put_tc(&fd, ifindex)
            } else {
                attach::put_xdp(&fd, ifindex, hook.name())
            }
        })
    }

    /// Takes it off again; false when it was not there.
    pub fn detach(&self, hook: Hook, path: Option<&Path>, ifindex: u32) -> Result<bool> {
        let fd = self.program(hook);
        netns::within(path, || {
            if hook.tc() {
                attach::take_tc(fd, ifindex)
            } else {
                attach::take_xdp(fd, ifindex, hook.name())
            }
        })
    }

    /// The program that stands at a hook of an interface.
    pub fn standing(hook: Hook, path: Option<&Path>, ifindex: u32) -> Result<Option<Standing>> {
        let null = std::fs::File::open("/dev/null").map_err(|_| Error::State("no /dev/null"))?;
        netns::within(path, || {
            if hook.tc() {
                attach::standing_tc(null.as_fd(), ifindex)
            } else {
                attach::standing_xdp(ifindex)
            }
        })
    }

    fn program(&self, hook: Hook) -> BorrowedFd<'_> {
        match hook {
            Hook::Nic => self.demux.progs.isl_demux.as_fd(),
            Hook::NicTc => self.demux.progs.isl_demux_tc.as_fd(),
            Hook::Router => self.forward.progs.isl_serve.as_fd(),
            Hook::Leave => self.demux.progs.isl_leave.as_fd(),
            Hook::Port => self.demux.progs.isl_egress.as_fd(),
        }
    }

    /// Sets (None: deletes) an entry of a table. Interfaces are those of the namespace `path`.
    pub fn put(
        &self,
        table: Table,
        path: Option<&Path>,
        key: &[u8],
        value: Option<u32>,
    ) -> Result<()> {
        let map = handle(self.table(table))?;
        check_key(&map, key)?;
        if table == Table::Inlets {
            put(&self.demux.maps.isl_inlets_tc, key, value)?;
        }
        netns::within(path, || put(&map, key, value))
    }

    /// An entry of a table.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<u32>> {
        let map = self.table(table);
        check_key(map, key)?;
        let found = map.lookup(key, MapFlags::ANY).map_err(|error| refused(map, &error))?;
        let bytes = found.and_then(|bytes| bytes.get(..4).and_then(|b| b.try_into().ok()));
        Ok(bytes.map(u32::from_ne_bytes))
    }

    fn table(&self, table: Table) -> &MapMut<'_> {
        match table {
            Table::Routes => &self.demux.maps.isl_routes,
            Table::Inlets => &self.demux.maps.isl_inlets,
            Table::PortOf => &self.demux.maps.isl_port_of,
            Table::Uplinks => &self.demux.maps.isl_uplinks,
            Table::Ways => &self.forward.maps.isl_ways,
            Table::Outlets => &self.forward.maps.isl_outlets,
        }
    }

    /// Sets a queue; counts and waiting frames stay.
    pub fn set_queue(&mut self, slot: usize, settings: &QueueSettings) -> Result<()> {
        let flags =
            u32::from(settings.xdp) * QUEUE_XDP + u32::from(!settings.counted) * QUEUE_UNCOUNTED;
        self.queues
            .update(slot, |queue| {
                queue.flags = flags;
                queue.budget = settings.budget.map_or(0, |number| number + 1);
                for (to, from) in queue.ingress.iter_mut().zip(&settings.ingress) {
                    (to.rate, to.depth) = (from.rate, from.depth);
                }
                queue.burst = settings.burst;
                queue.limit = settings.limit;
            })
            .ok_or_else(|| full("queues", slot, MAX_QUEUES))
    }

    /// Forgets a queue with its counts.
    pub fn clear_queue(&mut self, slot: usize) -> Result<()> {
        self.queues
            .update(slot, |queue| *queue = Queue::default())
            .ok_or_else(|| full("queues", slot, MAX_QUEUES))
    }

    /// A copy of one queue.
    pub fn queue(&self, slot: usize) -> Result<Queue> {
        let found = self.queues.read(slot..slot + 1).and_then(|copy| copy.first().copied());
        found.ok_or_else(|| full("queues", slot, MAX_QUEUES))
    }

    /// A copy of one port.
    pub fn port(&self, number: usize) -> Result<Port> {
        let found = self.ports.read(number..number + 1).and_then(|copy| copy.first().copied());
        found.ok_or_else(|| full("ports", number, MAX_PORTS))
    }

    /// The kernel's numbers of the tables of queues and of ports: what tells planes apart.
    pub fn table_ids(&self) -> Result<(u32, u32)> {
        let number = |map: &MapMut<'_>| {
            handle(map)?.info().map(|info| info.info.id).map_err(|error| refused(map, &error))
        };
        Ok((number(&self.demux.maps.isl_queues)?, number(&self.demux.maps.isl_ports)?))
    }

    /// Sets a router's budget of CPU time, ns a second and at most at once; 0: no cap.
    pub fn set_budget(&mut self, number: usize, rate_ns: u64, depth_ns: u64) -> Result<()> {
        self.budgets
            .update(number, |budget| {
                (budget.rate_ns, budget.depth_ns) = (rate_ns, depth_ns);
            })
            .ok_or_else(|| full("budgets", number, MAX_BUDGETS))
    }

    /// A router's budget of CPU time: ns a second, ns at most at once.
    pub fn budget(&self, number: usize) -> Result<(u64, u64)> {
        let found = self.budgets.read(number..number + 1).and_then(|copy| copy.first().copied());
        found
            .map(|budget| (budget.rate_ns, budget.depth_ns))
            .ok_or_else(|| full("budgets", number, MAX_BUDGETS))
    }

    /// Sets a port; counts stay.
    pub fn set_port(&mut self, number: usize, settings: &PortSettings) -> Result<()> {
        self.ports
            .update(number, |port| {
                for (to, from) in port.egress.iter_mut().zip(&settings.egress) {
                    (to.rate, to.depth) = (from.rate, from.depth);
                }
                (port.uplink, port.class) = (settings.uplink, settings.class);
            })
            .ok_or_else(|| full("ports", number, MAX_PORTS))
    }

    /// Forgets a port with its counts.
    pub fn clear_port(&mut self, number: usize) -> Result<()> {
        self.ports
            .update(number, |port| *port = Port::default())
            .ok_or_else(|| full("ports", number, MAX_PORTS))
    }

    /// Copies of all ports.
    pub fn ports(&self) -> Result<Vec<Port>> {
        self.ports.read(0..MAX_PORTS).ok_or(Error::State("the table of ports is too short"))
    }
}

fn full(key: &'static str, value: usize, most: usize) -> Error {
    Error::Spec { key, value: value.to_string(), accepted: format!("fewer than {most}") }
}

/// The map as something that another thread may use.
fn handle(map: &MapMut<'_>) -> Result<MapHandle> {
    MapHandle::try_from(map).map_err(|error| refused(map, &error))
}

fn refused(map: &impl MapCore, error: &libbpf_rs::Error) -> Error {
    Error::Table { name: map.name().to_string_lossy().into_owned(), reason: one_line(error) }
}

fn check_key(map: &impl MapCore, key: &[u8]) -> Result<()> {
    if key.len() == map.key_size() as usize {
        return Ok(());
    }
    Err(Error::Table {
        name: map.name().to_string_lossy().into_owned(),
        reason: format!("a key of {} bytes instead of {}", key.len(), map.key_size()),
    })
}

fn put(map: &impl MapCore, key: &[u8], value: Option<u32>) -> Result<()> {
    match value {
        Some(value) => {
            map.update(key, &value.to_ne_bytes(), MapFlags::ANY).map_err(|e| refused(map, &e))
        }
        None => match map.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(refused(map, &error))
            }
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run::packet_through;

    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    const XDP_REDIRECT: u32 = 4;
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const SLOT: u32 = 3;

    /// A plane with one queue, reached by `MAC` untagged and in VLAN 5, towards loopback.
    fn plane(settings: &QueueSettings) -> Plane {
        let mut plane = Plane::create().expect("loads");
        plane.set_queue(SLOT as usize, settings).expect("in range");
        plane.put(Table::Inlets, None, &SLOT.to_ne_bytes(), Some(1)).expect("lo");
        for vlan in [0u16, 5] {
            let mut key = MAC.to_vec();
            key.extend(vlan.to_be_bytes());
            plane.put(Table::Routes, None, &key, Some(SLOT)).expect("room");
        }
        plane
    }

    fn queue() -> QueueSettings {
        QueueSettings { limit: 4, burst: 4, counted: true, ..QueueSettings::default() }
    }

    fn frame(destination: [u8; 6], proto: u16) -> Vec<u8> {
        let mut bytes = vec![0u8; 60];
        bytes[..6].copy_from_slice(&destination);
        bytes[12..14].copy_from_slice(&proto.to_be_bytes());
        bytes
    }

    fn verdict(plane: &Plane, packet: &[u8]) -> u32 {
        packet_through(&plane.demux.progs.isl_demux, packet).0
    }

    #[test]
    fn only_ip_for_a_known_router_takes_the_short_way() {
        let plane = plane(&QueueSettings { limit: 100, burst: 100, ..queue() });
        let mut tagged = frame(MAC, 0x0800);
        tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
        let mut strange = tagged.clone();
        strange[15] = 6;
        let table = [
            ("IPv4", frame(MAC, 0x0800), XDP_REDIRECT),
            ("IPv6", frame(MAC, 0x86dd), XDP_REDIRECT),
            ("in its VLAN", tagged, XDP_REDIRECT),
            ("in another VLAN", strange, XDP_PASS),
            ("ARP", frame(MAC, 0x0806), XDP_PASS),
            ("somebody else", frame([2, 0, 0, 0, 0, 2], 0x0800), XDP_PASS),
            ("multicast", frame([3, 0, 0, 0, 0, 1], 0x0800), XDP_PASS),
            ("cut short", frame(MAC, 0x0800)[..14].to_vec(), XDP_REDIRECT),
        ];
        for (name, packet, wanted) in table {
            assert_eq!(verdict(&plane, &packet), wanted, "{name}");
        }
        assert_eq!(plane.queue(SLOT as usize).expect("in range").offered, 4);
    }

    #[test]
    fn a_full_queue_drops_and_counts_and_serving_makes_room() {
        let mut plane = plane(&queue());
        let packet = frame(MAC, 0x0800);
        let verdicts: Vec<u32> = (0..6).map(|_| verdict(&plane, &packet)).collect();
        assert_eq!(verdicts, [4, 4, 4, 4, 1, 1]);
        let seen = plane.queue(SLOT as usize).expect("in range");
        assert_eq!((seen.offered, seen.dropped_queue, seen.waiting()), (6, 2, 4));
        assert_eq!(seen.offered_bytes, 6 * 64);
        // What leaves the queue is what its tag says; here by hand.
        plane.queues.update(SLOT as usize, |queue| queue.latest = 3).expect("in range");
        assert_eq!(plane.queue(SLOT as usize).expect("in range").waiting(), 1);
        assert_eq!(verdict(&plane, &packet), XDP_REDIRECT);
    }

    #[test]
    fn a_burst_is_let_in_once_and_not_after_an_overflow() {
        let plane = plane(&QueueSettings { burst: 8, ..queue() });
        let packet = frame(MAC, 0x0800);
        let verdicts: Vec<u32> = (0..9).map(|_| verdict(&plane, &packet)).collect();
        assert_eq!(verdicts[..8], [XDP_REDIRECT; 8]);
        assert_eq!(verdicts[8], XDP_DROP);
    }

    /// Offers a frame and gives what the program made of it, without the number before it.
    fn made_of(plane: &Plane, packet: &[u8]) -> (u32, Vec<u8>) {
        let (verdict, made) = packet_through(&plane.demux.progs.isl_demux, packet);
        (verdict, made[8..].to_vec())
    }

    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2);
        let mut sum: u32 = words
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).expect("folded")
    }

    /// A frame as a kernel hands it to a device that adds checksums, the pseudo header, and where
    /// TCP's or UDP's part begins.
    fn unfinished(v6: bool, tcp: bool, payload: usize) -> (Vec<u8>, Vec<u8>, usize) {
        let mut bytes = frame(MAC, if v6 { 0x86dd } else { 0x0800 });
        bytes.truncate(14);
        let length = if tcp { 20 } else { 8 } + payload;
        let protocol = if tcp { 6u8 } else { 17 };
        let words = u16::try_from(length).expect("short").to_be_bytes();
        let addresses: Vec<u8> = (1..=if v6 { 32 } else { 8 }).map(|n| n * 7).collect();
        if v6 {
            bytes.extend([0x60, 0, 0, 0, words[0], words[1], protocol, 64]);
        } else {
            let whole = u16::try_from(length + 20).expect("short").to_be_bytes();
            bytes.extend([0x45, 0, whole[0], whole[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
        }
        bytes.extend(&addresses);
        let start = bytes.len();
        bytes.extend((0..length).map(|n| u8::try_from(n % 251).expect("a byte")));
        if tcp {
            bytes[start + 12] = 0x50;
        }
        let pseudo = [addresses.as_slice(), &[0, protocol], &words].concat();
        let seed = sum(&pseudo).to_be_bytes();
        let check = start + if tcp { 16 } else { 6 };
        bytes[check..check + 2].copy_from_slice(&seed);
        (bytes, pseudo, start)
    }

    #[test]
    fn checksums_that_were_left_to_the_device_are_added() {
        let plane = plane(&QueueSettings { limit: 200, burst: 200, ..queue() });
        for payload in [1, 2, 26, 471, 472, 473, 511, 512, 1001, 1460] {
            for (v6, tcp) in [(false, true), (false, false), (true, true), (true, false)] {
                let (packet, pseudo, start) = unfinished(v6, tcp, payload);
                let (verdict, made) = made_of(&plane, &packet);
                assert_eq!(verdict, XDP_REDIRECT);
                let all = [pseudo.as_slice(), &made[start..]].concat();
                assert_eq!(sum(&all), 0xffff, "IPv6 {v6}, TCP {tcp}, {payload} bytes");
                assert_eq!(made_of(&plane, &made).1, made, "what is whole stays as it is");
            }
        }
    }

    #[test]
    fn what_has_a_checksum_of_its_own_or_none_stays_as_it_is() {
        let plane = plane(&QueueSettings { limit: 200, burst: 200, ..queue() });
        let (udp, _, start) = unfinished(false, false, 26);
        let mut without = udp.clone();
        without[start + 6..start + 8].fill(0);
        let mut fragment = udp.clone();
        fragment[20] = 0x20;
        let mut wrong = udp;
        wrong[start + 6] ^= 0x55;
        for packet in [without, fragment, wrong] {
            assert_eq!(made_of(&plane, &packet), (XDP_REDIRECT, packet));
        }
    }

    #[test]
    fn the_tag_of_a_vlan_is_taken_off() {
        let plane = plane(&QueueSettings { limit: 100, burst: 100, ..queue() });
        let (plain, ..) = unfinished(false, true, 100);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
        let expected = made_of(&plane, &plain);
        assert_eq!(made_of(&plane, &tagged), expected);
    }

    #[test]
    fn a_queue_whose_frames_were_lost_is_tried_again() {
        let plane = plane(&queue());
        let packet = frame(MAC, 0x0800);
        for _ in 0..4 {
            assert_eq!(verdict(&plane, &packet), XDP_REDIRECT);
        }
        // Nobody takes them: at most one in a tenth of a second goes in after that.
        let began = std::time::Instant::now();
        let mut through = 0;
        while began.elapsed() < std::time::Duration::from_millis(450) {
            through += u64::from(verdict(&plane, &packet) == XDP_REDIRECT);
        }
        assert!((2..=6).contains(&through), "{through}");
    }

    #[test]
    fn what_costs_more_than_a_bucket_holds_is_paid_for_afterwards() {
        // 1,514 bytes are 12,304 bits of the wire; the bucket holds 3,000 and fills in 3 ms.
        let bits = [Bucket::default(), Bucket::new(1_000_000, 3000)];
        let room = QueueSettings { limit: 200, burst: 200, ingress: bits, ..queue() };
        let plane = plane(&room);
        let mut packet = frame(MAC, 0x0800);
        packet.resize(1514, 0);
        let began = std::time::Instant::now();
        let mut through = 0u128;
        while began.elapsed() < std::time::Duration::from_millis(200) {
            through += u128::from(verdict(&plane, &packet) == XDP_REDIRECT);
        }
        let most = began.elapsed().as_micros() / 12_304 + 2;
        assert!((10..=most).contains(&through), "{through} of {most}");
    }

    #[test]
    fn an_uncounted_queue_leaves_fullness_to_the_kernel() {
        let plane = plane(&QueueSettings { counted: false, ..queue() });
        let packet = frame(MAC, 0x0800);
        assert!((0..9).all(|_| verdict(&plane, &packet) == XDP_REDIRECT));
        assert_eq!(plane.queue(SLOT as usize).expect("in range").waiting(), 0);
    }

    #[test]
    fn ceilings_of_frames_and_of_bits_hold() {
        let frames = [Bucket::new(1, 3), Bucket::default()];
        // 64-byte frames take 84 bytes of the wire, 672 bits: four fit into 3,000, not five.
        let bits = [Bucket::default(), Bucket::new(1, 3000)];
        for (limits, passed) in [(frames, 3), (bits, 4)] {
            let room = QueueSettings { limit: 100, burst: 100, ingress: limits, ..queue() };
            let plane = plane(&room);
            let packet = frame(MAC, 0x0800);
            let verdicts: Vec<u32> = (0..6).map(|_| verdict(&plane, &packet)).collect();
            // The buckets are empty at first and fill for at most a tenth of a second at a time.
            let through = verdicts.iter().filter(|&&verdict| verdict == XDP_REDIRECT).count();
            let dropped = verdicts.len() - through;
            assert!(through <= passed, "{verdicts:?}");
            let seen = plane.queue(SLOT as usize).expect("in range");
            assert_eq!(seen.dropped_rate, dropped as u64);
        }
    }

    #[test]
    fn a_spent_budget_of_cpu_time_lets_nothing_in() {
        let mut plane =
            plane(&QueueSettings { limit: 100, burst: 100, budget: Some(0), ..queue() });
        let packet = frame(MAC, 0x0800);
        assert_eq!(verdict(&plane, &packet), XDP_REDIRECT, "no cap");
        plane.set_budget(0, 500_000_000, 5_000_000).expect("in range");
        assert_eq!(verdict(&plane, &packet), XDP_REDIRECT, "time has passed: there is some");
        plane.budgets.update(0, |budget| budget.spent_ns += 60_000_000_000).expect("in range");
        assert_eq!(verdict(&plane, &packet), XDP_DROP, "a minute too much");
        assert_eq!(plane.queue(SLOT as usize).expect("in range").dropped_cpu, 1);
    }

    #[test]
    fn settings_change_without_touching_counts() {
        let mut plane = plane(&queue());
        verdict(&plane, &frame(MAC, 0x0800));
        plane.set_queue(SLOT as usize, &QueueSettings { limit: 9, ..queue() }).expect("in range");
        let seen = plane.queue(SLOT as usize).expect("in range");
        assert_eq!((seen.limit(), seen.offered, seen.waiting()), (9, 1, 1));
        assert!(plane.set_queue(MAX_QUEUES, &queue()).is_err());
        assert!(plane.get(Table::Routes, &[1, 2]).is_err(), "a key of another length");
    }
}
