//! Names, and what they stand for.

use std::{collections::HashMap, marker::PhantomData};

use crate::{
    engine::{
        DropPoint,
        ids::{
            ContextId, CoreId, DropPointId, FlowId, GroupId, Id, LoadId, PortId, QueueId, RingId,
            RouterId, StageId, Table, WireId,
        },
    },
    error::{Error, Result},
    model::Model,
};

/// Names of one kind of thing.
pub(super) struct Index<I> {
    kind: &'static str,
    ids: PhantomData<I>,
    by_name: HashMap<String, usize>,
    in_order: Vec<String>,
}

impl<I: Id> Index<I> {
    fn new<'a>(kind: &'static str, names: impl Iterator<Item = &'a String>) -> Result<Self> {
        let mut by_name = HashMap::new();
        let mut in_order = Vec::new();
        for (index, name) in names.enumerate() {
            if by_name.insert(name.clone(), index).is_some() {
                return Err(Error::Twice { kind, name: name.clone() });
            }
            in_order.push(name.clone());
        }
        Ok(Self { kind, ids: PhantomData, by_name, in_order })
    }

    pub(super) fn get(&self, name: &str) -> Option<I> {
        self.by_name.get(name).copied().map(I::at)
    }

    /// Its number; `element` and `key` say who asks.
    pub(super) fn find(&self, element: &str, key: &'static str, name: &str) -> Result<I> {
        self.get(name).ok_or_else(|| {
            unknown(element, key, self.kind, name, self.in_order.iter().map(String::as_str))
        })
    }
}

fn unknown<'a>(
    element: &str,
    key: &'static str,
    kind: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Error {
    let known: Vec<&str> = known.take(20).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::Unknown { element: element.to_owned(), key, kind, name: name.to_owned(), known }
}

/// A thing on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Ring(RingId),
    Stage(StageId),
    Port(PortId),
}

pub(super) struct Names {
    pub(super) cores: Index<CoreId>,
    pub(super) groups: Index<GroupId>,
    pub(super) contexts: Index<ContextId>,
    pub(super) rings: Index<RingId>,
    pub(super) stages: Index<StageId>,
    pub(super) ports: Index<PortId>,
    pub(super) routers: Index<RouterId>,
    pub(super) traffic: Index<FlowId>,
    /// By stage: its queue, if it has one.
    pub(super) queue_of: Table<StageId, Option<QueueId>>,
}

impl Names {
    pub(super) fn new(model: &Model) -> Result<Self> {
        let rings = || model.nics.iter().flat_map(|nic| nic.rings.iter().map(|ring| &ring.name));
        let stages = || model.stages.iter().map(|stage| &stage.name);
        let ports = || model.ports.iter().map(|port| &port.name);
        Index::<WireId>::new("nic", model.nics.iter().map(|nic| &nic.name))?;
        Index::<DropPointId>::new("ring, stage or port", rings().chain(stages()).chain(ports()))?;
        Index::<LoadId>::new("load", model.loads.iter().map(|load| &load.name))?;
        let mut queues = (0..).map(QueueId::at);
        Ok(Self {
            cores: Index::new("core", model.cores.iter().map(|core| &core.name))?,
            groups: Index::new("group", model.groups.iter().map(|group| &group.name))?,
            contexts: Index::new("context", model.contexts.iter().map(|context| &context.name))?,
            rings: Index::new("ring", rings())?,
            stages: Index::new("stage", stages())?,
            ports: Index::new("port", ports())?,
            routers: Index::new("router", model.routers.iter().map(|router| &router.name))?,
            traffic: Index::new("traffic", model.traffic.iter().map(|traffic| &traffic.name))?,
            queue_of: model
                .stages
                .iter()
                .map(|stage| stage.queue.as_ref().and_then(|_| queues.next()))
                .collect(),
        })
    }

    /// What a name on a path stands for.
    pub(super) fn node(&self, element: &str, name: &str) -> Result<Node> {
        let ring = self.rings.get(name).map(Node::Ring);
        let stage = || self.stages.get(name).map(Node::Stage);
        let port = || self.ports.get(name).map(Node::Port);
        ring.or_else(stage).or_else(port).ok_or_else(|| {
            let known = [&self.rings.in_order, &self.stages.in_order, &self.ports.in_order];
            let known = known.into_iter().flatten().map(String::as_str);
            unknown(element, "path", "ring, stage or port", name, known)
        })
    }

    /// The port, or the queue of the stage, of this name.
    pub(super) fn scheduler_at(&self, element: &str, name: &str) -> Result<DropPoint> {
        if let Some(port) = self.ports.get(name) {
            return Ok(DropPoint::Port(port));
        }
        let stage = self.stages.find(element, "at", name)?;
        match self.queue_of[stage] {
            Some(queue) => Ok(DropPoint::Queue(queue)),
            None => Err(Error::wrong(element, format!("stage {name} has no queue"))),
        }
    }
}
