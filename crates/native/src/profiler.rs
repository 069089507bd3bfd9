//! The CPU profiler for Python.

use isolane_dataplane::profiler::{Owner, Profiler as Engine};
use pyo3::{prelude::*, types::PyDict};

use crate::{NativeError, raise, records::record};

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
        self.0.as_ref().ok_or_else(|| NativeError::new_err("the CPU profiler is closed"))
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

    /// Ends the sampling and tells the functions' names.
    fn finish(&mut self) -> PyResult<Sampling> {
        let engine = self.0.take();
        let engine = engine.ok_or_else(|| NativeError::new_err("the CPU profiler is closed"))?;
        let profile = engine.finish().map_err(raise)?;
        let chains = profile.sampled.into_iter().map(|one| SampledChain {
            thread: if let Owner::Thread(thread) = one.owner { Some(thread) } else { None },
            nic: if let Owner::Nic(netns, ifindex) = one.owner {
                Some((netns, ifindex))
            } else {
                None
            },
            core: one.core,
            name: one.name,
            kernel: one.kernel,
            user: one.user,
            samples: one.samples,
        });
        Ok(Sampling {
            chains: chains.collect(),
            lost: profile.lost,
            expected: profile.expected,
            program_ns: profile.program_ns,
        })
    }

    /// Detaches.
    fn close(&mut self) {
        self.0 = None;
    }
}
