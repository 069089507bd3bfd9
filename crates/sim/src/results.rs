//! What a simulation gives. All whole numbers: the same on any machine, to the byte.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::Histogram;

/// The results of a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Results {
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// How far it got, ns.
    pub ended_ns: u64,
    /// Begin and end of the window, ns; the end not later than `ended_ns`.
    pub window_ns: (u64, u64),
    /// Events and pieces of work.
    pub events: u64,
    /// By entry of the traffic.
    pub flows: Vec<Flow>,
    /// By router: sums over its flows.
    pub routers: Vec<Flow>,
    /// Where frames wait and may be dropped.
    #[serde(rename = "places")]
    pub drop_points: Vec<DropPointCount>,
    /// The cores' time in the window.
    pub cores: Vec<CoreTime>,
    /// The contexts' time in the window.
    pub contexts: Vec<ContextTime>,
    /// The stages' time in the window.
    pub stages: Vec<StageTime>,
}

/// A number of frames and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Their sizes, bytes.
    pub bytes: u64,
}

/// What became of the frames whose first bit was sent in the window, whenever that was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Sent.
    pub offered: Count,
    /// Arrived.
    pub received: Count,
    /// Dropped, by drop point.
    pub drops: BTreeMap<String, u64>,
}

/// What became of a flow's or a router's frames. offered + again = received + drops + left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Name of the traffic entry, or of the router.
    pub name: String,
    /// Its router.
    pub router: String,
    /// Sent, in the whole run.
    pub offered: Count,
    /// Arrived, in the whole run.
    pub received: Count,
    /// Dropped, by drop point, in the whole run.
    pub drops: BTreeMap<String, u64>,
    /// Of requests: frames that were lost and sent again.
    #[serde(skip_serializing_if = "is_none")]
    pub again: u64,
    /// Still on the way at the end.
    pub left: u64,
    /// The same of frames whose first bit was sent in the window.
    pub window: Window,
    /// From the first bit sent to the last received, of the window's frames.
    pub delay: Delay,
    /// From the first bit sent to the end of the stage, by stage that captures.
    pub captures: BTreeMap<String, Delay>,
    /// Frames over time, if the model says so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<BinCount>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// A distribution of delays. Quantiles within 1.6 %, those of the whole with lost frames as infinitely
/// late; null when there are none, and where they are infinite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Delay {
    /// Frames that arrived.
    pub count: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Median of those that arrived, ns.
    pub arrived_p50_ns: Option<u64>,
    /// Sum, ns.
    pub sum_ns: u64,
    /// Minimum, ns.
    pub min_ns: Option<u64>,
    /// Median, ns.
    pub p50_ns: Option<u64>,
    /// 90th percentile, ns.
    pub p90_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, ns.
    pub p999_ns: Option<u64>,
    /// 99.99th percentile, ns.
    pub p9999_ns: Option<u64>,
    /// Maximum, ns.
    pub max_ns: Option<u64>,
}

impl From<&Histogram> for Delay {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            lost: histogram.lost(),
            arrived_p50_ns: histogram.finite_quantile_ns(5_000),
            sum_ns: histogram.sum_ns().expect("each delay was added by its value"),
            min_ns: histogram.min_ns(),
            p50_ns: histogram.quantile_ns(5_000),
            p90_ns: histogram.quantile_ns(9_000),
            p99_ns: histogram.quantile_ns(9_900),
            p999_ns: histogram.quantile_ns(9_990),
            p9999_ns: histogram.quantile_ns(9_999),
            max_ns: histogram.max_ns(),
        }
    }
}

/// A bin of throughput over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BinCount {
    /// Frames sent.
    pub offered: u64,
    /// Frames received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// The 99th percentile of their delays, ns, within 6.3 %; null when there are none.
    pub delay_p99_ns: Option<u64>,
}

/// A drop point, in the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DropPointCount {
    /// Its name: the ring's or the port's, or `<stage>.queue`.
    pub name: String,
    /// `ring`, `queue` or `port`.
    pub kind: &'static str,
    /// Frames that came.
    pub entered: u64,
    /// Frames that were dropped.
    pub dropped: u64,
    /// Frames that are there at the end.
    pub left: u64,
    /// Maximum number of frames that were there at a time.
    #[serde(rename = "most")]
    pub max: u64,
}

/// A core's time in the window, ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoreTime {
    /// Its name.
    pub name: String,
    /// The window.
    pub window_ns: u64,
    /// Not idle.
    pub busy_ns: u64,
    /// In interrupts.
    pub irq_ns: u64,
    /// In softirqs, ksoftirqd included.
    pub softirq_ns: u64,
    /// Of it, in ksoftirqd.
    pub ksoftirqd_ns: u64,
    /// In threads, processes, vCPUs.
    pub thread_ns: u64,
    /// Times that another context got the core.
    pub switches: u64,
    /// Interrupts, ticks included.
    pub interrupts: u64,
    /// Busy time by whose it is. A context that moved between cores is split as its time is.
    pub modes: BTreeMap<&'static str, u64>,
}

/// A context's time in the window, ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextTime {
    /// Its name.
    pub name: String,
    /// `softirq`, `thread`, `process`, `vcpu`, or `ksoftirqd` (whose softirq time is the softirq's).
    pub kind: &'static str,
    /// What it had.
    pub cpu_ns: u64,
    /// By core.
    pub cores: BTreeMap<String, u64>,
    /// By whose it is.
    pub modes: BTreeMap<&'static str, i64>,
    /// By account of its stages and loads; `switch`, `wake`, `notify`; `unfinished` is the
    /// difference that work under way at the window's ends makes.
    pub accounts: BTreeMap<String, i64>,
    /// Times that it woke.
    pub wakes: u64,
    /// Times that it got a core.
    pub switches: u64,
}

/// A stage's work in the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageTime {
    /// Its name.
    pub name: String,
    /// Its context.
    pub context: String,
    /// What CPU accounting calls it.
    pub account: String,
    /// Whose time it is.
    pub mode: &'static str,
    /// Frames that it was done with.
    pub frames: u64,
    /// Polls.
    pub polls: u64,
    /// Cost of both, ns.
    pub cpu_ns: u64,
    /// By router, where several share the stage; polls are split as frames are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub routers: BTreeMap<String, u64>,
}
