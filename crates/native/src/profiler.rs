//! The CPU profiler for Python.

use isolane_dataplane::profiler::{Owner, Profile, Profiler as Engine};
use pyo3::{prelude::*, types::PyDict};

use crate::{NativeError, raise, records::record};

const CLOSED: &str = "the CPU profiler is closed";

record! {
    /// Equal samples: where a core was, and whose work that is.
    SampledChain {
        /// The thread; None in softirqs.
        thread: Option<u32>,
        /// Number of the namespace, and index there, of the interface that a softirq polled.
        nic: Option<(u32, u32)>,
        core: u32,
        /// The thread's name; empty in softirqs.
        name: String,
        /// Functions of the kernel, outermost first; empty in user space.
        kernel: Vec<String>,
        /// Functions in user space, outermost first.
        user: Vec<String>,
        samples: u64,
    }
}

record! {
    /// All samples of some cores that were busy.
    Sampling {
        chains: Vec<SampledChain>,
        /// Samples of which nothing is known.
        lost: u64,
        /// Samples that there had been if no core had been idle.
        expected: u64,
        /// Time that the program took on all cores, ns.
        program_ns: u64,
    }
}

/// Samples cores; detaches when finished or closed.
#[pyclass(unsendable)]
pub(crate) struct Profiler(Option<Engine>);

impl Profiler {
    fn open(&self) -> PyResult<&Engine> {
        self.0.as_ref().ok_or_else(|| NativeError::new_err(CLOSED))
    }

    fn open_mut(&mut self) -> PyResult<&mut Engine> {
        self.0.as_mut().ok_or_else(|| NativeError::new_err(CLOSED))
    }
}

#[pymethods]
impl Profiler {
    #[new]
    #[pyo3(signature = (*, cores, rate_hz))]
    fn new(cores: Vec<u32>, rate_hz: u64) -> PyResult<Self> {
        Engine::start(&cores, rate_hz).map(|engine| Self(Some(engine))).map_err(raise)
    }

    /// What the samples are of: "cycles" or "cpu-clock".
    #[getter]
    fn clock(&self) -> PyResult<&'static str> {
        Ok(self.open()?.clock().name())
    }

    /// Takes what has come; to be called several times a second.
    fn drain(&self) -> PyResult<()> {
        self.open()?.drain().map_err(raise)
    }

    /// Forgets what was sampled; from now on only ticks of a window count, on CLOCK_MONOTONIC.
    #[pyo3(signature = (*, start_ns, end_ns))]
    fn begin(&mut self, start_ns: u64, end_ns: u64) -> PyResult<()> {
        self.open_mut()?.begin(start_ns, end_ns).map_err(raise)
    }

    /// Reads names of functions anew, when they are next asked for.
    fn forget_names(&mut self) -> PyResult<()> {
        self.open_mut()?.forget_names();
        Ok(())
    }

    /// Tells what was sampled since `begin`, with the functions' names.
    fn taken(&self) -> PyResult<Sampling> {
        self.open()?.taken().map(sampling).map_err(raise)
    }

    /// Ends the sampling and tells the functions' names.
    fn finish(&mut self) -> PyResult<Sampling> {
        let engine = self.0.take().ok_or_else(|| NativeError::new_err(CLOSED))?;
        engine.finish().map(sampling).map_err(raise)
    }

    /// Detaches.
    fn close(&mut self) {
        self.0 = None;
    }
}

fn sampling(profile: Profile) -> Sampling {
    let chains = profile.sampled.into_iter().map(|one| SampledChain {
        thread: if let Owner::Thread(thread) = one.owner { Some(thread) } else { None },
        nic: if let Owner::Nic(netns, ifindex) = one.owner { Some((netns, ifindex)) } else { None },
        core: one.core,
        name: one.name,
        kernel: one.kernel,
        user: one.user,
        samples: one.samples,
    });
    Sampling {
        chains: chains.collect(),
        lost: profile.lost,
        expected: profile.expected,
        program_ns: profile.program_ns,
    }
}
