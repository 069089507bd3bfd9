//! Values with names: frozen classes for Python, made of keyword arguments.

use isolane_dataplane::{Histogram, accountant, generator, plane, receiver};
use pyo3::{prelude::*, types::PyDict};

/// Defines a frozen Python class: keyword-only constructor, attributes, equality, `as_dict()`.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, get_all, eq, from_py_object)]
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name { $($(#[$about])* pub(crate) $field: $type,)* }

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (*, $($field),*))]
            #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
            fn new($($field: $type),*) -> Self {
                Self { $($field),* }
            }

            fn __repr__(&self) -> String {
                format!("{self:?}")
            }

            /// The attributes by name, for JSON.
            fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let dict = PyDict::new(py);
                $(dict.set_item(stringify!($field), self.$field.clone())?;)*
                Ok(dict)
            }
        }
    };
}

record! {
    /// A stretch of a stream's schedule; the rate goes linearly from its start to its end.
    Segment {
        /// How long, ns.
        duration_ns: u64,
        /// Rate at the start, thousandths of a frame a second.
        start_rate_millipps: u64,
        /// Rate at the end, thousandths of a frame a second.
        end_rate_millipps: u64,
    }
}

record! {
    /// An interface, by its index in a namespace (the namespace's file; None: the caller's).
    Interface {
        netns: Option<String>,
        ifindex: u32,
    }
}

record! {
    /// What the generator sent of a stream, frames: in all, and those scheduled in the window.
    StreamSent {
        sent: u64,
        sent_window: u64,
        /// With the frame check sequence.
        sent_window_bytes: u64,
        /// Scheduled, but not sent before the end.
        missed: u64,
        missed_window: u64,
    }
}

record! {
    /// What has arrived of a stream, frames: in all, and those scheduled in the window.
    StreamReceived {
        received: u64,
        received_window: u64,
        /// With the frame check sequence.
        received_window_bytes: u64,
        /// RFC 4737.
        reordered: u64,
        /// Had arrived before.
        duplicated: u64,
        /// Of flows beyond the table: not checked for order.
        untracked: u64,
        /// Longest one-way delay in the window, ns.
        delay_max_ns: u64,
        /// Sum of the one-way delays in the window, ns.
        delay_sum_ns: u64,
    }
}

record! {
    /// A distribution of times, ns, within 1.6 %; no percentiles and maximum 0 when there are none.
    Percentiles {
        count: u64,
        p50_ns: Option<f64>,
        p90_ns: Option<f64>,
        p99_ns: Option<f64>,
        p999_ns: Option<f64>,
        p9999_ns: Option<f64>,
        /// Exact.
        max_ns: u64,
    }
}

record! {
    /// The generator's audit of itself.
    GeneratorReport {
        /// In the order of the streams.
        streams: Vec<StreamSent>,
        /// Actual minus scheduled departure of the frames in the window.
        departure: Percentiles,
        /// Of the program, in the window.
        iterations: u64,
        /// Those of them that sent a frame.
        iterations_sent: u64,
        /// Frames that could not be built.
        failed: u64,
        /// Kernel calls that the trial took: more than one means gaps.
        calls: u64,
    }
}

record! {
    /// What one account used of one core in the window.
    CpuUse {
        softirq_ns: u64,
        /// Softirqs on top of threads left out.
        thread_ns: u64,
        /// NAPI polls.
        polls: u64,
        /// Frames that they took.
        frames: u64,
    }
}

record! {
    /// Whether a program of bpf/ works on this kernel, and why not.
    Feature {
        program: String,
        works: bool,
        reason: String,
    }
}

record! {
    /// How long a core was taken away from a thread that wanted it all.
    Stalls {
        gaps: Percentiles,
        /// Sum of the gaps, ns.
        lost_ns: u64,
    }
}

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
        /// Taken by the router.
        served: u64,
        /// Of these, forwarded by XDP.
        forwarded: u64,
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
            served: counts.served,
            forwarded: counts.forwarded,
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

impl From<&Histogram> for Percentiles {
    fn from(times: &Histogram) -> Self {
        let at = |per_10000| times.quantile_ns(per_10000).map(|ns| ns as f64);
        Self {
            count: times.count(),
            p50_ns: at(5_000),
            p90_ns: at(9_000),
            p99_ns: at(9_900),
            p999_ns: at(9_990),
            p9999_ns: at(9_999),
            max_ns: times.max_ns().unwrap_or(0),
        }
    }
}

impl From<&generator::StreamReport> for StreamSent {
    fn from(stream: &generator::StreamReport) -> Self {
        Self {
            sent: stream.sent,
            sent_window: stream.sent_window,
            sent_window_bytes: stream.sent_window_bytes,
            missed: stream.missed,
            missed_window: stream.missed_window,
        }
    }
}

impl From<&receiver::StreamCount> for StreamReceived {
    fn from(count: &receiver::StreamCount) -> Self {
        Self {
            received: count.received,
            received_window: count.received_window,
            received_window_bytes: count.received_window_bytes,
            reordered: count.reordered,
            duplicated: count.duplicated,
            untracked: count.untracked,
            delay_max_ns: count.delay_max_ns,
            delay_sum_ns: count.delay_sum_ns,
        }
    }
}

impl From<&accountant::CpuUse> for CpuUse {
    fn from(used: &accountant::CpuUse) -> Self {
        Self {
            softirq_ns: used.softirq_ns,
            thread_ns: used.thread_ns,
            polls: used.polls,
            frames: used.frames,
        }
    }
}

/// Puts the classes of this file into the module.
pub(crate) fn add_all(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AttachedProgram>()?;
    module.add_class::<CpuBudget>()?;
    module.add_class::<CpuUse>()?;
    module.add_class::<Feature>()?;
    module.add_class::<GeneratorReport>()?;
    module.add_class::<Interface>()?;
    module.add_class::<Percentiles>()?;
    module.add_class::<PortCounts>()?;
    module.add_class::<PortSettings>()?;
    module.add_class::<QueueCounts>()?;
    module.add_class::<QueueSettings>()?;
    module.add_class::<RateLimits>()?;
    module.add_class::<Segment>()?;
    module.add_class::<Stalls>()?;
    module.add_class::<StreamReceived>()?;
    module.add_class::<StreamSent>()?;
    module.add_class::<TableIds>()?;
    module.add_class::<TokenBucket>()
}
