//! The traffic generator for Python.

use std::{
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use isolane_dataplane::{
    generator::{Generator as Engine, GeneratorSpec},
    stream::{HOP_LIMIT, Segment, StreamSpec, Timing},
};
use pyo3::prelude::*;

use crate::{
    NativeError, raise,
    records::{self, GeneratorReport, Percentiles, StreamSent},
};

/// One stream; sizes with the frame check sequence.
#[pyclass(frozen, from_py_object)]
#[derive(Clone)]
pub(crate) struct Stream(StreamSpec);

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (*, ifindex, src_mac, dst_mac, src_ip, src_count, dst_ip, first_sport,
                        first_dport, flows, sizes, segments, hop_limit = HOP_LIMIT,
                        fragments = false, icmp = false, poisson_seed = 0, on_ns = 0, period_ns = 0))]
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
        segments: Vec<records::Segment>,
        hop_limit: u8,
        fragments: bool,
        icmp: bool,
        poisson_seed: u32,
        on_ns: u64,
        period_ns: u64,
    ) -> PyResult<Self> {
        let timing = match (poisson_seed, period_ns) {
            (0, 0) => Timing::Even,
            (0, _) => Timing::Bursts { on_ns, period_ns },
            (seed, _) => Timing::Poisson { seed },
        };
        Ok(Self(StreamSpec {
            ifindex,
            src_mac: parse_mac(src_mac)?,
            dst_mac: parse_mac(dst_mac)?,
            src: src_ip,
            src_count,
            dst: dst_ip,
            hop_limit,
            fragments,
            icmp,
            first_sport,
            first_dport,
            flows,
            sizes,
            timing,
            segments: segments
                .into_iter()
                .map(|part| Segment {
                    duration_ns: part.duration_ns,
                    start_rate_millipps: part.start_rate_millipps,
                    end_rate_millipps: part.end_rate_millipps,
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
pub(crate) struct Generator(Engine);

#[pymethods]
impl Generator {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    #[pyo3(signature = (*, netns, core, cookie, streams, window_start_ns, window_end_ns, end_ns,
                        peak_rate_millipps = 0, bin_ns = 0))]
    fn new(
        netns: Option<PathBuf>,
        core: usize,
        cookie: u16,
        streams: Vec<Stream>,
        window_start_ns: u64,
        window_end_ns: u64,
        end_ns: u64,
        peak_rate_millipps: u64,
        bin_ns: u64,
    ) -> PyResult<Self> {
        let streams = streams.into_iter().map(|stream| stream.0).collect();
        Engine::load(GeneratorSpec {
            netns,
            core,
            cookie,
            streams,
            window_start_ns,
            window_end_ns,
            end_ns,
            peak_rate_millipps,
            bin_ns,
        })
        .map(Self)
        .map_err(raise)
    }

    /// Takes another trial, where the loaded program can carry it out; false where not.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments, those of the constructor")]
    #[pyo3(signature = (*, netns, core, cookie, streams, window_start_ns, window_end_ns, end_ns,
                        peak_rate_millipps = 0, bin_ns = 0))]
    fn reuse(
        &mut self,
        netns: Option<PathBuf>,
        core: usize,
        cookie: u16,
        streams: Vec<Stream>,
        window_start_ns: u64,
        window_end_ns: u64,
        end_ns: u64,
        peak_rate_millipps: u64,
        bin_ns: u64,
    ) -> PyResult<bool> {
        let streams = streams.into_iter().map(|stream| stream.0).collect();
        self.0
            .reuse(GeneratorSpec {
                netns,
                core,
                cookie,
                streams,
                window_start_ns,
                window_end_ns,
                end_ns,
                peak_rate_millipps,
                bin_ns,
            })
            .map_err(raise)
    }

    /// Starts sending; the schedule's zero is `start_ns` on `CLOCK_MONOTONIC`. With `first` its thread
    /// runs before all ordinary ones of the core, where that is safe.
    #[pyo3(signature = (start_ns, *, first = false))]
    fn start(&mut self, start_ns: u64, first: bool) -> PyResult<()> {
        self.0.start(start_ns, first).map_err(raise)
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

    /// By stream: frames that departed in each bin of `bin_ns`; final after `stop`.
    fn series(&self) -> PyResult<Vec<Vec<u64>>> {
        self.0.series().map_err(raise)
    }

    /// The counts so far; final after `stop`.
    fn report(&self) -> PyResult<GeneratorReport> {
        let report = self.0.report().map_err(raise)?;
        let lateness = report.lateness.iter().zip(&report.streams).map(|(times, stream)| {
            let mut times = times.clone();
            times.add_lost(stream.missed_window);
            Percentiles::from(&times)
        });
        Ok(GeneratorReport {
            streams: report.streams.iter().map(StreamSent::from).collect(),
            departure: Percentiles::from(&report.departure_error()),
            lateness: lateness.collect(),
            iterations: report.iterations,
            iterations_sent: report.iterations_sent,
            failed: report.failed,
            calls: report.calls,
        })
    }
}
