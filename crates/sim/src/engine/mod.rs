//! The engine. Its clock jumps from one event, or one completed piece of work, to the next; ties go to
//! events, then to the core with the lower number.

pub(crate) mod accounting;
pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod cfs;
pub(crate) mod core;
pub(crate) mod credit;
mod events;
pub(crate) mod ids;
pub(crate) mod line;
pub(crate) mod load;
pub(crate) mod network;
mod report;
pub(crate) mod shared;
mod softirq;
pub(crate) mod sources;
pub(crate) mod worker;

use isolane_sched::FlowSettings;

use self::{
    accounting::FrameAccounting,
    core::{Context, Core, CpuScheduler, ScheduledAs},
    credit::Credit,
    events::{Event, Events},
    ids::{
        BacklogId, ChangeId, ConnectionId, ContextId, CoreId, DropPointId, EntityId, FlowId,
        GroupId, LoadId, PortId, QueueId, RingId, RouterId, StageId, Table, VcpuId, WireId,
        WorkerId,
    },
    load::Load,
    network::{Port, Ring, Wire},
    worker::{Connection, Queue, Worker},
};
use crate::model::{Mode, Softirq};

/// How often somebody is asked whether to stop, pieces of work and events.
const ASK_EVERY: u64 = 1 << 14;
/// How often lazy parts catch up at the latest, ns.
const SYNC_NS: u64 = 1_000_000;

/// What a name stands for in reports and changes.
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
    /// None: it does not look for a place behind it.
    pub(crate) drop_ps: Option<u64>,
}

/// Where frames wait, and may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropPoint {
    Ring(RingId),
    Queue(QueueId),
    Port(PortId),
}

/// A change, with names resolved.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Flow { at: DropPoint, flow: u32, settings: FlowSettings },
    Shares { group: GroupId, shares: u64 },
    Vcpu { context: ContextId, weight: u32, cap_pct: u32 },
    Rate { flow: FlowId, rate_millipps: u64 },
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

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) now_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) steps: u64,
    pub(crate) events: Events,
    pub(crate) cores: Table<CoreId, Core>,
    pub(crate) contexts: Table<ContextId, Context>,
    /// By core, and by entity of its CFS: the context; none for a group.
    pub(crate) tasks: Table<CoreId, Table<EntityId, Option<ContextId>>>,
    /// The context of each vCPU of the credit scheduler.
    pub(crate) vcpus: Table<VcpuId, ContextId>,
    /// By group and core: the group's entity in the core's CFS.
    pub(crate) groups: Table<GroupId, Table<CoreId, Option<EntityId>>>,
    pub(crate) credit: Option<Credit>,
    pub(crate) softirq_rules: Softirq,
    pub(crate) workers: Table<WorkerId, Worker>,
    pub(crate) wires: Table<WireId, Wire>,
    pub(crate) rings: Table<RingId, Ring>,
    pub(crate) queues: Table<QueueId, Queue>,
    pub(crate) shared: Table<BacklogId, shared::SharedBacklog>,
    pub(crate) ports: Table<PortId, Port>,
    pub(crate) connections: Table<ConnectionId, Connection>,
    pub(crate) loads: Table<LoadId, Load>,
    pub(crate) changes: Table<ChangeId, (u64, Change)>,
    pub(crate) stages: Table<StageId, StageInfo>,
    pub(crate) accounting: FrameAccounting,
    pub(crate) names: Names,
    /// The CPU figures, once the window has ended.
    pub(crate) times: Option<report::Times>,
    /// Whether it is time to ask.
    ask: bool,
    /// Cores to be looked at after what happens now.
    pub(crate) kicks: Vec<CoreId>,
}

impl Engine {
    /// An engine without anything in it.
    pub(crate) fn empty(end_ns: u64, softirq_rules: Softirq, accounting: FrameAccounting) -> Self {
        Self {
            now_ns: 0,
            end_ns,
            steps: 0,
            events: Events::new(),
            cores: Table::default(),
            contexts: Table::default(),
            tasks: Table::default(),
            vcpus: Table::default(),
            groups: Table::default(),
            credit: None,
            softirq_rules,
            workers: Table::default(),
            wires: Table::default(),
            rings: Table::default(),
            queues: Table::default(),
            shared: Table::default(),
            ports: Table::default(),
            connections: Table::default(),
            loads: Table::default(),
            changes: Table::default(),
            stages: Table::default(),
            accounting,
            names: Names::default(),
            times: None,
            ask: false,
            kicks: Vec::new(),
        }
    }

    /// The first events.
    fn begin(&mut self) {
        self.events.push(self.accounting.window_ns.0, Event::Window);
        self.events.push(self.accounting.window_ns.1, Event::WindowEnd);
        self.events.push(0, Event::Sync);
        for wire in &mut self.wires {
            wire.feed.sort();
            wire.look();
        }
        for port in &mut self.ports {
            port.feed.sort();
        }
        for ring in self.rings.ids() {
            if self.rings[ring].worker.is_some() {
                self.arm(ring, 0);
            }
        }
        for connection in self.connections.ids() {
            let Connection { worker, due_ns, .. } = self.connections[connection];
            self.plan_retry(worker, due_ns);
        }
        for (index, load) in self.loads.enumerate() {
            self.events.push(load.start_ns, Event::Load(index));
        }
        for (index, (at_ns, _)) in self.changes.enumerate() {
            self.events.push(*at_ns, Event::Change(index));
        }
        for (index, core) in self.cores.enumerate() {
            let tick_ns = match &core.scheduler {
                CpuScheduler::Cfs(cfs) => cfs.settings().tick_ns,
                CpuScheduler::Credit => self.credit.as_ref().map_or(0, |c| c.settings().tick_ns),
            };
            self.events.push(tick_ns, Event::Tick(index));
        }
        if let Some(credit) = &self.credit {
            self.events.push(credit.settings().slice_ns, Event::Account);
        }
    }

    /// Runs to the end, or until `stop` says so; whether it got to the end.
    pub(crate) fn run(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
        self.begin();
        let finished = loop {
            let (mut at_ns, mut core) = (self.events.next_ns(), None);
            for (index, candidate) in self.cores.enumerate() {
                if candidate.due_ns < at_ns {
                    (at_ns, core) = (candidate.due_ns, Some(index));
                }
            }
            if at_ns >= self.end_ns {
                self.now_ns = self.end_ns;
                break true;
            }
            self.now_ns = at_ns;
            if let Some(core) = core {
                self.complete(core, at_ns);
            } else {
                let (_, event) = self.events.pop().expect("it is due");
                self.handle(event, at_ns);
            }
            if !self.kicks.is_empty() {
                self.settle(at_ns);
            }
            self.steps += 1;
            if self.ask && stop() {
                break false;
            }
            self.ask = self.steps % ASK_EVERY == 0;
        };
        self.catch_up(self.now_ns);
        if self.times.is_none() {
            self.end_window(self.now_ns);
        }
        finished
    }

    fn handle(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Window => self.begin_window(now_ns),
            Event::WindowEnd => self.end_window(now_ns),
            Event::Sync => {
                self.catch_up(now_ns);
                self.events.push(now_ns + SYNC_NS, Event::Sync);
                // Where nothing else has events of its own.
                self.ask |= now_ns % (64 * SYNC_NS) == 0;
            }
            Event::Ring(ring) => self.check_ring(ring, now_ns),
            Event::Retry(worker) => {
                if self.workers[worker].retry_ns == now_ns {
                    self.workers[worker].retry_ns = u64::MAX;
                }
                self.raise(worker, now_ns);
            }
            Event::Port(port) => self.port_due(port, now_ns),
            Event::Tick(core) => self.tick(core, now_ns),
            Event::Slice(core) => self.slice_over(core, now_ns),
            Event::Account => self.account(now_ns),
            Event::Load(load) => self.load_due(load, now_ns),
            Event::Unblock(load) => self.unblock(load, now_ns),
            Event::Change(change) => self.change(change, now_ns),
        }
    }

    /// Everything that is worked out when somebody looks is worked out now.
    fn catch_up(&mut self, now_ns: u64) {
        for wire in self.wires.ids() {
            self.advance_wire(wire, now_ns);
        }
        for port in self.ports.ids() {
            self.advance_port(port, now_ns);
        }
    }

    fn begin_window(&mut self, now_ns: u64) {
        self.cut(now_ns);
        for core in &mut self.cores {
            core.bill = core::CoreBill::default();
        }
        for worker in &mut self.workers {
            worker.polls = 0;
            worker.notify_ps = 0;
            for route in worker.routes.iter_mut().flatten() {
                route.frames = 0;
                route.bytes = 0;
                route.colds = 0;
                route.refused = 0;
            }
        }
        for load in &mut self.loads {
            load.done_ns = 0;
        }
        let cores = self.cores.len();
        for id in self.contexts.ids() {
            let edge_ns = -self.under_way_ns(id);
            self.contexts[id].before_ns = self.contexts[id].ran_ns();
            self.contexts[id].bill = core::ContextBill {
                cpu_ns: Table::filled(0, cores),
                edge_ns,
                ..Default::default()
            };
        }
    }

    fn end_window(&mut self, now_ns: u64) {
        self.cut(now_ns);
        self.times = Some(self.window_times(now_ns));
    }

    fn change(&mut self, index: ChangeId, now_ns: u64) {
        match self.changes[index].1.clone() {
            Change::Flow { at, flow, settings } => match at {
                DropPoint::Port(port) => {
                    self.advance_port(port, now_ns);
                    if let Some(backlog) = &mut self.ports[port].backlog {
                        backlog.set(flow, settings, now_ns);
                    }
                }
                DropPoint::Queue(queue) => {
                    self.queues[queue].backlog.set(flow, settings, now_ns);
                    if let Some(worker) = self.queues[queue].worker {
                        self.raise(worker, now_ns);
                    }
                }
                DropPoint::Ring(_) => {}
            },
            Change::Shares { group, shares } => {
                for (core, entity) in self.groups[group].enumerate() {
                    if let (Some(entity), CpuScheduler::Cfs(cfs)) =
                        (*entity, &mut self.cores[core].scheduler)
                    {
                        cfs.set_weight(entity, shares);
                    }
                }
            }
            Change::Vcpu { context, weight, cap_pct } => {
                let scheduled_as = self.contexts[context].scheduled_as;
                if let (ScheduledAs::Vcpu(vcpu), Some(credit)) = (scheduled_as, &mut self.credit) {
                    credit.set(vcpu, weight, cap_pct);
                }
            }
            Change::Rate { flow, rate_millipps } => self.change_rate(flow, rate_millipps, now_ns),
        }
    }

    fn change_rate(&mut self, flow: FlowId, rate_millipps: u64, now_ns: u64) {
        self.catch_up(now_ns);
        for wire in &mut self.wires {
            wire.feed.set_rate(flow, rate_millipps);
        }
        for port in &mut self.ports {
            port.feed.set_rate(flow, rate_millipps);
        }
        for connection in &mut self.connections {
            if connection.flow == flow && connection.pace.is_some() {
                connection.pace = Some(sources::Pace::new(rate_millipps));
            }
        }
    }

    /// Frames that are still somewhere, by flow; takes them out.
    pub(crate) fn drain(&mut self) -> Table<FlowId, u64> {
        let mut left = Table::filled(0, self.names.flows.len());
        let mut tell = |flow: FlowId| left[flow] += 1;
        for ring in &mut self.rings {
            ring.frames.drain(..).for_each(|frame| tell(frame.flow));
            ring.coming.drain(..).for_each(|(_, frame)| tell(frame.flow));
        }
        self.queues.iter_mut().for_each(|queue| queue.backlog.drain(&mut tell));
        self.ports.iter_mut().for_each(|port| port.drain(&mut tell));
        for worker in &mut self.workers {
            if let Some(frame) = worker.frame.take() {
                tell(frame.flow);
            }
        }
        left
    }
}
