//! Traffic, other load, and changes in time.

use serde::Deserialize;

use super::net::Settings;

/// A stream of frames to or from a router.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Its name.
    pub name: String,
    /// The router whose path it takes.
    pub router: String,
    /// Frame sizes, bytes with checksum.
    pub frame_bytes: FrameBytes,
    /// How frames follow each other.
    pub pattern: Pattern,
    /// When it starts, ns.
    #[serde(default)]
    pub start_ns: u64,
    /// When it stops, ns; default: never.
    #[serde(default)]
    pub stop_ns: Option<u64>,
}

/// Sizes of a stream's frames.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum FrameBytes {
    /// All the same.
    Fixed(u16),
    /// Each as likely as the others; a size may stand there several times.
    Of(Vec<u16>),
}

/// How frames follow each other. From outside frames come over the wire of the path's first ring,
/// which sends one after the other; a sender is a process in the context of the path's first stage.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Constant bit rate; the phase is drawn.
    Cbr {
        /// Frames per second.
        rate_pps: f64,
    },
    /// A Poisson process.
    Poisson {
        /// Frames per second in the mean.
        rate_pps: f64,
    },
    /// Bursts of frames back to back, a Poisson process of bursts.
    Bursts {
        /// Frames per second in the mean.
        rate_pps: f64,
        /// Frames per burst.
        burst_frames: u32,
    },
    /// Equal gaps within bursts, which come at equal intervals, the first at the start.
    OnOff {
        /// Frames per second in the mean.
        rate_pps: f64,
        /// How long a burst lasts, ns.
        on_ns: u64,
        /// From the beginning of a burst to that of the next, ns.
        period_ns: u64,
    },
    /// A rate that grows from 0 at the start, and on and on.
    Ramp {
        /// Frames per second at `mid_ns`.
        rate_pps: f64,
        /// When it has grown to that, ns after the start.
        mid_ns: u64,
    },
    /// A process like iperf: sends while its socket buffer and the queue before it have room, and
    /// blocks when not.
    Sender {
        /// Processes of this kind, each with a socket buffer of its own.
        #[serde(default = "one")]
        connections: u32,
        /// Frames that the socket buffer of a connection holds.
        window_frames: u32,
        /// Frames per second that each connection aims at; none: as many as possible.
        #[serde(default)]
        rate_pps: Option<f64>,
        /// How far behind its schedule a connection may be and still catch up, ns.
        #[serde(default)]
        catch_up_ns: u64,
        /// When a frame leaves the socket buffer.
        #[serde(default)]
        release: Release,
    },
    /// Requests: frames that go through the router several times, outside of the model in between, as the
    /// segments of a web request's connections do. One counts as received when it has come out for the last
    /// time, and its delay is from when it was due.
    Requests {
        /// When they begin.
        begin: Begin,
        /// One after the other; the first one has the entry's `frame_bytes`.
        turns: Vec<Turn>,
        /// A frame that is lost comes again so long afterwards, ns; default 200 ms, as of TCP.
        #[serde(default = "retransmission")]
        again_ns: u64,
    },
}

fn retransmission() -> u64 {
    200_000_000
}

/// When requests begin.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "when", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Begin {
    /// At a constant rate, whatever became of those before; the phase is drawn.
    Cbr {
        /// Requests per second.
        rate_pps: f64,
    },
    /// As a Poisson process.
    Poisson {
        /// Requests per second in the mean.
        rate_pps: f64,
    },
    /// So many are always under way: each is followed by the next as soon as it is answered.
    Closed {
        /// Their number.
        requests: u32,
    },
    /// One whenever a request of another entry is answered.
    After {
        /// Name of the other entry.
        traffic: String,
    },
}

/// One of the times that a request goes through a router.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The router whose path it takes, from a ring to a port.
    pub router: String,
    /// Size of the frame, bytes with checksum.
    pub frame_bytes: u16,
    /// How long it is outside before it comes in, ns; of the first turn: unless the wire brings it when it is due.
    #[serde(default)]
    pub outside_ns: u64,
    /// How long it keeps those busy before who are outside, ns: all requests of a model have one after the other.
    #[serde(default)]
    pub busy_ns: u64,
}

fn one() -> u32 {
    1
}

/// When a frame leaves its sender's socket buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// When it has been sent on the wire, or dropped (buffers are lent to the back-end).
    #[default]
    Sent,
    /// When the stage behind the first has taken it out of its queue (buffers are copied).
    Taken,
}

/// Load besides the traffic.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name, also its CPU account.
    pub name: String,
    /// The context that does it.
    pub context: String,
    /// What.
    pub load: LoadKind,
    /// When it starts, ns.
    #[serde(default)]
    pub start_ns: u64,
    /// When it stops, ns; default: never.
    #[serde(default)]
    pub stop_ns: Option<u64>,
}

/// Kinds of load.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadKind {
    /// Computes without end.
    Cpu,
    /// Work that comes again and again: runs, and sleeps for a time that is drawn (exponential).
    Periodic {
        /// CPU time each, ns.
        cpu_ns: f64,
        /// Mean time between, ns.
        idle_ns: u64,
    },
    /// Disk requests that this context serves: each takes CPU time, then the disk's time, and
    /// comes again.
    Disk {
        /// Requests at a time.
        #[serde(default = "one")]
        depth: u32,
        /// CPU time of a request, ns.
        cpu_ns: f64,
        /// Mean time the disk takes, ns; drawn (exponential).
        disk_ns: u64,
        /// Of 1,000 requests, how many block the whole context while the disk is at work.
        #[serde(default)]
        blocking_permille: u32,
    },
}

/// A setting that changes.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "set", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// What a flow of a packet scheduler is guaranteed.
    Flow {
        /// When, ns.
        at_ns: u64,
        /// The port or the stage whose queue has the scheduler.
        at: String,
        /// The new settings; what is not given goes back to its default.
        settings: Settings,
    },
    /// A cgroup's shares.
    Shares {
        /// When, ns.
        at_ns: u64,
        /// The group.
        group: String,
        /// The new shares.
        shares: u32,
    },
    /// A vCPU's weight and cap under the credit scheduler.
    Vcpu {
        /// When, ns.
        at_ns: u64,
        /// The context.
        context: String,
        /// The new weight.
        weight: u32,
        /// The new cap, percent of a core; 0: none.
        #[serde(default)]
        cap_pct: u32,
    },
    /// The rate of a traffic entry (not of senders without one).
    Rate {
        /// When, ns.
        at_ns: u64,
        /// The traffic entry.
        traffic: String,
        /// Frames per second.
        rate_pps: f64,
    },
}

impl Change {
    /// When it takes effect, ns.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Flow { at_ns, .. }
            | Self::Shares { at_ns, .. }
            | Self::Vcpu { at_ns, .. }
            | Self::Rate { at_ns, .. } => *at_ns,
        }
    }
}
