//! The packet path of a policy for Python.

use std::path::PathBuf;

use isolane_dataplane::plane::{Budget, Hook, Owner, Plane as Engine, Table};
use pyo3::prelude::*;

use crate::{
    NativeError,
    policy_records::{
        AttachedProgram, CpuBudget, PortCounts, PortSettings, QueueCounts, QueueSettings, TableIds,
    },
    raise,
};

fn hook(name: &str) -> PyResult<Hook> {
    match name {
        "nic" => Ok(Hook::Nic),
        "nic_tc" => Ok(Hook::NicTc),
        "router" => Ok(Hook::Router),
        "egress_xdp" => Ok(Hook::EgressXdp),
        "egress_tc" => Ok(Hook::EgressTc),
        _ => Err(NativeError::new_err(format!("no hook is called {name}"))),
    }
}

fn table(name: &str) -> PyResult<Table> {
    match name {
        "fdb" => Ok(Table::Fdb),
        "ingress_dev" => Ok(Table::IngressDev),
        "port_of" => Ok(Table::PortOf),
        "uplinks" => Ok(Table::Uplinks),
        "redirects" => Ok(Table::Redirects),
        "egress_dev" => Ok(Table::EgressDev),
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
    #[pyo3(signature = (*, netns, ifindex))]
    fn open(netns: Option<PathBuf>, ifindex: u32) -> PyResult<Option<Self>> {
        Ok(Engine::open(netns.as_deref(), ifindex).map_err(raise)?.map(Self))
    }

    /// The program that is attached at a hook (nic, nic_tc, router, egress_xdp, egress_tc) of an
    /// interface.
    #[staticmethod]
    #[pyo3(signature = (*, hook, netns, ifindex))]
    fn attached(
        hook: &str,
        netns: Option<PathBuf>,
        ifindex: u32,
    ) -> PyResult<Option<AttachedProgram>> {
        let hook = self::hook(hook)?;
        let found = Engine::attached(hook, netns.as_deref(), ifindex).map_err(raise)?;
        Ok(found.map(|program| {
            let owner = match hook.owner(&program) {
                Owner::Isolane => "isolane",
                Owner::FormerVersion => "former",
                Owner::Other => "other",
            };
            AttachedProgram {
                owner: owner.to_owned(),
                table_id: program.map("isl_queues").or_else(|| program.map("isl_ports")),
                id: program.id,
                name: program.name,
                map_ids: program.maps,
            }
        }))
    }

    /// The kernel's numbers of the tables of queues and of ports.
    fn table_ids(&self) -> PyResult<TableIds> {
        let ids = self.0.table_ids().map_err(raise)?;
        Ok(TableIds { queues: ids.queues, ports: ids.ports })
    }

    /// Attaches the program of a hook.
    #[pyo3(signature = (*, hook, netns, ifindex))]
    fn attach(&self, hook: &str, netns: Option<PathBuf>, ifindex: u32) -> PyResult<()> {
        self.0.attach(self::hook(hook)?, netns.as_deref(), ifindex).map_err(raise)
    }

    /// Detaches it; false when it was not there.
    #[pyo3(signature = (*, hook, netns, ifindex))]
    fn detach(&self, hook: &str, netns: Option<PathBuf>, ifindex: u32) -> PyResult<bool> {
        self.0.detach(self::hook(hook)?, netns.as_deref(), ifindex).map_err(raise)
    }

    /// Sets (None: deletes) an entry of a table; interfaces are those of the namespace.
    #[pyo3(signature = (*, table, netns, key, value))]
    fn put(
        &self,
        table: &str,
        netns: Option<PathBuf>,
        key: &[u8],
        value: Option<u32>,
    ) -> PyResult<()> {
        self.0.put(self::table(table)?, netns.as_deref(), key, value).map_err(raise)
    }

    /// An entry of a table.
    #[pyo3(signature = (*, table, key))]
    fn get(&self, table: &str, key: &[u8]) -> PyResult<Option<u32>> {
        self.0.get(self::table(table)?, key).map_err(raise)
    }

    /// Sets a queue; counts and waiting frames stay.
    fn set_queue(&mut self, slot: usize, settings: &QueueSettings) -> PyResult<()> {
        self.0.set_queue(slot, &settings.into()).map_err(raise)
    }

    /// Forgets a queue with its counts.
    fn clear_queue(&mut self, slot: usize) -> PyResult<()> {
        self.0.clear_queue(slot).map_err(raise)
    }

    /// Settings of a queue; None when it is not in use.
    fn queue(&self, slot: usize) -> PyResult<Option<QueueSettings>> {
        Ok(self.0.queue(slot).map_err(raise)?.map(QueueSettings::from))
    }

    /// Counts of a queue; None when it is not in use.
    fn queue_counts(&self, slot: usize) -> PyResult<Option<QueueCounts>> {
        Ok(self.0.queue_counts(slot).map_err(raise)?.map(QueueCounts::from))
    }

    /// Sets a router's budget of CPU time.
    fn set_budget(&mut self, number: usize, budget: &CpuBudget) -> PyResult<()> {
        let CpuBudget { rate_ns, depth_ns, weight } = *budget;
        self.0.set_budget(number, Budget { rate_ns, depth_ns, weight }).map_err(raise)
    }

    /// A router's budget of CPU time.
    fn budget(&self, number: usize) -> PyResult<CpuBudget> {
        let Budget { rate_ns, depth_ns, weight } = self.0.budget(number).map_err(raise)?;
        Ok(CpuBudget { rate_ns, depth_ns, weight })
    }

    /// What a router's frames have cost the threads of the NICs, ns; 0 where it does not pay for it.
    fn nic_ns(&self, number: usize) -> PyResult<u64> {
        self.0.nic_ns(number).map_err(raise)
    }

    /// Sets a port; counts stay.
    fn set_port(&mut self, number: usize, settings: &PortSettings) -> PyResult<()> {
        self.0.set_port(number, &settings.into()).map_err(raise)
    }

    /// Forgets a port with its counts.
    fn clear_port(&mut self, number: usize) -> PyResult<()> {
        self.0.clear_port(number).map_err(raise)
    }

    /// Settings of a port.
    fn port(&self, number: usize) -> PyResult<PortSettings> {
        Ok(self.0.port(number).map_err(raise)?.into())
    }

    /// Counts of a port.
    fn port_counts(&self, number: usize) -> PyResult<PortCounts> {
        Ok(self.0.port_counts(number).map_err(raise)?.into())
    }
}
