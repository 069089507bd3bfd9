//! A frame's way through the host, from top to bottom: wire, receive ring, interrupt, poll, work, queue or port,
//! wire again. Each step asks the part of the host that it concerns, and nothing here has state of its own:
//!
//! - [`Network`]: where frames are, and where there is room;
//! - [`Cpu`]: who has which core, and when a piece of work is done;
//! - [`Workers`]: what is done with a frame, and what that costs;
//! - [`FrameAccounting`]: what became of it;
//! - [`Requests`]: frames that go through a router several times;
//! - [`Events`]: what happens at a time of its own.
//!
//! `docs/simulator/engine.md` walks through it.

mod arrivals;
mod onward;
mod polls;
mod turns;
mod work;

use isolane_sched::FlowSettings;

use super::{
    accounting::FrameAccounting,
    cpu::{Cpu, Job, Work},
    events::{Event, Events},
    ids::{ContextId, FlowId, Table, WorkerId},
    network::{DropPoint, Network},
    requests::Requests,
    workers::{Worker, Workers},
};

/// The parts that a frame passes.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) events: Events,
    pub(crate) cpu: Cpu,
    pub(crate) network: Network,
    pub(crate) workers: Workers,
    pub(crate) accounting: FrameAccounting,
    pub(crate) requests: Requests,
}

/// The whole host at once.
impl Host {
    /// A worker whose polls run in this context.
    pub(crate) fn add_worker(&mut self, context: ContextId, worker: Worker) -> WorkerId {
        self.workers.add(worker);
        self.cpu.add_poll(context)
    }

    /// The first events of rings and senders.
    pub(crate) fn begin(&mut self) {
        self.network.begin();
        for ring in self.network.polled_rings().collect::<Vec<_>>() {
            self.arm(ring, 0);
        }
        for id in self.workers.connections().ids() {
            let connection = &self.workers[id];
            let (worker, due_ns) = (connection.worker, connection.due_ns);
            self.plan_retry(worker, due_ns);
        }
        for (id, load) in self.workers.loads().enumerate() {
            self.events.push(load.start_ns, Event::Load(id));
        }
        self.begin_requests();
    }

    /// Brings all wires and ports up to now.
    pub(crate) fn catch_up(&mut self, now_ns: u64) {
        for wire in self.network.wires() {
            self.advance_wire(wire, now_ns);
        }
        for port in self.network.ports() {
            self.advance_port(port, now_ns);
        }
    }

    /// From now on a flow comes at this rate.
    pub(crate) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64, now_ns: u64) {
        self.catch_up(now_ns);
        self.network.set_rate(flow, rate_millipps);
        self.workers.set_rate(flow, rate_millipps);
    }

    /// From now on a flow has these settings in a packet scheduler.
    pub(crate) fn set_flow(
        &mut self,
        at: DropPoint,
        flow: u32,
        settings: FlowSettings,
        now_ns: u64,
    ) {
        if let DropPoint::Port(port) = at {
            self.advance_port(port, now_ns);
        }
        if let Some(worker) = self.network.set_flow(at, flow, settings, now_ns) {
            self.schedule_poll(worker, now_ns);
        }
    }

    /// How much of the work that a context has at hand is done already, and how much that it is
    /// charged for is still to be done, ns: the difference.
    pub(crate) fn under_way_ns(&self, context: ContextId) -> i64 {
        let jobs = self.cpu.at_hand(context).into_iter();
        let progress_ns: i64 = jobs.map(|job| self.progress_ns(job)).sum();
        progress_ns - signed(self.cpu.overhead_ns(context))
    }

    /// Positive: done but not yet charged. Negative: charged but not yet done.
    fn progress_ns(&self, rest: Job) -> i64 {
        let whole_ns = match rest.work {
            Work::Frame(worker) => self.workers[worker].frame_ns(),
            Work::Load(load) => self.workers[load].piece_ns,
            Work::Poll(_)
            | Work::Refuse(_)
            | Work::Notify(_)
            | Work::Overhead(_)
            | Work::Ring(_)
            | Work::Tick => 0,
        };
        signed(whole_ns) - signed(rest.cost_ns)
    }

    /// The window begins: CPU time counts from here.
    pub(crate) fn begin_window(&mut self, now_ns: u64) {
        self.cpu.cut(now_ns);
        self.workers.begin_window();
        let ids = self.cpu.contexts().ids();
        let under_way_ns: Table<ContextId, i64> = ids.map(|id| self.under_way_ns(id)).collect();
        self.cpu.begin_window(&under_way_ns);
    }

    /// Takes out all frames that are still somewhere: how many, by flow.
    pub(crate) fn drain(&mut self, flows: usize) -> Table<FlowId, u64> {
        let mut left = Table::filled(0, flows);
        let mut tell = |flow: FlowId| left[flow] += 1;
        self.network.drain(&mut tell);
        self.workers.drain(&mut tell);
        self.requests.drain(&mut tell);
        left
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(0)
}
