//! The engine. Its clock jumps from one event, or one completed piece of work, to the next; ties go to
//! events, then to the core with the lower number.
//!
//! | file | what it has |
//! | --- | --- |
//! | `frame_path/` | a frame's way, from wire to wire, and the parts that it passes |
//! | `network/` | where frames are: wires, rings, queues, ports |
//! | `cpu/` | who has which core: interrupts, softirqs, CFS, Xen's credit scheduler |
//! | `workers.rs`, `senders.rs`, `load.rs` | what is done, and what it costs |
//! | `requests.rs` | frames that go through a router several times |
//! | `accounting.rs`, `report.rs` | what became of each frame and of CPU time |
//! | `events.rs` | what happens at a time of its own |
//! | `frame.rs`, `ids.rs`, `names.rs` | a frame; numbers of things; their names |

pub(crate) mod accounting;
pub(crate) mod cpu;
mod events;
pub(crate) mod frame;
mod frame_path;
pub(crate) mod ids;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod network;
mod report;
pub(crate) mod requests;
pub(crate) mod senders;
pub(crate) mod workers;

use isolane_sched::FlowSettings;

use self::{
    accounting::FrameAccounting,
    cpu::Cpu,
    events::{Event, Events},
    ids::{ChangeId, ContextId, FlowId, GroupId, StageId, Table},
    names::{Names, StageInfo},
    network::Network,
    report::{Report, Times},
    requests::Requests,
    workers::Workers,
};
pub(crate) use self::{frame::NEVER, frame_path::Host, network::DropPoint};
use crate::results::Results;

/// How often the caller is asked whether to stop: after so many pieces of work and events.
const ASK_EVERY: u64 = 1 << 14;
/// How often lazily updated wires and ports are brought up to date at the latest, ns.
const SYNC_NS: u64 = 1_000_000;

/// A change, with names resolved.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Flow { at: DropPoint, flow: u32, settings: FlowSettings },
    Shares { group: GroupId, shares: u64 },
    Vcpu { context: ContextId, weight: u32, cap_pct: u32 },
    Rate { flow: FlowId, rate_millipps: u64 },
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) host: Host,
    pub(crate) changes: Table<ChangeId, (u64, Change)>,
    pub(crate) stages: Table<StageId, StageInfo>,
    pub(crate) names: Names,
    now_ns: u64,
    end_ns: u64,
    /// Events and pieces of work.
    steps: u64,
    /// The CPU figures, once the window has ended.
    times: Option<Times>,
    /// Whether it is time to ask the caller.
    ask: bool,
}

impl Engine {
    /// An engine that has cores, and nothing that uses them.
    pub(crate) fn new(end_ns: u64, cpu: Cpu, accounting: FrameAccounting) -> Self {
        let (network, workers) = (Network::default(), Workers::default());
        Self {
            host: Host {
                events: Events::new(),
                cpu,
                network,
                workers,
                accounting,
                requests: Requests::default(),
            },
            changes: Table::default(),
            stages: Table::default(),
            names: Names::default(),
            now_ns: 0,
            end_ns,
            steps: 0,
            times: None,
            ask: false,
        }
    }

    /// The first events.
    fn begin(&mut self) {
        let (begin_ns, end_ns) = self.host.accounting.window_ns;
        self.host.events.push(begin_ns, Event::Window);
        self.host.events.push(end_ns, Event::WindowEnd);
        self.host.events.push(0, Event::Sync);
        self.host.begin();
        for (change, (at_ns, _)) in self.changes.enumerate() {
            self.host.events.push(*at_ns, Event::Change(change));
        }
        self.host.cpu.begin(&mut self.host.events);
    }

    /// Runs to the end, or until `stop` says so; whether it got to the end.
    pub(crate) fn run(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
        self.begin();
        let finished = loop {
            let (at_ns, core) = self.host.cpu.first_due(self.host.events.next_ns());
            if at_ns >= self.end_ns {
                self.now_ns = self.end_ns;
                break true;
            }
            self.now_ns = at_ns;
            if let Some(core) = core {
                self.host.complete(core, at_ns);
            } else {
                let (_, event) = self.host.events.pop().expect("it is due");
                self.handle(event, at_ns);
            }
            self.host.reschedule(at_ns);
            self.steps += 1;
            if self.ask && stop() {
                break false;
            }
            self.ask = self.steps.is_multiple_of(ASK_EVERY);
        };
        self.host.catch_up(self.now_ns);
        if self.times.is_none() {
            self.end_window(self.now_ns);
        }
        finished
    }

    fn handle(&mut self, event: Event, now_ns: u64) {
        let host = &mut self.host;
        match event {
            Event::Window => host.begin_window(now_ns),
            Event::WindowEnd => self.end_window(now_ns),
            Event::Sync => {
                host.catch_up(now_ns);
                host.events.push(now_ns + SYNC_NS, Event::Sync);
                // Where nothing else has events of its own.
                self.ask |= now_ns.is_multiple_of(64 * SYNC_NS);
            }
            Event::Ring(ring) => host.ring_due(ring, now_ns),
            Event::Retry(worker) => host.retry(worker, now_ns),
            Event::Port(port) => host.port_due(port, now_ns),
            Event::Tick(core) => host.cpu.tick(core, &mut host.events, now_ns),
            Event::Slice(core) => host.cpu.slice_over(core, &mut host.events, now_ns),
            Event::GiveCredit => host.cpu.give_credit(&mut host.events, now_ns),
            Event::Load(load) => host.load_due(load, now_ns),
            Event::Unblock(load) => host.unblock(load, now_ns),
            Event::Change(change) => self.change(change, now_ns),
            Event::Outside(id) => host.come_in(id, now_ns),
        }
    }

    fn end_window(&mut self, now_ns: u64) {
        self.host.cpu.cut(now_ns);
        self.times = Some(self.report().times(now_ns));
    }

    fn report(&self) -> Report<'_> {
        Report { host: &self.host, stages: &self.stages, names: &self.names }
    }

    /// The results so far; the engine is done.
    pub(crate) fn results(mut self, finished: bool) -> Results {
        let times = self.times.take().expect("the window has ended");
        let drop_points = self.report().drop_point_counts();
        let left = self.host.drain(self.names.flows.len());
        let report = self.report();
        Results {
            interrupted: !finished,
            ended_ns: self.now_ns,
            window_ns: times.window_ns,
            events: self.steps,
            flows: report.flows(&left),
            routers: report.routers(&left),
            drop_points,
            cores: times.cores,
            contexts: times.contexts,
            stages: times.stages,
        }
    }

    fn change(&mut self, change: ChangeId, now_ns: u64) {
        let host = &mut self.host;
        match self.changes[change].1.clone() {
            Change::Flow { at, flow, settings } => {
                host.set_flow(at, flow, settings, now_ns);
            }
            Change::Shares { group, shares } => host.cpu.set_shares(group, shares, now_ns),
            Change::Vcpu { context, weight, cap_pct } => {
                host.cpu.set_vcpu(context, weight, cap_pct);
            }
            Change::Rate { flow, rate_millipps } => host.set_rate(flow, rate_millipps, now_ns),
        }
    }
}
