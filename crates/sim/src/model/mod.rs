//! The data model: what a simulation is made of. A host and its paths are data, not code.
//!
//! Everything has a name; things refer to each other by name. Times are ns since the simulation's
//! start, rates bit/s or frames/s, frame sizes bytes with the 4-byte checksum. Unknown keys are
//! refused.

mod cpu;
mod net;
mod traffic;

pub use cpu::{Cfs, Context, ContextKind, Core, CpuScheduler, Credit, Eevdf, Group, Mode, Softirq};
pub use net::{
    Admission, BackPressure, Nic, PacketScheduler, Port, Queue, Ring, Router, SchedulerKind,
    Settings, SortBy, Stage,
};
pub use traffic::{Begin, Change, FrameBytes, Load, LoadKind, Pattern, Release, Traffic, Turn};

use serde::Deserialize;

/// A simulation: the host, its paths, the traffic, the window.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Seed of all randomness; same seed, same bytes out.
    #[serde(default)]
    pub seed: u64,
    /// When the simulation ends, ns.
    pub duration_ns: u64,
    /// What happens before counts for no window figure, ns.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// What happens from then on counts for no window figure, ns; default: `duration_ns`.
    #[serde(default)]
    pub window_end_ns: Option<u64>,
    /// Width of the bins of throughput over time, ns; none: no bins.
    #[serde(default)]
    pub bin_ns: Option<u64>,
    /// Softirq rules, for all cores.
    #[serde(default)]
    pub softirq: Softirq,
    /// The cores.
    #[serde(default)]
    pub cores: Vec<Core>,
    /// CPU cgroups.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// What runs on cores.
    #[serde(default)]
    pub contexts: Vec<Context>,
    /// NICs: a wire each, with rings.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Where frames leave.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// Where work is done on frames.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Virtual routers: their paths.
    pub routers: Vec<Router>,
    /// The traffic.
    pub traffic: Vec<Traffic>,
    /// Load besides the traffic.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// Settings that change at given times.
    #[serde(default)]
    pub changes: Vec<Change>,
}
