//! The HTTP client for Python: it runs in a thread of its own.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use isolane_dataplane::netns;
use isolane_http_client::{Arrivals, Control, Failure, Plan, Report, run};
use pyo3::prelude::*;

use crate::{
    NativeError,
    records::{HttpReport, Percentiles},
};

type Outcome = Result<Box<Report>, String>;

enum Run {
    Planned(Plan),
    Running(JoinHandle<Outcome>),
    Ended(Outcome),
}

/// A client that sends HTTP requests: start, wait, stop, report.
///
/// `server`: address and port, such as `[2001:db8::1]:80`. `rate_millirps` for an open loop, with equal
/// times between requests or, with a `poisson_seed`, exponential ones; else `concurrency` for a closed
/// loop. The warm-up begins at `start_ns` of the monotonic clock, or at once. The thread enters the namespace of the file `netns` and is pinned to `core`, where it does
/// not sleep while answers are awaited.
#[pyclass(frozen, module = "isolane._native")]
pub(crate) struct HttpClient {
    control: Arc<Control>,
    netns: Option<PathBuf>,
    core: Option<usize>,
    run: Mutex<Run>,
}

#[pymethods]
impl HttpClient {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    #[pyo3(signature = (*, server, host, path, keep_alive, max_connections, warm_up_ns, window_ns,
                        timeout_ns, rate_millirps = None, poisson_seed = None, concurrency = 0,
                        netns = None, core = None, start_ns = None))]
    fn new(
        server: &str,
        host: String,
        path: String,
        keep_alive: bool,
        max_connections: usize,
        warm_up_ns: u64,
        window_ns: u64,
        timeout_ns: u64,
        rate_millirps: Option<u64>,
        poisson_seed: Option<u64>,
        concurrency: usize,
        netns: Option<PathBuf>,
        core: Option<usize>,
        start_ns: Option<u64>,
    ) -> PyResult<Self> {
        let server: SocketAddr = server
            .parse()
            .map_err(|_| NativeError::new_err(format!("{server} is not ADDRESS:PORT")))?;
        let arrivals = match rate_millirps {
            Some(rate_millirps) => Arrivals::Open { rate_millirps, poisson_seed },
            None => Arrivals::Closed { requests: concurrency },
        };
        let plan = Plan {
            server,
            host,
            path,
            arrivals,
            keep_alive,
            max_connections,
            start_ns,
            warm_up_ns,
            window_ns,
            timeout_ns,
            own_core: core.is_some(),
        };
        plan.check().map_err(|error| NativeError::new_err(error.to_string()))?;
        let run = Mutex::new(Run::Planned(plan));
        Ok(Self { control: Arc::default(), netns, core, run })
    }

    /// Starts sending; once only.
    fn start(&self) -> PyResult<()> {
        let mut state = self.lock();
        let Run::Planned(plan) = &*state else {
            return Err(NativeError::new_err("the client was started before"));
        };
        let (plan, control) = (plan.clone(), Arc::clone(&self.control));
        let (netns, core) = (self.netns.clone(), self.core);
        let work = move || {
            netns::enter(netns.as_deref()).map_err(|error| error.to_string())?;
            core.map_or(Ok(()), netns::pin).map_err(|error| error.to_string())?;
            run(&plan, &control).map(Box::new).map_err(|error| error.to_string())
        };
        let thread = thread::Builder::new().name("http-client".into()).spawn(work)?;
        *state = Run::Running(thread);
        Ok(())
    }

    /// Waits at most `timeout_s` for the end; true when finished. Signals are let through.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let (began, limit) = (Instant::now(), Duration::from_secs_f64(timeout_s));
        while matches!(&*self.lock(), Run::Running(thread) if !thread.is_finished()) {
            if began.elapsed() >= limit {
                return Ok(false);
            }
            py.check_signals()?;
            py.detach(|| thread::sleep(Duration::from_millis(2)));
        }
        Ok(true)
    }

    /// Complete answers so far, those of the warm-up included.
    fn answers(&self) -> u64 {
        self.control.answers.load(Ordering::Relaxed)
    }

    /// Ends the window now; returns when the thread has ended.
    fn stop(&self, py: Python<'_>) {
        self.control.stop.store(true, Ordering::Relaxed);
        py.detach(|| self.join());
    }

    /// What became of the requests, once the client has ended.
    fn report(&self, py: Python<'_>) -> PyResult<HttpReport> {
        py.detach(|| self.join());
        match &*self.lock() {
            Run::Ended(Ok(report)) => Ok(HttpReport::from(&**report)),
            Run::Ended(Err(told)) => Err(NativeError::new_err(told.clone())),
            _ => Err(NativeError::new_err("the client was not started")),
        }
    }
}

impl HttpClient {
    fn lock(&self) -> std::sync::MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self) {
        let mut state = self.lock();
        if matches!(&*state, Run::Running(_)) {
            let ended = Run::Ended(Err("the client's thread panicked".into()));
            if let Run::Running(thread) = std::mem::replace(&mut *state, ended)
                && let Ok(outcome) = thread.join()
            {
                *state = Run::Ended(outcome);
            }
        }
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused => "refused",
        Failure::Reset => "reset",
        Failure::TimedOut => "timed_out",
        Failure::CutShort => "cut_short",
        Failure::Malformed => "malformed",
        Failure::Status => "status",
        Failure::Unreachable => "unreachable",
        Failure::OutOfPorts => "out_of_ports",
        Failure::OutOfFiles => "out_of_files",
    }
}

impl From<&Report> for HttpReport {
    fn from(report: &Report) -> Self {
        let mut latency = report.latency.clone();
        latency.add_lost(report.failed_in_all());
        let failed = Failure::ALL.iter().zip(report.failed);
        Self {
            window_ns: report.window_ns,
            offered: report.offered,
            answered: report.answered,
            failed: failed.map(|(&failure, count)| (name(failure).to_owned(), count)).collect(),
            statuses: report.statuses.clone(),
            completed: report.completed,
            completed_bytes: report.completed_bytes,
            connections: report.connections,
            retried: report.retried,
            max_in_flight: report.max_in_flight,
            latency: Percentiles::from(&latency),
            latency_sum_ns: report.latency_sum_ns,
            connect: Percentiles::from(&report.connect),
            late: Percentiles::from(&report.late),
        }
    }
}
