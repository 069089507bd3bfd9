//! The traffic receiver for Python.

use std::path::PathBuf;

use isolane_dataplane::receiver::{self, Receiver as Engine, ReceiverSpec};
use pyo3::prelude::*;

use crate::{
    NativeError, raise,
    records::{Interface, Percentiles, StreamReceived},
};

/// The traffic receiver on some interfaces; detaches when closed.
#[pyclass(unsendable)]
pub(crate) struct Receiver(Option<Engine>);

impl Receiver {
    fn open(&self) -> PyResult<&Engine> {
        self.0.as_ref().ok_or_else(|| NativeError::new_err("the receiver is closed"))
    }
}

#[pymethods]
impl Receiver {
    #[new]
    #[pyo3(signature = (*, interfaces, cookie, flows, series_ns = 0))]
    fn new(
        interfaces: Vec<Interface>,
        cookie: Option<u16>,
        flows: Vec<u32>,
        series_ns: u64,
    ) -> PyResult<Self> {
        let interfaces = interfaces.into_iter().map(|interface| receiver::Interface {
            netns: interface.netns.map(PathBuf::from),
            ifindex: interface.ifindex,
        });
        let interfaces = interfaces.collect();
        Engine::attach(&ReceiverSpec { interfaces, cookie, flows, series_ns })
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
        self.0.as_mut().map_or(Ok(()), Engine::reset).map_err(raise)
    }

    /// Begins the time series of a trial whose schedule begins at `start_ns`.
    fn begin(&mut self, start_ns: u64) -> PyResult<()> {
        self.open()?;
        self.0.as_mut().map_or(Ok(()), |engine| engine.begin(start_ns)).map_err(raise)
    }

    /// Width of a bin of the time series, ns.
    fn bin_ns(&self) -> PyResult<u64> {
        Ok(self.open()?.bin_ns())
    }

    /// A stream's arrivals by bin, and the 99th percentile of their delays, ns.
    fn series(&self, stream: usize) -> PyResult<(Vec<u64>, Vec<Option<u64>>)> {
        let series = self.open()?.series(stream).map_err(raise)?;
        Ok((series.received, series.delay_p99_ns))
    }

    /// Times between arrivals of a stream's frames of the window: (from ns, to ns, number).
    fn gaps(&self, stream: usize) -> PyResult<Vec<(u64, u64, u32)>> {
        let counts = self.open()?.gaps(stream).map_err(raise)?;
        let buckets = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        Ok(buckets
            .map(|(bucket, count)| {
                let (low_ns, high_ns) = isolane_dataplane::bounds_ns(bucket);
                (low_ns, high_ns, count)
            })
            .collect())
    }

    /// The counts by stream.
    fn counts(&self) -> PyResult<Vec<StreamReceived>> {
        let counts = self.open()?.counts().map_err(raise)?;
        Ok(counts.iter().map(StreamReceived::from).collect())
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
    fn other_frames(&self) -> PyResult<u64> {
        Ok(self.open()?.other_frames())
    }

    /// One-way delays of a stream in the window, since departure; `lost` more frames never arrived.
    #[pyo3(signature = (stream, *, lost = 0))]
    fn delays(&self, stream: usize, lost: u64) -> PyResult<Percentiles> {
        let mut delays = self.open()?.delays(stream).map_err(raise)?;
        delays.add_lost(lost);
        Ok(Percentiles::from(&delays))
    }

    /// The same since the frames were due.
    #[pyo3(signature = (stream, *, lost = 0))]
    fn due_delays(&self, stream: usize, lost: u64) -> PyResult<Percentiles> {
        let mut delays = self.open()?.due_delays(stream).map_err(raise)?;
        delays.add_lost(lost);
        Ok(Percentiles::from(&delays))
    }

    /// Detaches from all interfaces.
    fn close(&mut self) {
        self.0 = None;
    }
}
