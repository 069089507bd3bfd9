//! Values with names: frozen classes for Python, made of keyword arguments. Those of a policy are in
//! `policy_records.rs`.

use std::collections::BTreeMap;

use isolane_dataplane::{Histogram, accountant, generator, receiver};
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

pub(crate) use record;

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
        /// Scheduled, but not sent: over 1 ms late, or not before the end.
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
        /// In the window, arrived before they were sent: the clocks differ. Not among the delays.
        negative: u64,
        /// Longest one-way delay since departure in the window, ns.
        delay_max_ns: u64,
        /// Sum of these delays, ns.
        delay_sum_ns: u64,
        /// The same since the frames were due.
        due_max_ns: u64,
        due_sum_ns: u64,
    }
}

record! {
    /// A distribution of times, ns, within 1.6 %; no percentiles and maximum 0 when there are none.
    Percentiles {
        /// Without `lost`.
        count: u64,
        /// Frames that never arrived (or left): infinitely late, so that percentiles may be infinite.
        lost: u64,
        /// The median of those that are not lost.
        arrived_p50_ns: Option<f64>,
        p50_ns: Option<f64>,
        p90_ns: Option<f64>,
        p99_ns: Option<f64>,
        p999_ns: Option<f64>,
        p9999_ns: Option<f64>,
        /// Of those that are not lost; exact.
        max_ns: u64,
    }
}

record! {
    /// The generator's audit of itself.
    GeneratorReport {
        /// In the order of the streams.
        streams: Vec<StreamSent>,
        /// Actual minus scheduled departure of the frames of the window that were sent.
        departure: Percentiles,
        /// The same by stream; missed frames are `lost`.
        lateness: Vec<Percentiles>,
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
    /// What became of the HTTP requests of a window: offered = answered + failed.
    HttpReport {
        /// How long it was, ns.
        window_ns: u64,
        /// Requests whose intended time is in it.
        offered: u64,
        /// Of these with a status below 400.
        answered: u64,
        /// Of these without, by reason.
        failed: BTreeMap<String, u64>,
        /// Status codes of those that failed by one: how many.
        statuses: BTreeMap<u16, u64>,
        /// Answers with a status below 400 that were complete within the window.
        completed: u64,
        /// Bytes of their bodies.
        completed_bytes: u64,
        /// Connections for requests of the window.
        connections: u64,
        /// Requests sent again, since a kept connection was closed just then.
        retried: u64,
        max_in_flight: usize,
        /// From the intended time to the last byte; failed ones are `lost`.
        latency: Percentiles,
        /// Sum of the times of those that were answered, ns.
        latency_sum_ns: u64,
        /// From the call to the established connection.
        connect: Percentiles,
        /// From the intended time to the first call.
        late: Percentiles,
    }
}

record! {
    /// What one account used of one core in the window.
    CpuUse {
        softirq_ns: u64,
        /// Softirqs on top of threads left out.
        thread_ns: u64,
        /// Softirqs and interrupts on top of its threads.
        over_ns: u64,
        /// What the kernel itself says of its threads, `over_ns` included; idle has none.
        kernel_ns: u64,
        /// NAPI polls.
        polls: u64,
        /// Frames that they took.
        frames: u64,
    }
}

record! {
    /// Sums over the demultiplexer's polls in the window: of their time, of frames passed on and
    /// dropped, and of the products of these.
    PollSums {
        polls: u64,
        ns: u64,
        ns_ns: u64,
        passed: u64,
        dropped: u64,
        passed_passed: u64,
        passed_dropped: u64,
        dropped_dropped: u64,
        passed_ns: u64,
        dropped_ns: u64,
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

impl From<&Histogram> for Percentiles {
    fn from(times: &Histogram) -> Self {
        let at = |per_10000| match times.quantile_ns(per_10000) {
            None if times.is_lost(per_10000) => Some(f64::INFINITY),
            found => found.map(|ns| ns as f64),
        };
        Self {
            count: times.count(),
            lost: times.lost(),
            arrived_p50_ns: times.finite_quantile_ns(5_000).map(|ns| ns as f64),
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
            negative: count.negative,
            delay_max_ns: count.delay_max_ns,
            delay_sum_ns: count.delay_sum_ns,
            due_max_ns: count.due_max_ns,
            due_sum_ns: count.due_sum_ns,
        }
    }
}

impl From<&accountant::CpuUse> for CpuUse {
    fn from(used: &accountant::CpuUse) -> Self {
        Self {
            softirq_ns: used.softirq_ns,
            thread_ns: used.thread_ns,
            over_ns: used.over_ns,
            kernel_ns: used.kernel_ns,
            polls: used.polls,
            frames: used.frames,
        }
    }
}

impl From<accountant::PollSums> for PollSums {
    fn from(sums: accountant::PollSums) -> Self {
        Self {
            polls: sums.polls,
            ns: sums.ns,
            ns_ns: sums.ns_ns,
            passed: sums.passed,
            dropped: sums.dropped,
            passed_passed: sums.passed_passed,
            passed_dropped: sums.passed_dropped,
            dropped_dropped: sums.dropped_dropped,
            passed_ns: sums.passed_ns,
            dropped_ns: sums.dropped_ns,
        }
    }
}

/// Puts the classes of this file into the module.
pub(crate) fn add_all(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CpuUse>()?;
    module.add_class::<Feature>()?;
    module.add_class::<GeneratorReport>()?;
    module.add_class::<HttpReport>()?;
    module.add_class::<Interface>()?;
    module.add_class::<Percentiles>()?;
    module.add_class::<PollSums>()?;
    module.add_class::<Segment>()?;
    module.add_class::<Stalls>()?;
    module.add_class::<StreamReceived>()?;
    module.add_class::<StreamSent>()
}
