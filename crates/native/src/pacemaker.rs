//! The pacemaker for Python: a process of its own runs it.

use std::{
    io::Write,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use isolane_dataplane::pacemaker::{self, CoreWork, RouterWork};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{NativeError, raise};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    table: Option<u32>,
    cores: Vec<Core>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Core {
    #[serde(rename = "core")]
    number: usize,
    nic_threads: Vec<i32>,
    routers: Vec<Router>,
    machines: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Router {
    threads: Vec<i32>,
    queues: Vec<u32>,
}

impl From<Core> for CoreWork {
    fn from(core: Core) -> Self {
        let router = |one: Router| RouterWork { threads: one.threads, queues: one.queues };
        Self {
            core: core.number,
            nic_threads: core.nic_threads,
            routers: core.routers.into_iter().map(router).collect(),
            machines: core.machines,
        }
    }
}

/// Looks after the cores of a policy until SIGTERM comes or nothing of all that is left; says `ready`
/// on stdout once it does.
///
/// `work_json`: `table`, the kernel's number of the table of queues (null: none); `cores`, a list of
/// `core`, `nic_threads`, `routers`, which is a list of `threads` and `queues` (slots), and `machines`, a
/// list of the files that list the threads of virtual machines' cgroups.
#[pyfunction]
pub(crate) fn run_pacemaker(py: Python<'_>, work_json: &str) -> PyResult<()> {
    let work: Work =
        serde_json::from_str(work_json).map_err(|error| NativeError::new_err(error.to_string()))?;
    let cores: Vec<CoreWork> = work.cores.into_iter().map(CoreWork::from).collect();
    pacemaker::stop_on_sigterm(stop);
    let ready = || {
        let mut out = std::io::stdout();
        let _ = out.write_all(b"ready\n").and_then(|()| out.flush());
    };
    py.detach(|| pacemaker::run(&cores, work.table, &STOP, ready)).map_err(raise)
}
