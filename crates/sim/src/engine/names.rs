//! What results call things.

use super::{
    ids::{ContextId, DropPointId, FlowId, RouterId, Table},
    network::DropPoint,
};
use crate::model::Mode;

/// A stage, as results tell of it.
#[derive(Debug, Clone)]
pub(crate) struct StageInfo {
    pub(crate) name: String,
    pub(crate) context: ContextId,
    pub(crate) account: String,
    pub(crate) mode: Mode,
    pub(crate) frame_ps: u64,
    pub(crate) byte_ps: u64,
    pub(crate) poll_ps: u64,
    pub(crate) cold_ps: u64,
    /// None: it does not look for room behind it.
    pub(crate) drop_ps: Option<u64>,
}

/// Names, for the report.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) flows: Table<FlowId, String>,
    pub(crate) routers: Table<RouterId, String>,
    pub(crate) drop_points: Table<DropPointId, (String, DropPoint)>,
    /// Router of each flow.
    pub(crate) router_of: Table<FlowId, RouterId>,
}
