//! The network: wires, rings, queues and ports. It knows where frames are, how long they take on wires, and
//! where there is room; not who works on them, nor when ([`super::frame_path`]).

pub(crate) mod admission;
mod buffer;
mod entering;
mod leaving;
pub(crate) mod line;
pub(crate) mod port;
pub(crate) mod qdisc;
pub(crate) mod queue;
mod receiving;
pub(crate) mod ring;
mod serving;
mod shared_backlog;
pub(crate) mod sources;
pub(crate) mod wire;

use isolane_sched::FlowSettings;

use self::{
    buffer::{Buffer, Occupancy},
    port::Port,
    queue::Queue,
    ring::Ring,
    shared_backlog::SharedBacklog,
    sources::Source,
    wire::Wire,
};
use super::{
    frame::Frame,
    ids::{
        BacklogId, DropPointId, FlowId, Id, PortId, QueueId, RingId, RouterId, Table, WireId,
        WorkerId,
    },
};

/// Where frames wait, and are dropped when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropPoint {
    Ring(RingId),
    Queue(QueueId),
    Port(PortId),
}

/// Where a worker puts frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Port(PortId),
    Queue(QueueId),
}

impl From<Output> for DropPoint {
    #[inline]
    fn from(output: Output) -> Self {
        match output {
            Output::Port(port) => Self::Port(port),
            Output::Queue(queue) => Self::Queue(queue),
        }
    }
}

/// What a queue gives to who serves it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    Frame(Frame),
    /// Nothing, but its packet scheduler says to ask again then.
    AskAgain(u64),
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    wires: Table<WireId, Wire>,
    rings: Table<RingId, Ring>,
    queues: Table<QueueId, Queue>,
    backlogs: Table<BacklogId, SharedBacklog>,
    ports: Table<PortId, Port>,
}

/// Building.
impl Network {
    pub(crate) fn add_wire(&mut self, wire: Wire) -> WireId {
        self.wires.push(wire)
    }

    pub(crate) fn add_ring(&mut self, ring: Ring) {
        self.rings.push(ring);
    }

    pub(crate) fn add_queue(&mut self, queue: Queue) {
        self.queues.push(queue);
    }

    pub(crate) fn add_port(&mut self, port: Port) {
        self.ports.push(port);
    }

    /// The shared backlog of this name; made when it is first named.
    pub(crate) fn backlog(&mut self, name: &str, capacity: u32) -> BacklogId {
        let known = self.backlogs.enumerate().find(|(_, backlog)| backlog.name() == name);
        match known.map(|(backlog, _)| backlog) {
            Some(backlog) => backlog,
            None => self.backlogs.push(SharedBacklog::new(name.to_owned(), capacity)),
        }
    }

    pub(crate) fn shared_backlog(&self, backlog: BacklogId) -> &SharedBacklog {
        &self.backlogs[backlog]
    }

    pub(crate) fn add_ring_source(&mut self, ring: RingId, source: Source<RingId>) {
        let wire = self.rings[ring].wire;
        self.wires[wire].add_source(source);
    }

    pub(crate) fn add_port_source(&mut self, port: PortId, source: Source<()>) {
        self.ports[port].add_source(source);
    }

    /// This router's frames go on from the port to another host's ring.
    pub(crate) fn connect(&mut self, port: PortId, router: RouterId, ring: RingId) {
        self.ports[port].connect(router, ring);
    }

    /// Senders wait until their frames have been sent.
    pub(crate) fn tell_senders(&mut self) {
        self.ports.iter_mut().for_each(Port::tell_senders);
    }

    /// Requests come out of this port.
    pub(crate) fn tell_requests(&mut self, port: PortId) {
        self.ports[port].tell_requests();
    }

    pub(crate) fn poller_of_ring(&mut self, ring: RingId) -> &mut Option<WorkerId> {
        &mut self.rings[ring].worker
    }

    pub(crate) fn server_of_queue(&mut self, queue: QueueId) -> &mut Option<WorkerId> {
        &mut self.queues[queue].worker
    }

    pub(crate) fn poller_of_backlog(&mut self, backlog: BacklogId) -> &mut Option<WorkerId> {
        &mut self.backlogs[backlog].poller
    }

    pub(crate) fn backlog_of(&self, queue: QueueId) -> Option<BacklogId> {
        self.queues[queue].shared
    }

    /// Whether this router's frames must keep anything to get into the queue.
    pub(crate) fn has_admission(&self, queue: QueueId, router: RouterId) -> bool {
        self.queues[queue].admissions.has(router)
    }
}

/// Beginning, changes, the end.
impl Network {
    /// All sources are there.
    pub(crate) fn begin(&mut self) {
        self.wires.iter_mut().for_each(Wire::begin);
        self.ports.iter_mut().for_each(Port::begin);
    }

    pub(crate) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        for wire in &mut self.wires {
            wire.set_rate(flow, rate_millipps);
        }
        for port in &mut self.ports {
            port.set_rate(flow, rate_millipps);
        }
    }

    /// A flow's settings change in a packet scheduler; who serves the queue, if it is one, may go on.
    pub(crate) fn set_flow(
        &mut self,
        at: DropPoint,
        flow: u32,
        settings: FlowSettings,
        now_ns: u64,
    ) -> Option<WorkerId> {
        match at {
            DropPoint::Port(port) => {
                if let Some(qdisc) = self.ports[port].qdisc_mut() {
                    qdisc.set(flow, settings, now_ns);
                }
                None
            }
            DropPoint::Queue(queue) => {
                self.queues[queue].qdisc.set(flow, settings, now_ns);
                self.queues[queue].worker
            }
            DropPoint::Ring(_) => None,
        }
    }

    /// The row of the results: rings, then queues, then ports.
    #[inline]
    pub(crate) fn drop_point(&self, at: DropPoint) -> DropPointId {
        let (rings, queues) = (self.rings.len(), self.queues.len());
        DropPointId::at(match at {
            DropPoint::Ring(ring) => ring.index(),
            DropPoint::Queue(queue) => rings + queue.index(),
            DropPoint::Port(port) => rings + queues + port.index(),
        })
    }

    /// What came into it and was there, and the number of frames that are there now.
    pub(crate) fn occupancy(&self, at: DropPoint) -> (Occupancy, usize) {
        let buffer: &dyn Buffer = match at {
            DropPoint::Ring(ring) => &self.rings[ring],
            DropPoint::Queue(queue) => &self.queues[queue],
            DropPoint::Port(port) => &self.ports[port],
        };
        (buffer.occupancy(), buffer.len())
    }

    /// Takes out all frames that are still somewhere, and tells their flows.
    pub(crate) fn drain(&mut self, tell: &mut impl FnMut(FlowId)) {
        for ring in &mut self.rings {
            ring.drain().for_each(|frame| tell(frame.flow));
        }
        self.queues.iter_mut().for_each(|queue| queue.qdisc.drain(&mut *tell));
        self.ports.iter_mut().for_each(|port| port.drain(&mut *tell));
    }
}
