//! Capture points for Python.

use std::path::PathBuf;

use isolane_dataplane::points::{NAMES, PointSpec, Points as Engine, PointsSpec};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    NativeError, raise,
    records::{Percentiles, record},
};

record! {
    /// A capture point: an interface by its namespace's file and index, and which way frames go.
    Point {
        netns: String,
        ifindex: u32,
        sending: bool,
        /// One of `Points.names()`, but "whole".
        name: String,
        /// Whether it is the first on the way: times are since departure.
        first: bool,
        last: bool,
        /// The interface's name, for a capture file.
        ifname: String,
        /// What it is, for a capture file.
        title: String,
    }
}

/// Stamps frames at capture points; detaches when closed.
#[pyclass(unsendable)]
pub(crate) struct Points(Option<Engine>);

impl Points {
    fn open(&mut self) -> PyResult<&mut Engine> {
        self.0.as_mut().ok_or_else(|| NativeError::new_err("the capture points are closed"))
    }
}

fn number_of(name: &str) -> PyResult<u32> {
    let found = NAMES.iter().position(|known| *known == name);
    let number = found.and_then(|at| u32::try_from(at).ok());
    number.ok_or_else(|| {
        NativeError::new_err(format!("{name} is no capture point; accepted: {}", NAMES.join(", ")))
    })
}

#[pymethods]
impl Points {
    #[new]
    #[pyo3(signature = (*, cookie, streams, points, captures))]
    fn new(cookie: u16, streams: Vec<u32>, points: Vec<Point>, captures: bool) -> PyResult<Self> {
        let points = points.into_iter().map(|point| {
            Ok(PointSpec {
                netns: PathBuf::from(point.netns),
                ifindex: point.ifindex,
                sending: point.sending,
                number: number_of(&point.name)?,
                first: point.first,
                last: point.last,
                ifname: point.ifname,
                title: point.title,
            })
        });
        let points = points.collect::<PyResult<_>>()?;
        Engine::attach(&PointsSpec { cookie, streams, points, captures })
            .map(|engine| Self(Some(engine)))
            .map_err(raise)
    }

    /// Names of the parts of a way, each by the point that it ends at; the last: the whole of them.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        NAMES.to_vec()
    }

    /// Forgets all times and frames, and says whether to keep those to come.
    #[pyo3(signature = (*, captures))]
    fn reset(&mut self, captures: bool) -> PyResult<()> {
        self.open()?.reset(captures).map_err(raise)
    }

    /// A capture file (pcapng) of what was at the points since the last reset; `about` says of what trial.
    fn capture_file(&mut self, about: &str) -> PyResult<Vec<u8>> {
        self.open()?.capture_file(about).map_err(raise)
    }

    /// Times of one part of a stream's way, and their sum, ns.
    fn part(&mut self, stream: usize, name: &str) -> PyResult<(Percentiles, u64)> {
        let number = number_of(name)? as usize;
        let part = self.open()?.part(stream, number).map_err(raise)?;
        Ok((Percentiles::from(&part.times), part.sum_ns))
    }

    /// Detaches from all tracepoints.
    fn close(&mut self) {
        self.0 = None;
    }
}
