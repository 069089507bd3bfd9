//! `isolane._native`: the packet path for Python. Nothing else knows Python.
//!
//! Specifications come in as dictionaries that the `run` package builds from validated models;
//! counts go out as dictionaries of integers. Errors are `isolane._native.NativeError`.

#![expect(clippy::doc_markdown, reason = "these comments are Python's docstrings")]
#![expect(clippy::needless_pass_by_value, reason = "Python hands values over")]
#![expect(clippy::similar_names, reason = "sport and dport are the field's words")]

mod plane;

mod sim;

use std::{
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use isolane_dataplane::{
    Error,
    generator::{Generator as Engine, GeneratorSpec},
    histogram::Histogram,
    meter::{FIRST_OWN, FIXED, Meter as MeterEngine},
    monotonic_ns as clock_ns, probe,
    receiver::{Receiver as ReceiverEngine, ReceiverSpec},
    silence_libbpf, stalls,
    stream::{Segment, StreamSpec, min_frame_bytes as min_bytes},
};
use pyo3::{
    create_exception,
    exceptions::{PyException, PyOSError},
    prelude::*,
    types::PyDict,
};

create_exception!(_native, NativeError, PyException, "The kernel or a setting stood in the way.");
create_exception!(
    _native,
    UnsupportedError,
    NativeError,
    "This kernel lacks a feature; the message names the program and the feature."
);

fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Load { .. } => UnsupportedError::new_err(text),
        // No setting and no lack of the kernel's, so nobody who handles those is to catch it.
        Error::Descriptors { .. } => PyOSError::new_err((libc::EMFILE, text)),
        _ => NativeError::new_err(text),
    }
}

/// `CLOCK_MONOTONIC` in ns, the clock of all windows here.
#[pyfunction]
fn monotonic_ns() -> u64 {
    clock_ns()
}

/// Shortest frame, bytes with the frame check sequence, that holds headers and signature.
#[pyfunction]
fn min_frame_bytes(destination: IpAddr) -> u16 {
    min_bytes(destination)
}

/// Spins on a core and tells how long it was taken away: (gaps longer than least_ns as
/// {count, p50_ns, ...}, their sum in ns).
#[pyfunction]
fn measure_stalls(
    py: Python<'_>,
    core: usize,
    duration_ns: u64,
    least_ns: u64,
) -> PyResult<(Bound<'_, PyDict>, u64)> {
    let (gaps, lost_ns) =
        py.detach(|| stalls::measure(core, duration_ns, least_ns)).map_err(raise)?;
    Ok((percentiles(py, &gaps)?, lost_ns))
}

/// What the kernel allows, tried out: list of (program, works, reason).
#[pyfunction]
#[pyo3(signature = (netns=None))]
fn probe_features(py: Python<'_>, netns: Option<PathBuf>) -> PyResult<Vec<probe::Finding>> {
    py.detach(|| probe::features(netns)).map_err(raise)
}

fn percentiles<'py>(py: Python<'py>, histogram: &Histogram) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", histogram.count())?;
    for (key, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)]
    {
        dict.set_item(format!("{key}_ns"), histogram.quantile_ns(q))?;
    }
    Ok(dict)
}

/// One stream; sizes with the frame check sequence, segments as (ns, mpps at start, mpps at end).
#[pyclass(frozen, from_py_object)]
#[derive(Clone)]
struct Stream(StreamSpec);

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (*, ifindex, src_mac, dst_mac, src_ip, src_count, dst_ip, first_sport,
                        first_dport, flows, sizes, segments))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    fn new(
        ifindex: u32,
        src_mac: &str,
        dst_mac: &str,
        src_ip: IpAddr,
        src_count: u16,
        dst_ip: IpAddr,
        first_sport: u16,
        first_dport: u16,
        flows: u32,
        sizes: Vec<u16>,
        segments: Vec<(u64, u64, u64)>,
    ) -> PyResult<Self> {
        Ok(Self(StreamSpec {
            ifindex,
            src_mac: parse_mac(src_mac)?,
            dst_mac: parse_mac(dst_mac)?,
            src: src_ip,
            src_count,
            dst: dst_ip,
            first_sport,
            first_dport,
            flows,
            sizes,
            segments: segments
                .into_iter()
                .map(|(duration_ns, rate0_mpps, rate1_mpps)| Segment {
                    duration_ns,
                    rate0_mpps,
                    rate1_mpps,
                })
                .collect(),
        }))
    }
}

fn parse_mac(text: &str) -> PyResult<[u8; 6]> {
    let bytes: Vec<u8> =
        text.split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes
        .try_into()
        .map_err(|_| NativeError::new_err(format!("{text} is not a MAC address such as 02:..:01")))
}

/// The traffic generator: load, start(start_ns), wait, stop, report.
#[pyclass(unsendable)]
struct Generator(Engine);

#[pymethods]
impl Generator {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    #[pyo3(signature = (*, netns, core, cookie, streams, window_ns, end_ns))]
    fn new(
        netns: Option<PathBuf>,
        core: usize,
        cookie: u16,
        streams: Vec<Stream>,
        window_ns: (u64, u64),
        end_ns: u64,
    ) -> PyResult<Self> {
        let streams = streams.into_iter().map(|stream| stream.0).collect();
        Engine::load(GeneratorSpec { netns, core, cookie, streams, window_ns, end_ns })
            .map(Self)
            .map_err(raise)
    }

    /// Starts sending; the schedule's zero is `start_ns` on `CLOCK_MONOTONIC`.
    fn start(&mut self, start_ns: u64) -> PyResult<()> {
        self.0.start(start_ns).map_err(raise)
    }

    /// Waits at most `timeout_s` for the end; true when finished. Signals are let through.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let (began, limit) = (Instant::now(), Duration::from_secs_f64(timeout_s));
        while !self.0.finished() {
            if began.elapsed() >= limit {
                return Ok(false);
            }
            py.check_signals()?;
            py.detach(|| std::thread::sleep(Duration::from_millis(2)));
        }
        Ok(true)
    }

    /// Ends the kernel's call; returns when the thread has ended.
    fn stop(&mut self) -> PyResult<()> {
        self.0.stop().map_err(raise)
    }

    /// The counts: {streams: [{sent, ...}], departure: {...}, ...}.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.0.report().map_err(raise)?;
        let mut streams = Vec::new();
        for stream in &report.streams {
            let dict = PyDict::new(py);
            dict.set_item("sent", stream.sent)?;
            dict.set_item("sent_window", stream.sent_window)?;
            dict.set_item("sent_window_bytes", stream.sent_window_bytes)?;
            dict.set_item("missed", stream.missed)?;
            dict.set_item("missed_window", stream.missed_window)?;
            streams.push(dict);
        }
        let departure = percentiles(py, &report.departure_error)?;
        departure.set_item("max_ns", report.departure_error_max_ns)?;
        let dict = PyDict::new(py);
        dict.set_item("streams", streams)?;
        dict.set_item("departure", departure)?;
        dict.set_item("iterations", report.iterations)?;
        dict.set_item("iterations_sent", report.iterations_sent)?;
        dict.set_item("failed", report.failed)?;
        dict.set_item("calls", report.calls)?;
        Ok(dict)
    }
}

/// The traffic receiver on (namespace, ifindex) pairs; detaches when closed.
#[pyclass(unsendable)]
struct Receiver(Option<ReceiverEngine>);

impl Receiver {
    fn open(&self) -> PyResult<&ReceiverEngine> {
        self.0.as_ref().ok_or_else(|| NativeError::new_err("the receiver is closed"))
    }
}

#[pymethods]
impl Receiver {
    #[new]
    #[pyo3(signature = (*, interfaces, cookie, flows))]
    fn new(
        interfaces: Vec<(Option<PathBuf>, u32)>,
        cookie: Option<u16>,
        flows: Vec<u32>,
    ) -> PyResult<Self> {
        ReceiverEngine::attach(&ReceiverSpec { interfaces, cookie, flows })
            .map(|engine| Self(Some(engine)))
            .map_err(raise)
    }

    /// By interface: true where the driver runs the program, false on the generic hook.
    fn native(&self) -> PyResult<Vec<bool>> {
        Ok(self.open()?.native().to_vec())
    }

    /// By interface: whether the program is still on it; false once the interface is gone.
    fn attached(&self) -> PyResult<Vec<bool>> {
        Ok(self.open()?.attached())
    }

    /// Forgets everything received.
    fn reset(&mut self) -> PyResult<()> {
        self.open()?;
        self.0.as_mut().map_or(Ok(()), ReceiverEngine::reset).map_err(raise)
    }

    /// The counts by stream: [{received, received_window, ..., delay_max_ns}].
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let counts = self.open()?.counts().map_err(raise)?;
        counts
            .iter()
            .map(|count| {
                let dict = PyDict::new(py);
                dict.set_item("received", count.received)?;
                dict.set_item("received_window", count.received_window)?;
                dict.set_item("received_window_bytes", count.received_window_bytes)?;
                dict.set_item("reordered", count.reordered)?;
                dict.set_item("duplicated", count.duplicated)?;
                dict.set_item("untracked", count.untracked)?;
                dict.set_item("delay_max_ns", count.delay_max_ns)?;
                dict.set_item("delay_sum_ns", count.delay_sum_ns)?;
                Ok(dict)
            })
            .collect()
    }

    /// Frames of a stream that its sequence numbers promise.
    fn expected(&self, stream: usize) -> PyResult<u64> {
        self.open()?.expected(stream).map_err(raise)
    }

    /// The mark of the run that the latest frame was of, when any run's frames are taken.
    fn seen_cookie(&self) -> PyResult<u16> {
        Ok(self.open()?.seen_cookie())
    }

    /// Frames that were not of this run.
    fn foreign(&self) -> PyResult<u64> {
        Ok(self.open()?.foreign())
    }

    /// One-way delay of a stream in the window: {count, p50_ns, ...}.
    fn delays<'py>(&self, py: Python<'py>, stream: usize) -> PyResult<Bound<'py, PyDict>> {
        percentiles(py, &self.open()?.delays(stream).map_err(raise)?)
    }

    /// Detaches from all interfaces.
    fn close(&mut self) {
        self.0 = None;
    }
}

/// (softirq_ns, thread_ns, polls, frames)
type BillTuple = (u64, u64, u64, u64);

/// Exact bills of the cores' time.
#[pyclass(unsendable)]
struct Meter(Option<MeterEngine>);

impl Meter {
    fn open(&mut self) -> PyResult<&mut MeterEngine> {
        self.0.as_mut().ok_or_else(|| NativeError::new_err("the meter is closed"))
    }
}

#[pymethods]
impl Meter {
    /// First account number that is the caller's to give.
    #[classattr]
    const FIRST_OWN: u32 = FIRST_OWN;

    #[new]
    fn new() -> PyResult<Self> {
        MeterEngine::attach().map(|engine| Self(Some(engine))).map_err(raise)
    }

    /// Names of the fixed accounts, by number.
    #[staticmethod]
    fn fixed() -> Vec<&'static str> {
        FIXED.to_vec()
    }

    fn add_nic(&mut self, netns: PathBuf, ifindex: u32, account: u32) -> PyResult<()> {
        self.open()?.add_nic(&netns, ifindex, account).map_err(raise)
    }

    fn add_thread(&mut self, thread: u32, account: u32) -> PyResult<()> {
        self.open()?.add_thread(thread, account).map_err(raise)
    }

    fn forget(&mut self) -> PyResult<()> {
        self.open()?.forget().map_err(raise)
    }

    /// Zeroes the bills and sets the window, `CLOCK_MONOTONIC` ns.
    fn begin(&mut self, start_ns: u64, end_ns: u64) -> PyResult<()> {
        self.open()?.begin((start_ns, end_ns)).map_err(raise)
    }

    /// By core and account: (softirq_ns, thread_ns, polls, frames).
    fn read(&mut self, cores: usize) -> PyResult<Vec<Vec<BillTuple>>> {
        let bills = self.open()?.read(cores).map_err(raise)?;
        Ok(bills
            .iter()
            .map(|core| {
                core.iter().map(|b| (b.softirq_ns, b.thread_ns, b.polls, b.frames)).collect()
            })
            .collect())
    }

    fn close(&mut self) {
        self.0 = None;
    }
}

/// The packet path.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    silence_libbpf();
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add("UnsupportedError", module.py().get_type::<UnsupportedError>())?;
    module.add("SimulationError", module.py().get_type::<sim::SimulationError>())?;
    module.add_class::<Stream>()?;
    module.add_class::<Generator>()?;
    module.add_class::<Receiver>()?;
    module.add_class::<Meter>()?;
    module.add_class::<plane::Plane>()?;
    module.add_function(wrap_pyfunction!(monotonic_ns, module)?)?;
    module.add_function(wrap_pyfunction!(min_frame_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(probe_features, module)?)?;
    module.add_function(wrap_pyfunction!(measure_stalls, module)?)?;
    module.add_function(wrap_pyfunction!(sim::simulate, module)?)?;
    Ok(())
}
