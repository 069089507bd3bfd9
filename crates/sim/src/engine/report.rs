//! From the engine's tables to results.

use std::collections::BTreeMap;

use isolane_histogram::Histogram;

use super::{
    accounting::{self, FlowAccount, Tally},
    cpu::PS,
    frame_path::Host,
    ids::{ContextId, FlowId, RouterId, StageId, Table},
    names::{Names, StageInfo},
    network::DropPoint,
    workers::SegmentAccount,
};
use crate::{
    model::{ContextKind, Mode},
    results::{
        BinCount, ContextTime, CoreTime, Count, Delay, DropPointCount, Flow, StageTime, Window,
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
    sum.again += tally.again;
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
    for (to, from) in sum.bin_delays.iter_mut().zip(&account.bin_delays) {
        to.merge(from);
    }
}

/// The delays of the frames that were offered in the window; those that did not arrive are infinite.
fn delays_with_lost(account: &FlowAccount) -> Histogram {
    let mut delays = account.delays.clone();
    delays.add_lost(account.window.offered.frames.saturating_sub(delays.count()));
    delays
}

/// CPU accounting of a context: its time by account and by mode, ns.
#[derive(Default)]
struct Split {
    accounts: BTreeMap<String, i64>,
    modes: BTreeMap<Mode, i64>,
}

impl Split {
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
struct StageWork {
    frames: u64,
    polls: u64,
    ps: u64,
    /// Of frames alone: number and ps by router.
    routers: BTreeMap<RouterId, (u64, u64)>,
}

impl StageWork {
    fn add(&mut self, stage: &StageInfo, router: RouterId, account: SegmentAccount) {
        let ps = account.frames * stage.frame_ps
            + account.bytes * stage.byte_ps
            + account.cache_misses * stage.cold_ps
            + account.refused * stage.drop_ps.unwrap_or(0);
        self.frames += account.frames;
        self.ps += ps;
        let of_router = self.routers.entry(router).or_default();
        of_router.0 += account.frames;
        of_router.1 += ps;
    }
}

/// Where the window's time went.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) window_ns: (u64, u64),
    pub(super) cores: Vec<CoreTime>,
    pub(super) contexts: Vec<ContextTime>,
    pub(super) stages: Vec<StageTime>,
}

/// What there is to report of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report<'a> {
    pub(super) host: &'a Host,
    pub(super) stages: &'a Table<StageId, StageInfo>,
    pub(super) names: &'a Names,
}

impl Report<'_> {
    /// `left`: frames that are still somewhere.
    pub(super) fn flows(&self, left: &Table<FlowId, u64>) -> Vec<Flow> {
        let flows = self.names.flows.enumerate();
        flows
            .map(|(flow, name)| {
                let router = &self.names.routers[self.names.router_of[flow]];
                self.flow(name, router, &self.host.accounting.flows[flow], left[flow])
            })
            .collect()
    }

    /// Where the window's time went; it ends now.
    pub(super) fn times(&self, now_ns: u64) -> Times {
        let window_ns = (self.host.accounting.window_ns.0.min(now_ns), now_ns);
        let stages = self.stage_work();
        let splits: Vec<Split> =
            self.host.cpu.contexts().ids().map(|id| self.split_of(id, &stages)).collect();
        Times {
            window_ns,
            cores: self.core_times(&splits, window_ns.1 - window_ns.0),
            contexts: self.context_times(splits),
            stages: self.stage_times(&stages),
        }
    }

    pub(super) fn routers(&self, left: &Table<FlowId, u64>) -> Vec<Flow> {
        let mut routers = Vec::new();
        for (router, name) in self.names.routers.enumerate() {
            let of = || left.ids().filter(|&flow| self.names.router_of[flow] == router);
            let Some(first) = of().next() else { continue };
            let mut sum = self.host.accounting.flows[first].empty_like();
            of().for_each(|flow| add_account(&mut sum, &self.host.accounting.flows[flow]));
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
        let bins = account.bins.iter().zip(&account.bin_delays).map(|(bin, delays)| BinCount {
            offered: bin.offered,
            received: bin.received,
            received_bytes: bin.received_bytes,
            delay_p99_ns: delays.quantile_ns(9_900),
        });
        Flow {
            name: name.to_owned(),
            router: router.to_owned(),
            offered: count(account.total.offered),
            received: count(account.total.received),
            drops: drops(&account.total),
            again: account.total.again,
            left,
            window: Window {
                offered: count(account.window.offered),
                received: count(account.window.received),
                drops: drops(&account.window),
            },
            delay: Delay::from(&delays_with_lost(account)),
            captures: captures
                .map(|(stage, delays)| (self.stages[*stage].name.clone(), Delay::from(delays)))
                .collect(),
            bins: bins.collect(),
        }
    }

    pub(super) fn drop_point_counts(&self) -> Vec<DropPointCount> {
        let drop_points = self.names.drop_points.enumerate();
        drop_points
            .map(|(id, (name, at))| {
                let kind = match at {
                    DropPoint::Ring(_) => "ring",
                    DropPoint::Queue(_) => "queue",
                    DropPoint::Port(_) => "port",
                };
                let (occupancy, left) = self.host.network.occupancy(*at);
                let flows = self.host.accounting.flows.iter();
                DropPointCount {
                    name: name.clone(),
                    kind,
                    entered: occupancy.entered,
                    dropped: flows.map(|flow| flow.total.drops[id]).sum(),
                    left: left as u64,
                    max: occupancy.max_len as u64,
                }
            })
            .collect()
    }

    fn stage_work(&self) -> Table<StageId, StageWork> {
        let mut stages = Table::filled(StageWork::default(), self.stages.len());
        for worker in self.host.workers.workers() {
            if let Some(stage) = worker.stage {
                stages[stage].polls += worker.account.polls;
                stages[stage].ps += worker.account.polls * self.stages[stage].poll_ps;
            }
            for (router, segment) in worker.segments.enumerate() {
                let Some(segment) = segment else { continue };
                for &stage in &segment.stages {
                    stages[stage].add(&self.stages[stage], router, segment.account);
                }
            }
        }
        stages
    }

    fn split_of(&self, id: ContextId, stages: &Table<StageId, StageWork>) -> Split {
        let (cpu, workers) = (&self.host.cpu, &self.host.workers);
        let context = &cpu.contexts()[id];
        let own = match context.kind {
            ContextKind::Process => Mode::User,
            _ => Mode::Kernel,
        };
        let mut split = Split::default();
        for (info, work) in self.stages.iter().zip(stages) {
            if info.context == id {
                split.add(&info.account, info.mode, signed(work.ps / PS));
            }
        }
        for (worker, of) in workers.workers().enumerate() {
            if cpu.context_of(worker) == id {
                let mode = of.stage.map_or(own, |stage| self.stages[stage].mode);
                split.add("notify", mode, signed(of.account.notify_ps / PS));
            }
        }
        for load in workers.loads() {
            if cpu.context_of(load.worker) == id {
                split.add(&load.name, own, signed(load.done_ns));
            }
        }
        let (account, costs) = (&context.account, context.costs());
        split.add("switch", cpu.cores()[context.core].mode, signed(account.switch_ps / PS));
        let wake_ps = account.wakes * costs.wake_ps;
        split.add("wake", costs.wake_mode, signed(wake_ps / PS));
        let exit_ps = account.exits * costs.exit_ps;
        split.add("exit", costs.wake_mode, signed(exit_ps / PS));
        split.add("unfinished", own, account.edge_ns + self.host.under_way_ns(id));
        split
    }

    fn core_times(&self, splits: &[Split], window_ns: u64) -> Vec<CoreTime> {
        let cores = self.host.cpu.cores().enumerate();
        cores
            .map(|(index, core)| {
                let account = &core.account;
                let mut modes = BTreeMap::from([(core.mode, i128::from(account.interrupt_ns))]);
                for (context, split) in self.host.cpu.contexts().iter().zip(splits) {
                    let here = i128::from(context.account.cpu_ns[index]);
                    let all: i128 = context.account.cpu_ns.iter().copied().map(i128::from).sum();
                    for (mode, ns) in &split.modes {
                        *modes.entry(*mode).or_default() += i128::from(*ns) * here / all.max(1);
                    }
                }
                CoreTime {
                    name: core.name.clone(),
                    window_ns,
                    busy_ns: account.interrupt_ns + account.softirq_ns + account.thread_ns,
                    irq_ns: account.interrupt_ns,
                    softirq_ns: account.softirq_ns,
                    ksoftirqd_ns: account.ksoftirqd_ns,
                    thread_ns: account.thread_ns,
                    switches: account.switches,
                    interrupts: account.interrupts,
                    modes: modes
                        .into_iter()
                        .map(|(mode, ns)| (mode.name(), u64::try_from(ns).unwrap_or(0)))
                        .collect(),
                }
            })
            .collect()
    }

    fn context_times(&self, splits: Vec<Split>) -> Vec<ContextTime> {
        let (cores, contexts) = (self.host.cpu.cores(), self.host.cpu.contexts());
        contexts
            .iter()
            .zip(splits)
            .map(|(context, split)| {
                let by_core = cores.iter().zip(&context.account.cpu_ns);
                ContextTime {
                    name: context.name.clone(),
                    kind: match context.kind {
                        _ if context.is_ksoftirqd => "ksoftirqd",
                        ContextKind::Softirq => "softirq",
                        ContextKind::Thread => "thread",
                        ContextKind::Process => "process",
                        ContextKind::Vcpu => "vcpu",
                    },
                    cpu_ns: context.account.cpu_ns.iter().sum(),
                    cores: by_core
                        .filter(|(_, ns)| **ns > 0)
                        .map(|(core, ns)| (core.name.clone(), *ns))
                        .collect(),
                    modes: split.modes.into_iter().map(|(mode, ns)| (mode.name(), ns)).collect(),
                    accounts: split.accounts,
                    wakes: context.account.wakes,
                    switches: context.account.switches,
                }
            })
            .collect()
    }

    fn stage_times(&self, stages: &Table<StageId, StageWork>) -> Vec<StageTime> {
        let infos = self.stages.iter().zip(stages);
        infos
            .map(|(info, done)| StageTime {
                name: info.name.clone(),
                context: self.host.cpu.contexts()[info.context].name.clone(),
                account: info.account.clone(),
                mode: info.mode.name(),
                frames: done.frames,
                polls: done.polls,
                cpu_ns: done.ps / PS,
                routers: self.stage_by_router(info, done),
            })
            .collect()
    }

    fn stage_by_router(&self, info: &StageInfo, done: &StageWork) -> BTreeMap<String, u64> {
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
