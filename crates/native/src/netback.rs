//! The network back-end for Python: a process of its own runs it.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    sync::{Mutex, PoisonError},
};

use isolane_dataplane::admission::{Admission, LanAddress, MAX_SOCKETS};
use isolane_netback::{
    AdmissionProgram, Attachment, Handle, LinkSettings, Netback as BackEnd, NicSettings,
    PortCounters, PortSettings, Sharing as Shared, UplinkCounters, UplinkSettings, XdpSocket,
    drop_privileges,
};
use isolane_sched::{BackPressure, FlowSettings, Kind};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::NativeError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    uplinks: Vec<UplinkEntry>,
    ports: Vec<Port>,
    sharing: Sharing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UplinkEntry {
    ifindex: u32,
    early_drop: EarlyDrop,
    /// That have sockets of their own, at most; 0: frames come by one packet socket.
    receive_queues: u32,
}

/// How frames of an uplink arrive.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Receive {
    Packet,
    XdpCopy,
    XdpZeroCopy,
}

/// Where frames that a port has no space for are dropped before they are copied.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
enum EarlyDrop {
    Off,
    Socket,
    Driver,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    mac: [u8; 6],
    mtu: u16,
    uplink: usize,
    check_source: bool,
    offloads: bool,
    vlan: Option<u16>,
    max_wait_ns: u64,
    /// Of the listening socket; it is taken over.
    listener: Option<RawFd>,
    interface: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sharing {
    uplinks: Vec<Uplink>,
    ports: Vec<Shares>,
}

impl Sharing {
    fn read(&self) -> PyResult<Shared> {
        let links = self.uplinks.iter().map(link).collect::<PyResult<_>>()?;
        Ok(Shared { links, ports: self.ports.iter().map(|&shares| shares.into()).collect() })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Uplink {
    scheduler: String,
    back_pressure: bool,
    rate_bps: Option<u64>,
    burst_ns: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    weight: u32,
    priority: u8,
    rate_min_bps: u64,
    rate_max_bps: Option<u64>,
}

impl From<Shares> for FlowSettings {
    fn from(shares: Shares) -> Self {
        Self {
            weight: shares.weight,
            priority: shares.priority,
            rate_min_bps: shares.rate_min_bps,
            rate_max_bps: shares.rate_max_bps,
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
struct Counters<'a> {
    ports: Vec<PortCounters>,
    uplinks: Vec<CountedUplink<'a>>,
}

#[derive(Serialize)]
struct CountedUplink<'a> {
    #[serde(flatten)]
    counters: UplinkCounters,
    #[serde(flatten)]
    arrival: &'a Arrival,
}

/// Where frames of an uplink are dropped before they are copied, how others arrive, and why not earlier
/// or in another way.
#[derive(Serialize)]
struct Arrival {
    early_drop: EarlyDrop,
    early_drop_reason: Option<String>,
    receive: Receive,
    receive_reason: Option<String>,
    /// The program is on the driver's hook as long as this is open.
    #[serde(skip)]
    _link: Option<OwnedFd>,
}

impl Arrival {
    /// By a packet socket.
    fn packets(early_drop: EarlyDrop, early_drop_reason: Option<String>) -> Self {
        let receive = Receive::Packet;
        Self { early_drop, early_drop_reason, receive, receive_reason: None, _link: None }
    }
}

impl UplinkEntry {
    /// Loads what drops frames early, and hands others over, as far as this host has it.
    fn open(&self, ports: &[LanAddress], has_vlans: bool) -> (UplinkSettings, Arrival) {
        let mut settings =
            UplinkSettings { ifindex: self.ifindex, program: None, sockets: Vec::new() };
        if self.early_drop == EarlyDrop::Off {
            return (settings, Arrival::packets(EarlyDrop::Off, None));
        }
        let (programs, filter) = match load(ports) {
            Ok(loaded) => loaded,
            Err(reason) => return (settings, Arrival::packets(EarlyDrop::Off, Some(reason))),
        };
        settings.program = Some(filter);
        if self.early_drop == EarlyDrop::Socket {
            return (settings, Arrival::packets(EarlyDrop::Socket, None));
        }
        let attached = if has_vlans {
            Err("ports of it have VLANs, and a NIC may take tags off before".into())
        } else {
            programs.attach(self.ifindex).map_err(|error| error.to_string())
        };
        let link = match attached {
            Ok(link) => link,
            Err(reason) => return (settings, Arrival::packets(EarlyDrop::Socket, Some(reason))),
        };
        let (sockets, receive_reason) = self.sockets(&programs);
        let receive = match &sockets[..] {
            [] => Receive::Packet,
            some if some.iter().all(XdpSocket::is_zero_copy) => Receive::XdpZeroCopy,
            _ => Receive::XdpCopy,
        };
        settings.sockets = sockets;
        let arrival = Arrival {
            early_drop: EarlyDrop::Driver,
            early_drop_reason: None,
            receive,
            receive_reason,
            _link: Some(link),
        };
        (settings, arrival)
    }

    /// Opens what takes frames that the kernel makes no packets of, for each receive queue; and says why
    /// not, or not for all.
    fn sockets(&self, programs: &Admission) -> (Vec<XdpSocket>, Option<String>) {
        let frames = (SOCKET_FRAMES / self.receive_queues.max(1)).next_power_of_two();
        let mut opened = Vec::new();
        for queue in 0..self.receive_queues.min(MAX_SOCKETS) {
            let socket = match XdpSocket::open(self.ifindex, queue, frames.max(MIN_FRAMES)) {
                Ok(socket) => socket,
                // Fewer are in use than the driver could have.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && queue > 0 => break,
                Err(error) => return (opened, Some(error.to_string())),
            };
            if let Err(error) = programs.hand_to(queue, socket.as_fd()) {
                return (opened, Some(error.to_string()));
            }
            opened.push(socket);
        }
        (opened, None)
    }
}

/// Frames that may wait for the back-end in all sockets of an uplink, 2 KiB each, and in one of them at least.
const SOCKET_FRAMES: u32 = 4096;
const MIN_FRAMES: u32 = 256;

fn load(ports: &[LanAddress]) -> Result<(Admission, AdmissionProgram), String> {
    let programs = Admission::load(ports).map_err(|error| error.to_string())?;
    let owned = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|error| error.to_string());
    let filter = owned(programs.filter())?;
    let entries = owned(programs.entries())?;
    Ok((programs, AdmissionProgram { filter, entries }))
}

fn raise(error: impl std::fmt::Display) -> PyErr {
    NativeError::new_err(error.to_string())
}

/// A network back-end for virtual machines: their NICs over vhost-user, its uplinks by packet sockets.
///
/// `settings_json`: `uplinks`, a list of `ifindex` (in the caller's network namespace), `early_drop`
/// (`off`, `socket`, `driver`: no later than there, where the host has that) and `receive_queues` (that have
/// sockets of their own before the kernel makes packets, at most; 0: none);
/// `ports`, a list of `mac` (six numbers), `mtu` (bytes), `uplink` (index in that list),
/// `check_source`, `offloads`, `vlan` (a number, or null), `max_wait_ns`, `listener` (descriptor of a
/// listening socket, which is taken over) or `interface` (its name), the other one null; `sharing`, as
/// `share` takes it.
#[pyclass(frozen, module = "isolane._native")]
pub(crate) struct Netback {
    back_end: Mutex<Option<BackEnd>>,
    handle: Handle,
    arrivals: Vec<Arrival>,
}

#[pymethods]
impl Netback {
    #[new]
    fn new(settings_json: &str) -> PyResult<Self> {
        let settings: Settings = serde_json::from_str(settings_json).map_err(raise)?;
        let ports = settings.ports.iter().map(|port| {
            let attachment = match (port.listener, &port.interface) {
                // SAFETY: the caller hands the descriptor over.
                (Some(fd), None) => Attachment::Socket(unsafe { OwnedFd::from_raw_fd(fd) }.into()),
                (None, Some(name)) => Attachment::Interface(name.clone()),
                _ => return Err(raise("a port has either a listener or an interface")),
            };
            let settings = PortSettings {
                nic: NicSettings { mac: port.mac, mtu: port.mtu, offloads: port.offloads },
                uplink: port.uplink,
                check_source: port.check_source,
                vlan: port.vlan,
                max_wait_ns: port.max_wait_ns,
            };
            Ok((settings, attachment))
        });
        let ports = ports.collect::<PyResult<_>>()?;
        let sharing = settings.sharing.read()?;
        let loaded = settings.uplinks.iter().enumerate().map(|(number, entry)| {
            let its = || settings.ports.iter().filter(|port| port.uplink == number);
            let addresses: Vec<LanAddress> =
                its().map(|port| (port.vlan.unwrap_or(0), port.mac)).collect();
            entry.open(&addresses, its().any(|port| port.vlan.is_some()))
        });
        let (uplinks, arrivals): (Vec<_>, Vec<_>) = loaded.unzip();
        let (back_end, handle) = BackEnd::new(uplinks, ports, &sharing).map_err(raise)?;
        Ok(Self { back_end: Mutex::new(Some(back_end)), handle, arrivals })
    }

    /// Has it share its uplinks differently, or changes nothing and raises.
    ///
    /// `at_ns`: from when on, ns of the monotonic clock; None: from the next frame on, which also
    /// cancels what was to come later.
    /// `sharing_json`: `uplinks`, a list of `scheduler`, `back_pressure`, `rate_bps` (bit/s on the
    /// wire, or null) and `burst_ns` (or null); `ports`, a list of `weight`, `priority`,
    /// `rate_min_bps`, `rate_max_bps` (or null).
    #[pyo3(signature = (sharing_json, at_ns=None))]
    fn share(&self, py: Python<'_>, sharing_json: &str, at_ns: Option<u64>) -> PyResult<()> {
        let sharing: Sharing = serde_json::from_str(sharing_json).map_err(raise)?;
        let sharing = sharing.read()?;
        py.detach(|| self.handle.share(sharing, at_ns)).map_err(raise)
    }

    /// Works until `stop` is called; once.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let back_end = self.back_end.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut back_end) = back_end else {
            return Err(raise("it ran before"));
        };
        py.detach(move || back_end.run()).map_err(|error: io::Error| raise(error))
    }

    /// What became of all frames so far, as JSON: `ports` and `uplinks`, each a list in their order.
    fn counters(&self, py: Python<'_>) -> PyResult<String> {
        let (ports, uplinks) = py.detach(|| self.handle.counters()).map_err(raise)?;
        let uplinks = uplinks.into_iter().zip(&self.arrivals);
        let uplinks =
            uplinks.map(|(counters, arrival)| CountedUplink { counters, arrival }).collect();
        serde_json::to_string(&Counters { ports, uplinks }).map_err(raise)
    }

    /// Has `run` end.
    fn stop(&self) {
        self.handle.stop();
    }
}

fn link(settings: &Uplink) -> PyResult<LinkSettings> {
    let unknown = || raise(format!("there is no scheduler {}", settings.scheduler));
    let scheduler = Kind::by_name(&settings.scheduler).ok_or_else(unknown)?;
    let back_pressure = if settings.back_pressure { BackPressure::On } else { BackPressure::Off };
    let Uplink { rate_bps, burst_ns, .. } = *settings;
    Ok(LinkSettings { scheduler, back_pressure, rate_bps, burst_ns })
}

/// Gives up all rights beyond those of the user, in this thread and those that it starts.
#[pyfunction]
pub(crate) fn give_up_rights() -> PyResult<()> {
    drop_privileges().map_err(raise)
}
