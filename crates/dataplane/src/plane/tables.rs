//! The tables that user space fills: entries by key.

use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};

use super::Plane;
use crate::{Error, Result, netns};

/// The tables that user space fills; keys in the byte order of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Forwarding table: MAC address and VLAN (big endian; 0: untagged) -> queue.
    Fdb,
    /// Ingress devmap: queue -> the host's side of the router's interface.
    IngressDev,
    /// The host's side of a router's interface -> port.
    PortOf,
    /// Port -> interface that its frames leave by.
    Uplinks,
    /// Redirect key: queue, and interface of the router that its routes name -> number in the egress
    /// devmap.
    Redirects,
    /// Egress devmap: number -> interface, whatever its namespace.
    EgressDev,
}

/// The kernel's numbers of two tables: what tells planes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIds {
    /// Of the table of queues.
    pub queues: u32,
    /// Of the table of ports.
    pub ports: u32,
}

impl Plane {
    /// Sets (None: deletes) an entry of a table. Interfaces are those of the namespace `path`.
    pub fn put(
        &self,
        table: Table,
        path: Option<&Path>,
        key: &[u8],
        value: Option<u32>,
    ) -> Result<()> {
        let map = handle(self.table(table))?;
        check_key(&map, key)?;
        if table == Table::IngressDev {
            put(&self.demux.maps.isl_ingress_tc, key, value)?;
        }
        netns::within(path, || put(&map, key, value))
    }

    /// An entry of a table.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<u32>> {
        let map = self.table(table);
        check_key(map, key)?;
        let found = map.lookup(key, MapFlags::ANY).map_err(|error| Error::table(map, &error))?;
        let bytes = found.and_then(|bytes| bytes.get(..4).and_then(|b| b.try_into().ok()));
        Ok(bytes.map(u32::from_ne_bytes))
    }

    /// The kernel's numbers of the tables of queues and of ports.
    pub fn table_ids(&self) -> Result<TableIds> {
        let number = |map: &MapMut<'_>| {
            handle(map)?.info().map(|info| info.info.id).map_err(|error| Error::table(map, &error))
        };
        Ok(TableIds {
            queues: number(&self.demux.maps.isl_queues)?,
            ports: number(&self.demux.maps.isl_ports)?,
        })
    }

    fn table(&self, table: Table) -> &MapMut<'_> {
        match table {
            Table::Fdb => &self.demux.maps.isl_fdb,
            Table::IngressDev => &self.demux.maps.isl_ingress_dev,
            Table::PortOf => &self.demux.maps.isl_port_of,
            Table::Uplinks => &self.demux.maps.isl_uplinks,
            Table::Redirects => &self.forward.maps.isl_redirects,
            Table::EgressDev => &self.forward.maps.isl_egress_dev,
        }
    }
}

/// The map as something that another thread may use.
fn handle(map: &MapMut<'_>) -> Result<MapHandle> {
    MapHandle::try_from(map).map_err(|error| Error::table(map, &error))
}

fn check_key(map: &impl MapCore, key: &[u8]) -> Result<()> {
    if key.len() == map.key_size() as usize {
        return Ok(());
    }
    Err(Error::Table {
        name: map.name().to_string_lossy().into_owned(),
        reason: format!("a key of {} bytes instead of {}", key.len(), map.key_size()),
    })
}

fn put(map: &impl MapCore, key: &[u8], value: Option<u32>) -> Result<()> {
    match value {
        Some(value) => map
            .update(key, &value.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::table(map, &error)),
        None => match map.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(Error::table(map, &error))
            }
            _ => Ok(()),
        },
    }
}
