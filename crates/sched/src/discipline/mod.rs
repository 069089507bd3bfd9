//! The disciplines: each keeps its own state per flow and sees only the heads of the queues.

mod credit;
mod drr;
mod fifo;
mod hierarchical;
mod round_robin;
mod strict_priority;
mod wfq;
mod wrr;

use crate::{
    config::{Config, FlowSettings, Kind},
    packet::Packet,
    queues::Queues,
};

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This flow, which is backlogged.
    Serve(u32),
    /// No backlogged flow may send before this time.
    Wait { until_ns: u64 },
    /// No flow is backlogged.
    Empty,
}

impl From<Option<u32>> for Choice {
    fn from(flow: Option<u32>) -> Self {
        flow.map_or(Self::Empty, Self::Serve)
    }
}

/// What all have in common, in the order in which it is called.
trait Decide {
    /// A packet came into a queue that was empty.
    fn backlogged<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, now_ns: u64);

    /// Whose turn it is; asked again without a packet leaving, the answer is the same or later.
    fn choose<P: Packet>(&mut self, queues: &Queues<P>, now_ns: u64) -> Choice;

    /// The packet of the flow chosen, of this length, has left its queue.
    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, bytes: u32, now_ns: u64);

    /// The flow's settings, checked, have changed.
    fn set<P: Packet>(&mut self, _: &Queues<P>, _flow: u32, _: &FlowSettings, _now_ns: u64) {}
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) enum Discipline {
    Fifo(fifo::Fifo),
    Credit(credit::Credit),
    RoundRobin(round_robin::RoundRobin),
    Wrr(wrr::Wrr),
    Drr(drr::Drr),
    Wfq(wfq::Wfq),
    StrictPriority(strict_priority::StrictPriority),
    Hierarchical(hierarchical::Hierarchical),
}

/// The same call for every kind, compiled for each.
macro_rules! each {
    ($discipline:expr, $it:ident => $call:expr) => {
        match $discipline {
            Self::Fifo($it) => $call,
            Self::Credit($it) => $call,
            Self::RoundRobin($it) => $call,
            Self::Wrr($it) => $call,
            Self::Drr($it) => $call,
            Self::Wfq($it) => $call,
            Self::StrictPriority($it) => $call,
            Self::Hierarchical($it) => $call,
        }
    };
}

impl Discipline {
    pub(crate) fn new(config: &Config) -> Self {
        let flows = config.flows;
        match config.kind {
            Kind::Fifo => Self::Fifo(fifo::Fifo),
            Kind::Credit { period_ns, ref order } => {
                Self::Credit(credit::Credit::new(flows, period_ns, order.clone()))
            }
            Kind::RoundRobin => Self::RoundRobin(round_robin::RoundRobin::new(flows)),
            Kind::Wrr { transmission } => Self::Wrr(wrr::Wrr::new(flows, transmission)),
            Kind::Drr { quantum_bytes } => Self::Drr(drr::Drr::new(flows, quantum_bytes)),
            Kind::Wfq => Self::Wfq(wfq::Wfq::new(flows)),
            Kind::StrictPriority => {
                Self::StrictPriority(strict_priority::StrictPriority::new(flows))
            }
            Kind::Hierarchical { quantum_bytes, burst_bytes } => Self::Hierarchical(
                hierarchical::Hierarchical::new(flows, quantum_bytes, burst_bytes),
            ),
        }
    }

    #[inline]
    pub(crate) fn backlogged<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, now_ns: u64) {
        each!(self, it => it.backlogged(queues, flow, now_ns));
    }

    #[inline]
    pub(crate) fn choose<P: Packet>(&mut self, queues: &Queues<P>, now_ns: u64) -> Choice {
        each!(self, it => it.choose(queues, now_ns))
    }

    #[inline]
    pub(crate) fn served<P: Packet>(
        &mut self,
        queues: &Queues<P>,
        flow: u32,
        bytes: u32,
        now_ns: u64,
    ) {
        each!(self, it => it.served(queues, flow, bytes, now_ns));
    }

    pub(crate) fn set<P: Packet>(
        &mut self,
        queues: &Queues<P>,
        flow: u32,
        settings: &FlowSettings,
        now_ns: u64,
    ) {
        each!(self, it => it.set(queues, flow, settings, now_ns));
    }
}
