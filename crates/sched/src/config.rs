//! What a scheduler is made of, and what each flow is guaranteed.

use crate::{
    Prng, bits,
    error::{Error, Result, require},
    packet::MAX_PACKET_BYTES,
    token_bucket::MAX_BURST_BYTES,
};

/// Maximum number of flows.
pub const MAX_FLOWS: u32 = bits::CAPACITY;
/// The largest weight.
pub const MAX_WEIGHT: u32 = 1 << 20;
/// Number of priorities, as many as HTB has.
pub const PRIORITIES: u8 = 8;

/// A scheduler: how many flows, how long its queues are, which discipline.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of flows, 1 to [`MAX_FLOWS`].
    pub flows: u32,
    /// Packets that a flow's queue holds (with [`Kind::Fifo`]: that the one queue holds).
    pub queue_packets: u32,
    /// Packets that all queues hold together. Memory is reserved once, for up to twice as many.
    pub pool_packets: u32,
    /// The discipline.
    pub kind: Kind,
}

impl Config {
    /// Queues of 1,000 packets (Linux's default `txqueuelen`), together up to 2^20.
    #[must_use]
    pub fn new(flows: u32, kind: Kind) -> Self {
        let queue_packets = 1_000;
        let pool_packets = flows.saturating_mul(queue_packets).clamp(1, 1 << 20);
        Self { flows, queue_packets, pool_packets, kind }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Self { flows, queue_packets, pool_packets, .. } = *self;
        require((1..=MAX_FLOWS).contains(&flows), "flows", flows.into(), "1 to 262144")?;
        require(queue_packets > 0, "queue_packets", 0, "1 or more")?;
        require(
            (1..u32::MAX).contains(&pool_packets),
            "pool_packets",
            pool_packets.into(),
            "1 to 4294967294",
        )?;
        self.kind.check()
    }
}

/// The disciplines; each has its page in `docs/schedulers/`.
#[derive(Debug, Clone)]
pub enum Kind {
    /// One queue for all, first in first out, drop tail.
    Fifo,
    /// The old Xen netback: packet by packet, each flow up to `rate_max_bps` by a byte credit per
    /// period.
    Credit {
        /// How often credit is given, ns; Xen's default is 50 ms.
        period_ns: u64,
        /// Who is next.
        order: Order,
    },
    /// Packet by packet.
    RoundRobin,
    /// Algorithm 1 of Adamczyk and Chydzinski (2012): packets in proportion to `weight` /
    /// `mean_packet_bytes`.
    Wrr {
        /// How the scheduler knows when a transmission ends; `None`: it is asked only then.
        transmission: Option<Transmission>,
    },
    /// Deficit round robin (Shreedhar and Varghese 1996): bytes in proportion to `weight`.
    Drr {
        /// Bytes a flow of weight 1 may send per round. A decision is O(1) if no packet is longer.
        quantum_bytes: u32,
    },
    /// Weighted fair queueing by start-time tags (Goyal, Vin and Cheng 1996): bytes in proportion to
    /// `weight`.
    Wfq,
    /// The backlogged flows of the lowest `priority` number, packet by packet.
    StrictPriority,
    /// Minimum rates first, the rest by `priority` and then by `weight`, none above its maximum.
    Hierarchical {
        /// As in [`Kind::Drr`], for the rest.
        quantum_bytes: u32,
        /// What a flow may send at once on top of `rate_max_bps`, bytes.
        burst_bytes: u32,
    },
}

impl Kind {
    /// The word for it in files and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Credit { order: Order::InTurn, .. } => "credit",
            Self::Credit { order: Order::Random(_), .. } => "credit-random",
            Self::RoundRobin => "round-robin",
            Self::Wrr { .. } => "wrr",
            Self::Drr { .. } => "drr",
            Self::Wfq => "wfq",
            Self::StrictPriority => "strict-priority",
            Self::Hierarchical { .. } => "hierarchical",
        }
    }

    /// The discipline with this name and default settings: a quantum of 1,518 bytes, bursts of ten
    /// such frames, credit each 50 ms, no look at the end of transmissions. The order of
    /// `credit-random` is the same each time.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let quantum_bytes = 1_518;
        Some(match name {
            "fifo" => Self::Fifo,
            "credit" => Self::Credit { period_ns: 50_000_000, order: Order::InTurn },
            "credit-random" => {
                let order = Order::Random(Prng::new(1, name));
                Self::Credit { period_ns: 50_000_000, order }
            }
            "round-robin" => Self::RoundRobin,
            "wrr" => Self::Wrr { transmission: None },
            "drr" => Self::Drr { quantum_bytes },
            "wfq" => Self::Wfq,
            "strict-priority" => Self::StrictPriority,
            "hierarchical" => Self::Hierarchical { quantum_bytes, burst_bytes: 10 * quantum_bytes },
            _ => return None,
        })
    }

    fn check(&self) -> Result<()> {
        match *self {
            Self::Credit { period_ns, .. } => {
                let max_ns = 1_000_000_000;
                let possible = (1..=max_ns).contains(&period_ns);
                require(possible, "period_ns", period_ns, "1 to 1000000000 ns")
            }
            Self::Wrr { transmission: Some(Transmission { rate_bps: 0, .. }) } => {
                require(false, "rate_bps", 0, "1 or more")
            }
            Self::Drr { quantum_bytes } => check_quantum(quantum_bytes),
            Self::Hierarchical { quantum_bytes, burst_bytes } => {
                check_quantum(quantum_bytes)?;
                let possible = (1..=MAX_BURST_BYTES).contains(&burst_bytes.into());
                require(possible, "burst_bytes", burst_bytes.into(), "1 to 536870912 bytes")
            }
            _ => Ok(()),
        }
    }

    /// Whether this discipline looks at the setting.
    fn uses(&self, key: &str) -> bool {
        match self {
            Self::Fifo | Self::RoundRobin => false,
            Self::Credit { .. } => key == "rate_max_bps",
            Self::Wrr { .. } => matches!(key, "weight" | "mean_packet_bytes"),
            Self::Drr { .. } | Self::Wfq => key == "weight",
            Self::StrictPriority => key == "priority",
            Self::Hierarchical { .. } => key != "mean_packet_bytes",
        }
    }
}

fn check_quantum(bytes: u32) -> Result<()> {
    let possible = (1..=MAX_PACKET_BYTES).contains(&bytes);
    require(possible, "quantum_bytes", bytes.into(), "1 to 1048576 bytes")
}

/// In which order [`Kind::Credit`] serves flows that have credit.
#[derive(Debug, Clone)]
pub enum Order {
    /// In turn.
    InTurn,
    /// Any of them, each as likely as the others.
    Random(Prng),
}

/// What [`Kind::Wrr`] computes the end of a transmission from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmission {
    /// The link's rate, bit/s.
    pub rate_bps: u64,
    /// What each packet takes on the wire besides its length, bytes (Ethernet: preamble, gap and,
    /// where lengths are without it, checksum: 24).
    pub overhead_bytes: u32,
}

/// Whether somebody looks at the output before a packet is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackPressure {
    /// Without room nothing is scheduled; packets wait in their queues.
    On,
    /// Packets are scheduled whether there is room or not, and lost if not, as in the unmodified
    /// netback (Adamczyk and Chydzinski 2012, section V.2).
    Off,
}

/// What a flow is guaranteed. A discipline refuses settings that it does not use, unless they
/// are at their default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSettings {
    /// Share of bytes relative to other flows, 1 to [`MAX_WEIGHT`]; default 1. Adamczyk and
    /// Chydzinski call it priority.
    pub weight: u32,
    /// 0 goes first, up to [`PRIORITIES`] - 1; default 0.
    pub priority: u8,
    /// Rate that is met first, bit/s; default 0, none.
    pub rate_min_bps: u64,
    /// Rate that is not exceeded, bit/s; default none.
    pub rate_max_bps: Option<u64>,
    /// Mean length of the flow's packets, bytes, 1 to [`MAX_PACKET_BYTES`]; default 1500.
    pub mean_packet_bytes: u32,
    /// What it may send at once on top of `rate_max_bps`, bytes; default: what its scheduler lets all.
    pub burst_bytes: Option<u32>,
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self {
            weight: 1,
            priority: 0,
            rate_min_bps: 0,
            rate_max_bps: None,
            mean_packet_bytes: 1_500,
            burst_bytes: None,
        }
    }
}

impl FlowSettings {
    pub(crate) fn check(&self, kind: &Kind) -> Result<()> {
        let Self { weight, priority, rate_min_bps, rate_max_bps, mean_packet_bytes, burst_bytes } =
            *self;
        require((1..=MAX_WEIGHT).contains(&weight), "weight", weight.into(), "1 to 1048576")?;
        require(priority < PRIORITIES, "priority", priority.into(), "0 to 7")?;
        require(
            (1..=MAX_PACKET_BYTES).contains(&mean_packet_bytes),
            "mean_packet_bytes",
            mean_packet_bytes.into(),
            "1 to 1048576 bytes",
        )?;
        let max_bps = rate_max_bps.unwrap_or(u64::MAX);
        require(rate_min_bps <= max_bps, "rate_min_bps", rate_min_bps, "at most rate_max_bps")?;
        if let Some(burst) = burst_bytes {
            let possible = (1..=MAX_BURST_BYTES).contains(&burst.into());
            require(possible, "burst_bytes", burst.into(), "1 to 536870912 bytes")?;
        }
        let default = Self::default();
        for (key, at_default) in [
            ("weight", weight == default.weight),
            ("priority", priority == default.priority),
            ("rate_min_bps", rate_min_bps == default.rate_min_bps),
            ("rate_max_bps", rate_max_bps == default.rate_max_bps),
            ("mean_packet_bytes", mean_packet_bytes == default.mean_packet_bytes),
            ("burst_bytes", burst_bytes == default.burst_bytes),
        ] {
            if !at_default && !kind.uses(key) {
                return Err(Error::NotUsed { key, scheduler: kind.name() });
            }
        }
        Ok(())
    }
}
