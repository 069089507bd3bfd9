//! `isolane._native`: the packet path for Python. Nothing else knows Python.
//!
//! Specifications come in as keyword arguments and records, counts go out as records (`records.rs`, `policy_records.rs`);
//! `python/isolane/_native.pyi` has their types. Errors are `isolane._native.NativeError`.

#![expect(clippy::doc_markdown, reason = "these comments are Python's docstrings")]
#![expect(clippy::needless_pass_by_value, reason = "Python hands values over")]
#![expect(clippy::similar_names, reason = "sport and dport are the field's words")]

mod accountant;
mod generator;
mod http_client;
mod netback;
mod pacemaker;
mod plane;
mod points;
mod policy_records;
mod profiler;
mod receiver;
mod records;
mod sim;

use std::{net::IpAddr, path::PathBuf};

use isolane_dataplane::{
    Error, monotonic_ns as clock_ns, probe, silence_libbpf, stalls,
    stream::min_frame_bytes as min_bytes, transfer,
};
use pyo3::{
    create_exception,
    exceptions::{PyException, PyOSError},
    prelude::*,
};

use crate::records::{Feature, Percentiles, Stalls};

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
        // Neither a setting nor a feature that the kernel lacks, so who handles those must not catch it.
        Error::Descriptors { .. } => PyOSError::new_err((libc::EMFILE, text)),
        _ => NativeError::new_err(text),
    }
}

/// `CLOCK_MONOTONIC` in ns, the clock of all windows here.
#[pyfunction]
fn monotonic_ns() -> u64 {
    clock_ns()
}

/// The program that answers UDP datagrams in a router: an executable file that needs only a kernel.
#[pyfunction]
fn responder() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/responder"))
}

/// Shortest frame, bytes with the frame check sequence, that holds headers and signature.
#[pyfunction]
fn min_frame_bytes(destination: IpAddr) -> u16 {
    min_bytes(destination)
}

/// Spins on a core and tells how long it was taken away, in gaps longer than min_ns.
#[pyfunction]
#[pyo3(signature = (*, core, duration_ns, min_ns))]
fn measure_stalls(py: Python<'_>, core: usize, duration_ns: u64, min_ns: u64) -> PyResult<Stalls> {
    let gaps = py.detach(|| stalls::measure(core, duration_ns, min_ns)).map_err(raise)?;
    Ok(Stalls { gaps: Percentiles::from(&gaps), lost_ns: gaps.sum_ns().unwrap_or(0) })
}

/// Median time of a cache line's round trip between two cores, ns; None if others had the cores.
#[pyfunction]
#[pyo3(signature = (*, near, far, limit_ns))]
fn measure_transfer(
    py: Python<'_>,
    near: usize,
    far: usize,
    limit_ns: u64,
) -> PyResult<Option<u64>> {
    py.detach(|| transfer::measure(near, far, limit_ns)).map_err(raise)
}

/// What the kernel allows, tried out.
#[pyfunction]
#[pyo3(signature = (netns=None))]
fn probe_features(py: Python<'_>, netns: Option<PathBuf>) -> PyResult<Vec<Feature>> {
    let found = py.detach(|| probe::features(netns)).map_err(raise)?;
    let feature = |finding: probe::Finding| Feature {
        program: finding.program.to_owned(),
        works: finding.works,
        reason: finding.reason,
    };
    Ok(found.into_iter().map(feature).collect())
}

/// The packet path.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    silence_libbpf();
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add("UnsupportedError", module.py().get_type::<UnsupportedError>())?;
    module.add("SimulationError", module.py().get_type::<sim::SimulationError>())?;
    module.add_class::<accountant::CpuAccountant>()?;
    module.add_class::<generator::Generator>()?;
    module.add_class::<generator::Stream>()?;
    module.add_class::<http_client::HttpClient>()?;
    module.add_class::<receiver::Receiver>()?;
    records::add_all(module)?;
    policy_records::add_all(module)?;
    module.add_class::<netback::Netback>()?;
    module.add_class::<plane::Plane>()?;
    module.add_class::<points::Point>()?;
    module.add_class::<points::Points>()?;
    module.add_class::<profiler::Profiler>()?;
    module.add_class::<profiler::SampledChain>()?;
    module.add_class::<profiler::Sampling>()?;
    module.add_function(wrap_pyfunction!(monotonic_ns, module)?)?;
    module.add_function(wrap_pyfunction!(min_frame_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(responder, module)?)?;
    module.add_function(wrap_pyfunction!(probe_features, module)?)?;
    module.add_function(wrap_pyfunction!(measure_stalls, module)?)?;
    module.add_function(wrap_pyfunction!(measure_transfer, module)?)?;
    module.add_function(wrap_pyfunction!(sim::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(netback::give_up_rights, module)?)?;
    module.add_function(wrap_pyfunction!(pacemaker::run_pacemaker, module)?)?;
    Ok(())
}
