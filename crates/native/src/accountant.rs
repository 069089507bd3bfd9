//! The CPU accountant for Python.

use std::path::PathBuf;

use isolane_dataplane::accountant::{ACCOUNTS, CpuAccountant as Engine, FIRST_OWN, FIXED};
use pyo3::prelude::*;

use crate::{
    NativeError, raise,
    records::{CpuUse, PollSums},
};

/// Charges each nanosecond of the cores to an account; detaches when closed.
#[pyclass(unsendable)]
pub(crate) struct CpuAccountant(Option<Engine>);

impl CpuAccountant {
    fn open(&mut self) -> PyResult<&mut Engine> {
        self.0.as_mut().ok_or_else(|| NativeError::new_err("the CPU accountant is closed"))
    }
}

#[pymethods]
impl CpuAccountant {
    /// First account number that is the caller's to give.
    #[classattr]
    const FIRST_OWN: u32 = FIRST_OWN;

    /// Number of accounts, the fixed ones included.
    #[classattr]
    const ACCOUNTS: usize = ACCOUNTS;

    #[new]
    fn new() -> PyResult<Self> {
        Engine::attach().map(|engine| Self(Some(engine))).map_err(raise)
    }

    /// Names of the fixed accounts, by number.
    #[staticmethod]
    fn fixed() -> Vec<&'static str> {
        FIXED.to_vec()
    }

    /// Charges an interface's polls to an account; `netns` is the namespace's file.
    #[pyo3(signature = (*, netns, ifindex, account))]
    fn add_nic(&mut self, netns: PathBuf, ifindex: u32, account: u32) -> PyResult<()> {
        self.open()?.add_nic(&netns, ifindex, account).map_err(raise)
    }

    /// Charges a thread's time to an account.
    #[pyo3(signature = (*, thread, account))]
    fn add_thread(&mut self, thread: u32, account: u32) -> PyResult<()> {
        self.open()?.add_thread(thread, account).map_err(raise)
    }

    /// Makes an account's NAPI threads those that `poll_sums` is about.
    #[pyo3(signature = (*, account))]
    fn sample_polls(&mut self, account: u32) -> PyResult<()> {
        self.open()?.sample_polls(account).map_err(raise)
    }

    /// Forgets all interfaces and threads.
    fn forget(&mut self) -> PyResult<()> {
        self.open()?.forget().map_err(raise)
    }

    /// Sets all accounts to zero and the window to come, `CLOCK_MONOTONIC` ns.
    #[pyo3(signature = (*, start_ns, end_ns))]
    fn begin(&mut self, start_ns: u64, end_ns: u64) -> PyResult<()> {
        self.open()?.begin(start_ns, end_ns).map_err(raise)
    }

    /// What each account used of the first cores, `[core][account]`; call after the window's end.
    #[pyo3(signature = (*, cores))]
    fn read(&mut self, cores: usize) -> PyResult<Vec<Vec<CpuUse>>> {
        let used = self.open()?.read(cores).map_err(raise)?;
        Ok(used.iter().map(|core| core.iter().map(CpuUse::from).collect()).collect())
    }

    /// How often the programs ran on each of the first cores in the window.
    #[pyo3(signature = (*, cores))]
    fn events(&mut self, cores: usize) -> PyResult<Vec<u64>> {
        self.open()?.events(cores).map_err(raise)
    }

    /// For how long each of the first cores ran tasks of which the kernel's figure is not known, ns.
    #[pyo3(signature = (*, cores))]
    fn uncompared_ns(&mut self, cores: usize) -> PyResult<Vec<u64>> {
        self.open()?.uncompared_ns(cores).map_err(raise)
    }

    /// What the kernel may have charged tasks with that woke up on each of the first cores, ns.
    #[pyo3(signature = (*, cores))]
    fn early_ns(&mut self, cores: usize) -> PyResult<Vec<u64>> {
        self.open()?.early_ns(cores).map_err(raise)
    }

    /// How long each of the first cores has idled since this was loaded, ns; window or not.
    #[pyo3(signature = (*, cores))]
    fn idle_ns(&mut self, cores: usize) -> PyResult<Vec<u64>> {
        self.open()?.idle_ns(cores).map_err(raise)
    }

    /// Sums over the demultiplexer's polls in the window.
    fn poll_sums(&mut self) -> PyResult<PollSums> {
        self.open()?.poll_sums().map(PollSums::from).map_err(raise)
    }

    /// Takes the programs off the tracepoints.
    fn close(&mut self) {
        self.0 = None;
    }
}
