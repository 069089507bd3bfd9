//! Names, and what they stand for.

use std::collections::HashMap;

use crate::{
    engine::Place,
    error::{Error, Result},
    model::Model,
};

/// Names of one kind of thing.
pub(super) struct Index {
    kind: &'static str,
    by_name: HashMap<String, usize>,
    in_order: Vec<String>,
}

impl Index {
    fn new<'a>(kind: &'static str, names: impl Iterator<Item = &'a String>) -> Result<Self> {
        let mut by_name = HashMap::new();
        let mut in_order = Vec::new();
        for (index, name) in names.enumerate() {
            if by_name.insert(name.clone(), index).is_some() {
                return Err(Error::Twice { kind, name: name.clone() });
            }
            in_order.push(name.clone());
        }
        Ok(Self { kind, by_name, in_order })
    }

    pub(super) fn get(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Its number; `place` and `key` say who asks.
    pub(super) fn find(&self, place: &str, key: &'static str, name: &str) -> Result<usize> {
        self.get(name).ok_or_else(|| {
            unknown(place, key, self.kind, name, self.in_order.iter().map(String::as_str))
        })
    }
}

fn unknown<'a>(
    place: &str,
    key: &'static str,
    kind: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Error {
    let known: Vec<&str> = known.take(20).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::Unknown { place: place.to_owned(), key, kind, name: name.to_owned(), known }
}

/// A thing on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Ring(usize),
    Stage(usize),
    Port(usize),
}

pub(super) struct Names {
    pub(super) cores: Index,
    pub(super) groups: Index,
    pub(super) contexts: Index,
    pub(super) rings: Index,
    pub(super) stages: Index,
    pub(super) ports: Index,
    pub(super) routers: Index,
    pub(super) traffic: Index,
    /// By stage: its queue, if it has one.
    pub(super) queue_of: Vec<Option<usize>>,
}

impl Names {
    pub(super) fn new(model: &Model) -> Result<Self> {
        let rings = || model.nics.iter().flat_map(|nic| nic.rings.iter().map(|ring| &ring.name));
        let stages = || model.stages.iter().map(|stage| &stage.name);
        let ports = || model.ports.iter().map(|port| &port.name);
        Index::new("nic", model.nics.iter().map(|nic| &nic.name))?;
        Index::new("ring, stage or port", rings().chain(stages()).chain(ports()))?;
        Index::new("load", model.loads.iter().map(|load| &load.name))?;
        let mut queues = 0..;
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
    pub(super) fn node(&self, place: &str, name: &str) -> Result<Node> {
        let ring = self.rings.get(name).map(Node::Ring);
        let stage = || self.stages.get(name).map(Node::Stage);
        let port = || self.ports.get(name).map(Node::Port);
        ring.or_else(stage).or_else(port).ok_or_else(|| {
            let known = [&self.rings, &self.stages, &self.ports];
            let known = known.into_iter().flat_map(|index| &index.in_order).map(String::as_str);
            unknown(place, "path", "ring, stage or port", name, known)
        })
    }

    /// The port, or the queue of the stage, of this name.
    pub(super) fn scheduler_place(&self, place: &str, name: &str) -> Result<Place> {
        if let Some(port) = self.ports.get(name) {
            return Ok(Place::Port(port));
        }
        let stage = self.stages.find(place, "at", name)?;
        match self.queue_of[stage] {
            Some(queue) => Ok(Place::Queue(queue)),
            None => Err(Error::wrong(place, format!("stage {name} has no queue"))),
        }
    }
}
