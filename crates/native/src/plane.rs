//! The packet path of a policy for Python.

use std::path::PathBuf;

use isolane_dataplane::plane::{Bucket, Hook, Plane as Engine, PortSettings, QueueSettings, Table};
use pyo3::{prelude::*, types::PyDict};

use crate::{NativeError, raise};

/// (rate in tokens a second, most tokens at a time) for frames and for bits on the wire; rate 0: no
/// limit.
type Limits = [(u64, u64); 2];

fn buckets(limits: Limits) -> [Bucket; 2] {
    limits.map(|(rate, depth)| Bucket::new(rate, depth))
}

fn limits(buckets: &[Bucket; 2]) -> Limits {
    buckets.map(|bucket| (bucket.rate, bucket.depth))
}

fn hook(name: &str) -> PyResult<Hook> {
    match name {
        "nic" => Ok(Hook::Nic),
        "nic_tc" => Ok(Hook::NicTc),
        "router" => Ok(Hook::Router),
        "leave" => Ok(Hook::Leave),
        "port" => Ok(Hook::Port),
        _ => Err(NativeError::new_err(format!("no hook is called {name}"))),
    }
}

fn table(name: &str) -> PyResult<Table> {
    match name {
        "routes" => Ok(Table::Routes),
        "inlets" => Ok(Table::Inlets),
        "port_of" => Ok(Table::PortOf),
        "uplinks" => Ok(Table::Uplinks),
        "ways" => Ok(Table::Ways),
        "outlets" => Ok(Table::Outlets),
        _ => Err(NativeError::new_err(format!("no table is called {name}"))),
    }
}

/// Programs on interfaces that outlive this process, and their tables.
#[pyclass(unsendable)]
pub(crate) struct Plane(Engine);

#[pymethods]
impl Plane {
    /// Loads the programs with empty tables.
    #[new]
    fn new() -> PyResult<Self> {
        Engine::create().map(Self).map_err(raise)
    }

    /// The plane that the demultiplexer on an interface belongs to; None when there is none.
    #[staticmethod]
    fn open(netns: Option<PathBuf>, ifindex: u32) -> PyResult<Option<Self>> {
        Ok(Engine::open(netns.as_deref(), ifindex).map_err(raise)?.map(Self))
    }

    /// The program at a hook (nic, nic_tc, router, leave, port) of an interface: (id, name, number of
    /// its table of queues or ports), or None.
    #[staticmethod]
    fn standing(
        at: &str,
        netns: Option<PathBuf>,
        ifindex: u32,
    ) -> PyResult<Option<(u32, String, Option<u32>)>> {
        let found = Engine::standing(hook(at)?, netns.as_deref(), ifindex).map_err(raise)?;
        Ok(found.map(|standing| {
            let table = standing.map("isl_queues").or_else(|| standing.map("isl_ports"));
            (standing.id, standing.name, table)
        }))
    }

    /// The kernel's numbers of the tables of queues and of ports.
    fn table_ids(&self) -> PyResult<(u32, u32)> {
        self.0.table_ids().map_err(raise)
    }

    /// Puts the program of a hook there.
    fn attach(&self, at: &str, netns: Option<PathBuf>, ifindex: u32) -> PyResult<()> {
        self.0.attach(hook(at)?, netns.as_deref(), ifindex).map_err(raise)
    }

    /// Takes it off; false when it was not there.
    fn detach(&self, at: &str, netns: Option<PathBuf>, ifindex: u32) -> PyResult<bool> {
        self.0.detach(hook(at)?, netns.as_deref(), ifindex).map_err(raise)
    }

    /// Sets (None: deletes) an entry of a table; interfaces are those of the namespace.
    fn put(
        &self,
        name: &str,
        netns: Option<PathBuf>,
        key: &[u8],
        value: Option<u32>,
    ) -> PyResult<()> {
        self.0.put(table(name)?, netns.as_deref(), key, value).map_err(raise)
    }

    /// An entry of a table.
    fn get(&self, name: &str, key: &[u8]) -> PyResult<Option<u32>> {
        self.0.get(table(name)?, key).map_err(raise)
    }

    /// Sets a queue: frames that may wait (while it overflows, else), (forwarding by XDP, counted
    /// at its end, number of the budget of CPU time), limits of frames and of bits.
    fn set_queue(
        &mut self,
        slot: usize,
        room: (u32, u32),
        modes: (bool, bool, Option<u32>),
        most: Limits,
    ) -> PyResult<()> {
        let (xdp, counted, budget) = modes;
        let settings = QueueSettings {
            limit: room.0,
            burst: room.1,
            xdp,
            counted,
            budget,
            ingress: buckets(most),
        };
        self.0.set_queue(slot, &settings).map_err(raise)
    }

    /// Forgets a queue with its counts.
    fn clear_queue(&mut self, slot: usize) -> PyResult<()> {
        self.0.clear_queue(slot).map_err(raise)
    }

    /// Settings and counts of a queue; None when it is not in use.
    fn queue<'py>(&self, py: Python<'py>, slot: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        let queue = self.0.queue(slot).map_err(raise)?;
        if queue.limit() == 0 {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        dict.set_item("limit", queue.limit())?;
        dict.set_item("burst", queue.burst())?;
        dict.set_item("xdp", queue.xdp())?;
        dict.set_item("counted", queue.counted())?;
        dict.set_item("budget", queue.budget())?;
        dict.set_item("most", limits(&queue.ingress))?;
        dict.set_item("waiting", queue.waiting())?;
        dict.set_item("offered", queue.offered)?;
        dict.set_item("offered_bytes", queue.offered_bytes)?;
        dict.set_item("dropped_queue", queue.dropped_queue)?;
        dict.set_item("dropped_rate", queue.dropped_rate)?;
        dict.set_item("dropped_cpu", queue.dropped_cpu)?;
        dict.set_item("dropped_size", queue.dropped_size)?;
        dict.set_item("served", queue.served)?;
        dict.set_item("forwarded", queue.forwarded)?;
        Ok(Some(dict))
    }

    /// Sets a router's budget of CPU time, ns a second and at most at once; 0: no cap.
    fn set_budget(&mut self, number: usize, rate_ns: u64, depth_ns: u64) -> PyResult<()> {
        self.0.set_budget(number, rate_ns, depth_ns).map_err(raise)
    }

    /// A router's budget of CPU time: (ns a second, ns at most at once).
    fn budget(&self, number: usize) -> PyResult<(u64, u64)> {
        self.0.budget(number).map_err(raise)
    }

    /// Sets a port: interface to send to (0: the host decides), class, limits of frames and bits.
    fn set_port(&mut self, port: usize, uplink: u32, class_: u32, most: Limits) -> PyResult<()> {
        let settings = PortSettings { uplink, class: class_, egress: buckets(most) };
        self.0.set_port(port, &settings).map_err(raise)
    }

    /// Forgets a port with its counts.
    fn clear_port(&mut self, port: usize) -> PyResult<()> {
        self.0.clear_port(port).map_err(raise)
    }

    /// Settings and counts of a port.
    fn port<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
        let port = self.0.port(number).map_err(raise)?;
        let dict = PyDict::new(py);
        dict.set_item("uplink", port.uplink)?;
        dict.set_item("class", port.class)?;
        dict.set_item("most", limits(&port.egress))?;
        dict.set_item("offered", port.offered)?;
        dict.set_item("offered_bytes", port.offered_bytes)?;
        dict.set_item("dropped_rate", port.dropped_rate)?;
        dict.set_item("dropped_size", port.dropped_size)?;
        Ok(dict)
    }
}
