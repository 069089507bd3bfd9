//! NICs, ports, queues, stages, and the paths through them.

use serde::Deserialize;

use super::cpu::Mode;

/// A NIC's receive side: one wire, one or more rings behind a hardware switch that sorts by router.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Line rate, bit/s.
    pub rate_bps: u64,
    /// What each frame takes on the wire besides its size, bytes: preamble and gap, 20.
    #[serde(default = "default_overhead")]
    pub overhead_bytes: u32,
    /// From the last bit on the wire until the frame is in the ring (switch, DMA), ns.
    #[serde(default)]
    pub latency_ns: u64,
    /// The rings: one for all, or one for each VF.
    pub rings: Vec<Ring>,
}

pub(crate) fn default_overhead() -> u32 {
    20
}

fn default_refill() -> u32 {
    1
}

/// A receive ring; raises an interrupt when armed and not empty, or is polled by a timer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// Its name, also that of its drop point.
    pub name: String,
    /// Descriptors.
    pub capacity: u32,
    /// Drivers give descriptors back so many at a time; default 1.
    #[serde(default = "default_refill")]
    pub refill: u32,
    /// Minimum time between two interrupts, ns.
    #[serde(default)]
    pub moderation_ns: u64,
    /// Whether a timer takes the place of interrupts: it ends so long after each poll that has emptied the
    /// ring, whether frames came or not (`napi_defer_hard_irqs` with `gro_flush_timeout`).
    #[serde(default)]
    pub timer: bool,
    /// Cost of an interrupt, ns: on the core of the context that serves the ring.
    pub irq_ns: Option<f64>,
}

/// Where frames leave: a queue, or a packet scheduler, and a wire.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name, also that of its drop point.
    pub name: String,
    /// Line rate, bit/s.
    pub rate_bps: u64,
    /// As in [`Nic`].
    #[serde(default = "default_overhead")]
    pub overhead_bytes: u32,
    /// Frames that wait or are being sent; with a scheduler: per flow of it.
    pub capacity: u32,
    /// Who is next; none: first in, first out.
    #[serde(default)]
    pub scheduler: Option<PacketScheduler>,
    /// From the last bit on the wire until it is counted as received, ns.
    #[serde(default)]
    pub latency_ns: u64,
    /// What routers must keep to get in here; others need room only.
    #[serde(default)]
    pub admission: Vec<Admission>,
}

/// A packet scheduler of `crates/sched`. Keys that its kind does not use are refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketScheduler {
    /// Which.
    pub kind: SchedulerKind,
    /// What makes a flow of it.
    #[serde(default)]
    pub flows: SortBy,
    /// What flows are guaranteed, by name of the router or the traffic; others have defaults.
    #[serde(default)]
    pub settings: Vec<Settings>,
    /// Frames that all its queues hold together; default: what they hold each, summed.
    #[serde(default)]
    pub pool_packets: Option<u32>,
    /// `credit`: how often credit is given, ns; default 50 ms.
    #[serde(default)]
    pub period_ns: Option<u64>,
    /// `credit`: whether who is next is drawn by lot, instead of in turn; default no.
    #[serde(default)]
    pub random: Option<bool>,
    /// `wrr`: rate of the output, bit/s, from which it knows when a transmission ends; default: it
    /// does not wait for that.
    #[serde(default)]
    pub transmission_bps: Option<u64>,
    /// `wrr`: what each frame takes on that wire besides its size, bytes; default 20.
    #[serde(default)]
    pub transmission_overhead_bytes: Option<u32>,
    /// `drr` and `hierarchical`: bytes per round at weight 1; default 1,518.
    #[serde(default)]
    pub quantum_bytes: Option<u32>,
    /// `hierarchical`: bytes at once on top of the maximum rate; default 15,180.
    #[serde(default)]
    pub burst_bytes: Option<u32>,
    /// What each frame counts for besides its size, bytes; default 0 (20: preamble and gap).
    #[serde(default)]
    pub overhead_bytes: u32,
}

/// What a scheduler tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SortBy {
    /// A flow for each router.
    #[default]
    Router,
    /// A flow for each entry of the traffic.
    Traffic,
}

/// The disciplines; see `docs/schedulers/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// First in, first out.
    Fifo,
    /// The old Xen netback's.
    Credit,
    /// Packet by packet.
    RoundRobin,
    /// Weighted round robin (Adamczyk and Chydzinski 2012).
    Wrr,
    /// Deficit round robin.
    Drr,
    /// Weighted fair queueing.
    Wfq,
    /// Strict priority.
    StrictPriority,
    /// Minimum rates, priorities, weights, maximum rates.
    Hierarchical,
}

/// What a flow of a packet scheduler is guaranteed; as `isolane_sched::FlowSettings`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The router's or the traffic's name.
    pub flow: String,
    /// Share of bytes relative to others; default 1.
    #[serde(default)]
    pub weight: Option<u32>,
    /// 0 goes first.
    #[serde(default)]
    pub priority: Option<u8>,
    /// Met first, bit/s.
    #[serde(default)]
    pub rate_min_bps: Option<u64>,
    /// Not exceeded, bit/s.
    #[serde(default)]
    pub rate_max_bps: Option<u64>,
    /// For WRR, bytes.
    #[serde(default)]
    pub mean_packet_bytes: Option<u32>,
    /// `hierarchical`: bytes at once on top of the maximum rate; default: the scheduler's.
    #[serde(default)]
    pub burst_bytes: Option<u32>,
}

/// Work on frames. A stage with a ring or a queue is served by its context, a poll at a time; one
/// without goes on at once where the stage before it left off, in the same context.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// The context it runs in.
    pub context: String,
    /// Cost per frame, ns.
    pub frame_ns: Option<f64>,
    /// Cost per byte, ns; default 0.
    #[serde(default)]
    pub byte_ns: f64,
    /// Cost per poll, ns, whatever number of frames it takes; only with a ring or a queue.
    #[serde(default)]
    pub poll_ns: f64,
    /// Cost of a frame, on top, when the context worked for another router before (cold caches), ns.
    #[serde(default)]
    pub cold_ns: f64,
    /// With it, the stage looks for room in the queue behind it before it works on a frame; one that
    /// there is none for costs this instead, ns, and is dropped.
    #[serde(default)]
    pub drop_ns: Option<f64>,
    /// Maximum number of frames a poll takes; default: the softirq's weight.
    #[serde(default)]
    pub batch: Option<u32>,
    /// What CPU accounting calls it (`driver`, `net`, `memory`, ...); default its name.
    #[serde(default)]
    pub account: Option<String>,
    /// Whose time it is; default that of the context's kind.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// The receive ring it serves.
    #[serde(default)]
    pub ring: Option<String>,
    /// The queue before it.
    #[serde(default)]
    pub queue: Option<Queue>,
    /// Whether time stamps are taken when frames leave it: its delays are in the results.
    #[serde(default)]
    pub capture: bool,
}

/// A queue of frames that wait for a stage; its drop point is `<stage>.queue`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Frames; with a scheduler: per flow of it.
    pub capacity: u32,
    /// A backlog that this queue is part of, together with others of its context that name it, as the
    /// kernel's of each core: all frames are served in the order in which they came, by polls that take
    /// all over that has come, and `capacity` is what may come meanwhile. Without scheduler, admission
    /// and back-pressure.
    #[serde(default)]
    pub shared: Option<String>,
    /// Who is next; none: first in, first out.
    #[serde(default)]
    pub scheduler: Option<PacketScheduler>,
    /// Whether the stage looks for room behind it before it takes a frame.
    #[serde(default)]
    pub back_pressure: BackPressure,
    /// What it costs the context that puts a frame here to wake the one that serves it, ns.
    #[serde(default)]
    pub notify_ns: f64,
    /// What routers must keep to get in here; others need room only. Every stage before the queue needs
    /// `drop_ns`.
    #[serde(default)]
    pub admission: Vec<Admission>,
}

/// What a router's frames must keep to get into a queue, besides the queue's own room.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// The router.
    pub router: String,
    /// Frames that may wait; default: what the queue holds.
    #[serde(default)]
    pub capacity: Option<u32>,
    /// Frames that may wait unless the queue refuses more than one for eight that it takes; default:
    /// `capacity`.
    #[serde(default)]
    pub burst: Option<u32>,
    /// Maximum frames per second, on average.
    #[serde(default)]
    pub rate_pps: Option<u64>,
    /// With `rate_pps`: frames at once.
    #[serde(default)]
    pub burst_frames: Option<u32>,
    /// Maximum bit/s, on average; frames count with their 20 bytes of preamble and gap.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// With `rate_bps`: bytes at once.
    #[serde(default)]
    pub burst_bytes: Option<u32>,
    /// Whose CPU time is to stay within `cpu_pct`.
    #[serde(default)]
    pub context: Option<String>,
    /// CPU time that the context may use on average, percent of a core; frames are refused above it.
    #[serde(default)]
    pub cpu_pct: Option<f64>,
    /// With `cpu_pct`: CPU time at once, ns; default: 10 ms of it.
    #[serde(default)]
    pub cpu_burst_ns: Option<u64>,
}

/// Whether a stage looks for room behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackPressure {
    /// Without room it takes nothing.
    On,
    /// It takes all the same; what finds no room is dropped there.
    #[default]
    Off,
}

/// A virtual router: how its frames go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Its name.
    pub name: String,
    /// Names of rings, stages and ports in the order in which frames pass them. It begins with a
    /// ring, or with the stage that its senders feed, or is a single port. Stages with a ring follow
    /// that ring. A port ends it, or a ring follows, to which the port's wire leads.
    pub path: Vec<String>,
}
