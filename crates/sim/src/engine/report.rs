//! From the engine's tables to results.

use std::collections::BTreeMap;

use super::{
    DropPoint, Engine, StageInfo,
    accounting::{self, FlowAccount, Tally},
    ids::{ContextId, FlowId, RouterId, StageId, Table},
    worker::PS,
};
use crate::{
    model::{ContextKind, Mode},
    results::{
        BinCount, ContextTime, CoreTime, Count, Delay, Flow, PlaceCount, Results, StageTime, Window,
    },
};

fn count(count: accounting::Count) -> Count {
    Count { frames: count.frames, bytes: count.bytes }
}

fn add_tally(sum: &mut Tally, tally: &Tally) {
    for (to, from) in [(&mut sum.offered, tally.offered), (&mut sum.received, tally.received)] {
        to.frames += from.frames;
        to.bytes += from.bytes;
    }
    for (to, from) in sum.drops.iter_mut().zip(&tally.drops) {
        *to += from;
    }
}

fn add_account(sum: &mut FlowAccount, account: &FlowAccount) {
    add_tally(&mut sum.total, &account.total);
    add_tally(&mut sum.window, &account.window);
    sum.delays.merge(&account.delays);
    for (stage, histogram) in &account.captures {
        if let Some((_, to)) = sum.captures.iter_mut().find(|(at, _)| at == stage) {
            to.merge(histogram);
        } else {
            sum.captures.push((*stage, histogram.clone()));
        }
    }
    for (to, from) in sum.bins.iter_mut().zip(&account.bins) {
        to.offered += from.offered;
        to.received += from.received;
        to.received_bytes += from.received_bytes;
    }
}

/// A context's bill by account and by mode, ns.
#[derive(Default)]
struct Bill {
    accounts: BTreeMap<String, i64>,
    modes: BTreeMap<Mode, i64>,
}

impl Bill {
    fn add(&mut self, account: &str, mode: Mode, ns: i64) {
        if ns != 0 {
            *self.accounts.entry(account.to_owned()).or_default() += ns;
            *self.modes.entry(mode).or_default() += ns;
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Frames, polls and ps of a stage.
#[derive(Clone, Default)]
struct Done {
    frames: u64,
    polls: u64,
    ps: u64,
    /// Of frames alone: number and ps by router.
    routers: BTreeMap<RouterId, (u64, u64)>,
}

/// Where the window's time went.
#[derive(Debug)]
pub(crate) struct Times {
    window_ns: (u64, u64),
    cores: Vec<CoreTime>,
    contexts: Vec<ContextTime>,
    stages: Vec<StageTime>,
}

impl Engine {
    /// The results so far; the engine is done.
    pub(crate) fn report(mut self, finished: bool) -> Results {
        let times = self.times.take().expect("the window has ended");
        let places = self.place_counts();
        let left = self.drain();
        let flows = self
            .names
            .flows
            .ids()
            .map(|flow| {
                let router = &self.names.routers[self.names.router_of[flow]];
                self.flow(&self.names.flows[flow], router, &self.accounting.flows[flow], left[flow])
            })
            .collect();
        Results {
            interrupted: !finished,
            ended_ns: self.now_ns,
            window_ns: times.window_ns,
            events: self.steps,
            flows,
            routers: self.routers(&left),
            places,
            cores: times.cores,
            contexts: times.contexts,
            stages: times.stages,
        }
    }

    /// Where the window's time went; it ends now.
    pub(crate) fn window_times(&self, now_ns: u64) -> Times {
        let window_ns = (self.accounting.window_ns.0.min(now_ns), now_ns);
        let stages = self.stage_work();
        let bills: Vec<Bill> = self.contexts.ids().map(|id| self.bill_of(id, &stages)).collect();
        Times {
            window_ns,
            cores: self.core_times(&bills, window_ns.1 - window_ns.0),
            contexts: self.context_times(bills),
            stages: self.stage_times(&stages),
        }
    }

    fn routers(&self, left: &Table<FlowId, u64>) -> Vec<Flow> {
        let mut routers = Vec::new();
        for (router, name) in self.names.routers.enumerate() {
            let of = || left.ids().filter(|&flow| self.names.router_of[flow] == router);
            let Some(first) = of().next() else { continue };
            let mut sum = self.accounting.flows[first].empty_like();
            of().for_each(|flow| add_account(&mut sum, &self.accounting.flows[flow]));
            routers.push(self.flow(name, name, &sum, of().map(|flow| left[flow]).sum()));
        }
        routers
    }

    fn flow(&self, name: &str, router: &str, account: &FlowAccount, left: u64) -> Flow {
        let drops = |tally: &Tally| {
            let named = self.names.drop_points.iter().zip(&tally.drops);
            named.filter(|(_, n)| **n > 0).map(|((name, _), n)| (name.clone(), *n)).collect()
        };
        let captures = account.captures.iter();
        let bins = account.bins.iter().map(|bin| BinCount {
            offered: bin.offered,
            received: bin.received,
            received_bytes: bin.received_bytes,
        });
        Flow {
            name: name.to_owned(),
            router: router.to_owned(),
            offered: count(account.total.offered),
            received: count(account.total.received),
            drops: drops(&account.total),
            left,
            window: Window {
                offered: count(account.window.offered),
                received: count(account.window.received),
                drops: drops(&account.window),
            },
            delay: Delay::from(&account.delays),
            captures: captures
                .map(|(stage, delays)| (self.stages[*stage].name.clone(), Delay::from(delays)))
                .collect(),
            bins: bins.collect(),
        }
    }

    fn place_counts(&self) -> Vec<PlaceCount> {
        let places = self.names.drop_points.enumerate();
        places
            .map(|(index, (name, at))| {
                let (kind, entered, left, most) = match *at {
                    DropPoint::Ring(ring) => {
                        let ring = &self.rings[ring];
                        ("ring", ring.entered, ring.frames.len(), ring.most)
                    }
                    DropPoint::Queue(queue) => {
                        let queue = &self.queues[queue];
                        ("queue", queue.entered, queue.backlog.len(), queue.most)
                    }
                    DropPoint::Port(port) => {
                        let port = &self.ports[port];
                        ("port", port.entered, port.len(), port.most)
                    }
                };
                let dropped =
                    self.accounting.flows.iter().map(|flow| flow.total.drops[index]).sum();
                let (left, most) = (left as u64, most as u64);
                PlaceCount { name: name.clone(), kind, entered, dropped, left, most }
            })
            .collect()
    }

    fn stage_work(&self) -> Table<StageId, Done> {
        let mut stages = Table::filled(Done::default(), self.stages.len());
        for worker in &self.workers {
            if let Some(stage) = worker.stage {
                stages[stage].polls += worker.polls;
                stages[stage].ps += worker.polls * self.stages[stage].poll_ps;
            }
            for (router, route) in worker.routes.enumerate() {
                let Some(route) = route else { continue };
                for &stage in &route.stages {
                    let (info, done) = (&self.stages[stage], &mut stages[stage]);
                    let ps = route.frames * info.frame_ps
                        + route.bytes * info.byte_ps
                        + route.colds * info.cold_ps
                        + route.refused * info.drop_ps.unwrap_or(0);
                    done.frames += route.frames;
                    done.ps += ps;
                    let of_router = done.routers.entry(router).or_default();
                    of_router.0 += route.frames;
                    of_router.1 += ps;
                }
            }
        }
        stages
    }

    fn bill_of(&self, id: ContextId, stages: &Table<StageId, Done>) -> Bill {
        let context = &self.contexts[id];
        let own = match context.kind {
            ContextKind::Process => Mode::User,
            _ => Mode::Kernel,
        };
        let mut bill = Bill::default();
        for (info, done) in self.stages.iter().zip(stages) {
            if info.context == id {
                bill.add(&info.account, info.mode, signed(done.ps / PS));
            }
        }
        for worker in self.workers.iter().filter(|worker| worker.context == id) {
            let mode = worker.stage.map_or(own, |stage| self.stages[stage].mode);
            bill.add("notify", mode, signed(worker.notify_ps / PS));
        }
        for load in &self.loads {
            if self.workers[load.worker].context == id {
                bill.add(&load.name, own, signed(load.done_ns));
            }
        }
        let core = self.cores[context.core].mode;
        bill.add("switch", core, signed(context.bill.switch_ps / PS));
        let wake_ps = context.bill.wakes * context.wake_ps;
        bill.add("wake", context.wake_mode, signed(wake_ps / PS));
        let exit_ps = context.bill.exits * context.exit_ps;
        bill.add("exit", context.wake_mode, signed(exit_ps / PS));
        bill.add("unfinished", own, context.bill.edge_ns + self.under_way_ns(id));
        bill
    }

    fn core_times(&self, bills: &[Bill], window_ns: u64) -> Vec<CoreTime> {
        let cores = self.cores.enumerate();
        cores
            .map(|(index, core)| {
                let bill = &core.bill;
                let mut modes = BTreeMap::from([(core.mode, i128::from(bill.interrupt_ns))]);
                for (context, split) in self.contexts.iter().zip(bills) {
                    let here = i128::from(context.bill.cpu_ns[index]);
                    let all: i128 = context.bill.cpu_ns.iter().copied().map(i128::from).sum();
                    for (mode, ns) in &split.modes {
                        *modes.entry(*mode).or_default() += i128::from(*ns) * here / all.max(1);
                    }
                }
                CoreTime {
                    name: core.name.clone(),
                    window_ns,
                    busy_ns: bill.interrupt_ns + bill.softirq_ns + bill.thread_ns,
                    irq_ns: bill.interrupt_ns,
                    softirq_ns: bill.softirq_ns,
                    ksoftirqd_ns: bill.ksoftirqd_ns,
                    thread_ns: bill.thread_ns,
                    switches: bill.switches,
                    interrupts: bill.interrupts,
                    modes: modes
                        .into_iter()
                        .map(|(mode, ns)| (mode.name(), u64::try_from(ns).unwrap_or(0)))
                        .collect(),
                }
            })
            .collect()
    }

    fn context_times(&self, bills: Vec<Bill>) -> Vec<ContextTime> {
        self.contexts
            .iter()
            .zip(bills)
            .map(|(context, bill)| {
                let by_core = self.cores.iter().zip(&context.bill.cpu_ns);
                ContextTime {
                    name: context.name.clone(),
                    kind: match context.kind {
                        _ if context.is_ksoftirqd => "ksoftirqd",
                        ContextKind::Softirq => "softirq",
                        ContextKind::Thread => "thread",
                        ContextKind::Process => "process",
                        ContextKind::Vcpu => "vcpu",
                    },
                    cpu_ns: context.bill.cpu_ns.iter().sum(),
                    cores: by_core
                        .filter(|(_, ns)| **ns > 0)
                        .map(|(core, ns)| (core.name.clone(), *ns))
                        .collect(),
                    modes: bill.modes.into_iter().map(|(mode, ns)| (mode.name(), ns)).collect(),
                    accounts: bill.accounts,
                    wakes: context.bill.wakes,
                    switches: context.bill.switches,
                }
            })
            .collect()
    }

    fn stage_times(&self, stages: &Table<StageId, Done>) -> Vec<StageTime> {
        let infos = self.stages.iter().zip(stages);
        infos
            .map(|(info, done)| StageTime {
                name: info.name.clone(),
                context: self.contexts[info.context].name.clone(),
                account: info.account.clone(),
                mode: info.mode.name(),
                frames: done.frames,
                polls: done.polls,
                cpu_ns: done.ps / PS,
                routers: self.stage_by_router(info, done),
            })
            .collect()
    }

    fn stage_by_router(&self, info: &StageInfo, done: &Done) -> BTreeMap<String, u64> {
        if done.routers.len() < 2 {
            return BTreeMap::new();
        }
        let polls_ps = u128::from(done.polls * info.poll_ps);
        let routers = done.routers.iter();
        routers
            .map(|(router, (frames, ps))| {
                let share_ps = polls_ps * u128::from(*frames) / u128::from(done.frames.max(1));
                let share_ps = u64::try_from(share_ps).unwrap_or(0);
                (self.names.routers[*router].clone(), (ps + share_ps) / PS)
            })
            .collect()
    }
}
