//! The engine. Its clock jumps from one event, or one completed piece of work, to the next; ties go to
//! events, then to the core with the lower number.

pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod books;
pub(crate) mod cfs;
pub(crate) mod core;
pub(crate) mod credit;
mod events;
pub(crate) mod line;
pub(crate) mod load;
pub(crate) mod network;
mod report;
pub(crate) mod shared;
mod softirq;
pub(crate) mod source;
pub(crate) mod worker;

use isolane_sched::FlowSettings;

use self::{
    books::Books,
    core::{Context, Core, CpuScheduler},
    credit::Credit,
    events::{Event, Events},
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
    pub(crate) context: usize,
    pub(crate) account: String,
    pub(crate) mode: Mode,
    pub(crate) frame_ps: u64,
    pub(crate) byte_ps: u64,
    pub(crate) poll_ps: u64,
    pub(crate) cold_ps: u64,
    /// None: it does not look for a place behind it.
    pub(crate) drop_ps: Option<u64>,
}

/// A place of drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Ring(usize),
    Queue(usize),
    Port(usize),
}

/// A change, with names resolved.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Flow { place: Place, flow: u32, settings: FlowSettings },
    Shares { group: usize, shares: u64 },
    Vcpu { context: usize, weight: u32, cap_pct: u32 },
    Rate { flow: u16, rate_mpps: u64 },
}

/// Names, for the report.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) flows: Vec<String>,
    pub(crate) routers: Vec<String>,
    pub(crate) places: Vec<(String, Place)>,
    /// Router of each flow.
    pub(crate) router_of: Vec<u16>,
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) now_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) steps: u64,
    pub(crate) events: Events,
    pub(crate) cores: Vec<Core>,
    pub(crate) contexts: Vec<Context>,
    /// By core and number in its CFS: the context.
    pub(crate) tasks: Vec<Vec<usize>>,
    /// By number in the credit scheduler: the context.
    pub(crate) vcpus: Vec<usize>,
    /// By group: its number in each core's CFS.
    pub(crate) groups: Vec<Vec<Option<usize>>>,
    pub(crate) credit: Option<Credit>,
    pub(crate) softirq_rules: Softirq,
    pub(crate) workers: Vec<Worker>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) rings: Vec<Ring>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) shared: Vec<shared::Shared>,
    pub(crate) ports: Vec<Port>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) loads: Vec<Load>,
    pub(crate) changes: Vec<(u64, Change)>,
    pub(crate) stages: Vec<StageInfo>,
    pub(crate) books: Books,
    pub(crate) names: Names,
    /// The CPU figures, once the window has ended.
    pub(crate) times: Option<report::Times>,
    /// Whether it is time to ask.
    ask: bool,
    /// Cores to be looked at after what happens now.
    pub(crate) kicks: Vec<usize>,
}

impl Engine {
    /// An engine without anything in it.
    pub(crate) fn empty(end_ns: u64, softirq_rules: Softirq, books: Books) -> Self {
        Self {
            now_ns: 0,
            end_ns,
            steps: 0,
            events: Events::new(),
            cores: Vec::new(),
            contexts: Vec::new(),
            tasks: Vec::new(),
            vcpus: Vec::new(),
            groups: Vec::new(),
            credit: None,
            softirq_rules,
            workers: Vec::new(),
            wires: Vec::new(),
            rings: Vec::new(),
            queues: Vec::new(),
            shared: Vec::new(),
            ports: Vec::new(),
            connections: Vec::new(),
            loads: Vec::new(),
            changes: Vec::new(),
            stages: Vec::new(),
            books,
            names: Names::default(),
            times: None,
            ask: false,
            kicks: Vec::new(),
        }
    }

    /// The first events.
    fn begin(&mut self) {
        self.events.push(self.books.window_ns.0, Event::Window);
        self.events.push(self.books.window_ns.1, Event::WindowEnd);
        self.events.push(0, Event::Sync);
        for wire in &mut self.wires {
            wire.feed.sort();
            wire.look();
        }
        for port in &mut self.ports {
            port.feed.sort();
        }
        for ring in 0..self.rings.len() {
            if self.rings[ring].worker != usize::MAX {
                self.arm(ring, 0);
            }
        }
        for connection in 0..self.connections.len() {
            let Connection { worker, due_ns, .. } = self.connections[connection];
            self.plan_retry(worker, due_ns);
        }
        for (index, load) in self.loads.iter().enumerate() {
            self.events.push(load.start_ns, Event::Load(index));
        }
        for (index, (at_ns, _)) in self.changes.iter().enumerate() {
            self.events.push(*at_ns, Event::Change(index));
        }
        for (index, core) in self.cores.iter().enumerate() {
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
            let (mut at_ns, mut core) = (self.events.next_ns(), usize::MAX);
            for (index, candidate) in self.cores.iter().enumerate() {
                if candidate.due_ns < at_ns {
                    (at_ns, core) = (candidate.due_ns, index);
                }
            }
            if at_ns >= self.end_ns {
                self.now_ns = self.end_ns;
                break true;
            }
            self.now_ns = at_ns;
            if core == usize::MAX {
                let (_, event) = self.events.pop().expect("it is due");
                self.handle(event, at_ns);
            } else {
                self.complete(core, at_ns);
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
        for wire in 0..self.wires.len() {
            self.advance_wire(wire, now_ns);
        }
        for port in 0..self.ports.len() {
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
        for id in 0..self.contexts.len() {
            let edge_ns = -self.under_way_ns(id);
            self.contexts[id].before_ns = self.contexts[id].ran_ns();
            self.contexts[id].bill =
                core::ContextBill { cpu_ns: vec![0; cores], edge_ns, ..Default::default() };
        }
    }

    fn end_window(&mut self, now_ns: u64) {
        self.cut(now_ns);
        self.times = Some(self.window_times(now_ns));
    }

    fn change(&mut self, index: usize, now_ns: u64) {
        match self.changes[index].1.clone() {
            Change::Flow { place, flow, settings } => match place {
                Place::Port(port) => {
                    self.advance_port(port, now_ns);
                    if let Some(backlog) = &mut self.ports[port].backlog {
                        backlog.set(flow, settings, now_ns);
                    }
                }
                Place::Queue(queue) => {
                    self.queues[queue].backlog.set(flow, settings, now_ns);
                    self.raise(self.queues[queue].worker, now_ns);
                }
                Place::Ring(_) => {}
            },
            Change::Shares { group, shares } => {
                for (core, entity) in self.groups[group].iter().enumerate() {
                    if let (Some(entity), CpuScheduler::Cfs(cfs)) =
                        (*entity, &mut self.cores[core].scheduler)
                    {
                        cfs.set_weight(entity, shares);
                    }
                }
            }
            Change::Vcpu { context, weight, cap_pct } => {
                let entity = self.contexts[context].entity;
                if let Some(credit) = &mut self.credit {
                    credit.set(entity, weight, cap_pct);
                }
            }
            Change::Rate { flow, rate_mpps } => self.change_rate(flow, rate_mpps, now_ns),
        }
    }

    fn change_rate(&mut self, flow: u16, rate_mpps: u64, now_ns: u64) {
        self.catch_up(now_ns);
        let wires = self.wires.iter_mut().map(|wire| &mut wire.feed);
        let ports = self.ports.iter_mut().map(|port| &mut port.feed);
        for source in wires.chain(ports).flat_map(|feed| &mut feed.sources) {
            if source.flow == flow {
                source.gaps.set_rate(rate_mpps);
            }
        }
        for connection in &mut self.connections {
            if connection.flow == flow && connection.pace.is_some() {
                connection.pace = Some(source::Pace::new(rate_mpps));
            }
        }
    }

    /// Frames that are still somewhere, by flow; takes them out.
    pub(crate) fn drain(&mut self) -> Vec<u64> {
        let mut left = vec![0; self.names.flows.len()];
        let mut tell = |flow: u16| left[flow as usize] += 1;
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
