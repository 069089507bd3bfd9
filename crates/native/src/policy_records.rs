//! Values of a policy with names: settings and counts of queues, ports and budgets, programs found.

use isolane_dataplane::plane;
use pyo3::{prelude::*, types::PyDict};

use crate::records::record;

record! {
    /// A token bucket: tokens are frames, or bits on the wire.
    TokenBucket {
        /// Tokens a second; 0: no limit.
        rate: u64,
        /// Most tokens at a time.
        depth: u64,
    }
}

record! {
    /// A ceiling.
    RateLimits {
        frames: TokenBucket,
        /// On the wire.
        bits: TokenBucket,
    }
}

record! {
    /// How a router's queue is to work.
    QueueSettings {
        /// Frames that may wait while it overflows.
        limit: u32,
        /// Frames that may wait when it has not overflowed lately.
        burst_limit: u32,
        /// Forward by XDP what needs nothing of the kernel.
        xdp: bool,
        /// A program at its end counts what leaves.
        counted: bool,
        /// Number of the router's budget of CPU time; None: no cap.
        budget: Option<u32>,
        ingress: RateLimits,
    }
}

record! {
    /// What has happened to a router's queue, frames.
    QueueCounts {
        /// Waiting now; 0 where nobody counts what leaves.
        waiting: u32,
        offered: u64,
        /// With the frame check sequence.
        offered_bytes: u64,
        /// The queue was full.
        dropped_queue: u64,
        /// Above `rate_max`.
        dropped_rate: u64,
        /// Above `cpu_max`.
        dropped_cpu: u64,
        /// Longer than the router's interface takes.
        dropped_size: u64,
        /// The router had had its share of the core, and another had frames waiting.
        dropped_share: u64,
        /// Taken by the router.
        served: u64,
        /// Of these, forwarded by XDP.
        forwarded: u64,
        /// With the frame check sequence.
        forwarded_bytes: u64,
        /// The NIC's driver had no place for their number: no part of the queue. Wraps.
        untagged: u32,
    }
}

record! {
    /// How the host's side of a router's interface is to work.
    PortSettings {
        /// Interface to send to; 0: the host's bridge or routes decide.
        uplink: u32,
        /// Class of the uplink's qdisc; 0: none.
        class_id: u32,
        egress: RateLimits,
    }
}

record! {
    /// What has happened at the host's side of a router's interface, frames.
    PortCounts {
        offered: u64,
        /// With the frame check sequence.
        offered_bytes: u64,
        /// Above `rate_max`.
        dropped_rate: u64,
        /// Longer than the uplink takes.
        dropped_size: u64,
    }
}

record! {
    /// A router's budget of CPU time.
    CpuBudget {
        /// CPU time a second, ns; 0: no cap.
        rate_ns: u64,
        /// Most that can be saved up, ns.
        depth_ns: u64,
        /// Of the router on the NIC's core, on which it pays for what its frames cost the NIC's
        /// thread; 0: it does not.
        weight: u32,
    }
}

record! {
    /// A program that is attached to an interface.
    AttachedProgram {
        /// The kernel's number of it.
        id: u32,
        name: String,
        /// `isolane`, `former` (an earlier version of Isolane) or `other`.
        owner: String,
        /// The kernel's number of its table of queues or ports.
        table_id: Option<u32>,
        /// The kernel's numbers of all its maps.
        map_ids: Vec<u32>,
    }
}

record! {
    /// The kernel's numbers of the tables of queues and of ports: what tells planes apart.
    TableIds {
        queues: u32,
        ports: u32,
    }
}

impl From<&TokenBucket> for plane::TokenBucket {
    fn from(bucket: &TokenBucket) -> Self {
        Self { rate: bucket.rate, depth: bucket.depth }
    }
}

impl From<plane::TokenBucket> for TokenBucket {
    fn from(bucket: plane::TokenBucket) -> Self {
        Self { rate: bucket.rate, depth: bucket.depth }
    }
}

impl From<&RateLimits> for plane::RateLimits {
    fn from(limits: &RateLimits) -> Self {
        Self { frames: (&limits.frames).into(), bits: (&limits.bits).into() }
    }
}

impl From<plane::RateLimits> for RateLimits {
    fn from(limits: plane::RateLimits) -> Self {
        Self { frames: limits.frames.into(), bits: limits.bits.into() }
    }
}

impl From<&QueueSettings> for plane::QueueSettings {
    fn from(settings: &QueueSettings) -> Self {
        Self {
            limit: settings.limit,
            burst_limit: settings.burst_limit,
            xdp: settings.xdp,
            counted: settings.counted,
            budget: settings.budget,
            ingress: (&settings.ingress).into(),
        }
    }
}

impl From<plane::QueueSettings> for QueueSettings {
    fn from(settings: plane::QueueSettings) -> Self {
        Self {
            limit: settings.limit,
            burst_limit: settings.burst_limit,
            xdp: settings.xdp,
            counted: settings.counted,
            budget: settings.budget,
            ingress: settings.ingress.into(),
        }
    }
}

impl From<plane::QueueCounts> for QueueCounts {
    fn from(counts: plane::QueueCounts) -> Self {
        Self {
            waiting: counts.waiting,
            offered: counts.offered,
            offered_bytes: counts.offered_bytes,
            dropped_queue: counts.dropped_queue,
            dropped_rate: counts.dropped_rate,
            dropped_cpu: counts.dropped_cpu,
            dropped_size: counts.dropped_size,
            dropped_share: counts.dropped_share,
            served: counts.served,
            forwarded: counts.forwarded,
            forwarded_bytes: counts.forwarded_bytes,
            untagged: counts.untagged,
        }
    }
}

impl From<&PortSettings> for plane::PortSettings {
    fn from(settings: &PortSettings) -> Self {
        Self {
            uplink: settings.uplink,
            class: settings.class_id,
            egress: (&settings.egress).into(),
        }
    }
}

impl From<plane::PortSettings> for PortSettings {
    fn from(settings: plane::PortSettings) -> Self {
        Self { uplink: settings.uplink, class_id: settings.class, egress: settings.egress.into() }
    }
}

impl From<plane::PortCounts> for PortCounts {
    fn from(counts: plane::PortCounts) -> Self {
        Self {
            offered: counts.offered,
            offered_bytes: counts.offered_bytes,
            dropped_rate: counts.dropped_rate,
            dropped_size: counts.dropped_size,
        }
    }
}

/// Puts the classes of this file into the module.
pub(crate) fn add_all(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AttachedProgram>()?;
    module.add_class::<CpuBudget>()?;
    module.add_class::<PortCounts>()?;
    module.add_class::<PortSettings>()?;
    module.add_class::<QueueCounts>()?;
    module.add_class::<QueueSettings>()?;
    module.add_class::<RateLimits>()?;
    module.add_class::<TableIds>()?;
    module.add_class::<TokenBucket>()
}
