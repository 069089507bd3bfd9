//! Xen's credit scheduler: `xen/common/sched_credit.c` as of 4.0.
//!
//! A vCPU with credit is UNDER, one without is OVER; one that wakes with credit left gets
//! a boost until the next tick that finds it running. Each core has a queue, in the order of these, and
//! takes work from others before it runs one that is OVER, or idles. A vCPU pays 100 credits a tick
//! (10 ms); every slice (30 ms) 300 credits per core are shared among active ones by weight, up to their
//! caps. Who hoards more than a slice's worth counts as inactive: it earns nothing until a tick finds it
//! running again. Each vCPU is a domain of its own.

use crate::engine::ids::{CoreId, Table, VcpuId};
use crate::model;

const PER_TICK: i64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Over,
    Under,
    Boost,
}

#[derive(Debug, Clone)]
struct Vcpu {
    weight: i64,
    cap_pct: i64,
    credit: i64,
    priority: Priority,
    active: bool,
    /// Over its cap: does not run until it has credit again.
    parked: bool,
    /// It could run.
    runnable: bool,
    /// The core whose queue it is in, or on which it runs.
    home: CoreId,
    cores: Vec<CoreId>,
    /// Paid for until then, ns (exact accounting).
    paid_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Pcpu {
    queue: Vec<VcpuId>,
    current: Option<VcpuId>,
    since_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Credit {
    settings: model::Credit,
    vcpus: Table<VcpuId, Vcpu>,
    /// By core; cores under another scheduler are empty and take no part.
    pcpus: Table<CoreId, Pcpu>,
    cores: Vec<CoreId>,
    balance: i64,
    /// In all queues together.
    waiting: usize,
}

/// Rounded up, as the original does throughout.
fn share(total: i64, part: i64, whole: i64) -> i64 {
    (total * part + whole - 1) / whole
}

impl Credit {
    pub(crate) fn new(settings: model::Credit, all_cores: usize, cores: Vec<CoreId>) -> Self {
        let pcpus = Table::filled(Pcpu::default(), all_cores);
        Self { settings, vcpus: Table::default(), pcpus, cores, balance: 0, waiting: 0 }
    }

    pub(crate) fn settings(&self) -> &model::Credit {
        &self.settings
    }

    pub(crate) fn add(&mut self, weight: u32, cap_pct: u32, cores: Vec<CoreId>) -> VcpuId {
        self.vcpus.push(Vcpu {
            weight: weight.into(),
            cap_pct: cap_pct.into(),
            credit: 0,
            priority: Priority::Under,
            active: false,
            parked: false,
            runnable: false,
            home: cores[0],
            cores,
            paid_ns: 0,
        })
    }

    pub(crate) fn set(&mut self, vcpu: VcpuId, weight: u32, cap_pct: u32) {
        self.vcpus[vcpu].weight = weight.into();
        self.vcpus[vcpu].cap_pct = cap_pct.into();
    }

    #[inline]
    pub(crate) fn home(&self, vcpu: VcpuId) -> CoreId {
        self.vcpus[vcpu].home
    }

    /// `csched_vcpu_wake`: the core that should choose anew, and from when on.
    #[inline]
    pub(crate) fn wake(&mut self, id: VcpuId, now_ns: u64) -> Option<(CoreId, u64)> {
        let vcpu = &mut self.vcpus[id];
        vcpu.runnable = true;
        if vcpu.parked {
            return None;
        }
        if vcpu.priority == Priority::Under && self.settings.boost {
            vcpu.priority = Priority::Boost;
        }
        self.insert(id);
        self.tickle(id, now_ns)
    }

    /// `__runq_tickle`.
    #[inline]
    fn tickle(&self, id: VcpuId, now_ns: u64) -> Option<(CoreId, u64)> {
        let vcpu = &self.vcpus[id];
        let pcpu = &self.pcpus[vcpu.home];
        match pcpu.current {
            None => Some((vcpu.home, now_ns)),
            Some(current) if self.vcpus[current].priority < vcpu.priority => {
                Some((vcpu.home, now_ns.max(pcpu.since_ns + self.settings.rate_limit_ns)))
            }
            Some(_) => {
                let idle = |core: &&CoreId| self.pcpus[**core].current.is_none();
                vcpu.cores.iter().find(idle).map(|&core| (core, now_ns))
            }
        }
    }

    /// `__runq_insert`: behind all of the same priority.
    #[inline]
    fn insert(&mut self, id: VcpuId) {
        self.waiting += 1;
        let Vcpu { priority, home, .. } = self.vcpus[id];
        let queue = &mut self.pcpus[home].queue;
        if queue.is_empty() {
            queue.push(id);
            return;
        }
        let at = queue.iter().position(|&other| self.vcpus[other].priority < priority);
        queue.insert(at.unwrap_or(queue.len()), id);
    }

    /// Takes it out of the queue that it may be in.
    #[inline]
    fn remove(&mut self, id: VcpuId) {
        let queue = &mut self.pcpus[self.vcpus[id].home].queue;
        let before = queue.len();
        if *queue == [id] {
            queue.clear();
        } else {
            queue.retain(|&other| other != id);
        }
        self.waiting -= before - queue.len();
    }

    /// The running vCPU has nothing to do any more.
    #[inline]
    pub(crate) fn sleep(&mut self, id: VcpuId, now_ns: u64) {
        self.pay(id, now_ns);
        self.vcpus[id].runnable = false;
        let home = self.vcpus[id].home;
        if self.pcpus[home].current == Some(id) {
            self.pcpus[home].current = None;
        }
        if self.waiting > 0 {
            self.remove(id);
        }
    }

    #[inline]
    fn pay(&mut self, id: VcpuId, now_ns: u64) {
        let vcpu = &mut self.vcpus[id];
        if self.settings.exact_accounting {
            let tick_ns = i64::try_from(self.settings.tick_ns).unwrap_or(i64::MAX);
            let ran_ns = i64::try_from(now_ns - vcpu.paid_ns).unwrap_or(0);
            // Whole credits only; the rest is paid next time.
            let credits = ran_ns * PER_TICK / tick_ns;
            vcpu.credit -= credits;
            vcpu.paid_ns += u64::try_from(credits * tick_ns / PER_TICK).unwrap_or(0);
        }
    }

    /// `csched_schedule`: who runs on this core now.
    #[inline]
    pub(crate) fn choose(&mut self, core: CoreId, now_ns: u64) -> Option<VcpuId> {
        if let Some(current) = self.pcpus[core].current.take() {
            self.pay(current, now_ns);
            if self.vcpus[current].runnable && !self.vcpus[current].parked {
                self.insert(current);
            }
        }
        let next = if self.waiting == 0 { None } else { self.next(core) };
        if let Some(id) = next {
            self.remove(id);
            let vcpu = &mut self.vcpus[id];
            vcpu.home = core;
            vcpu.paid_ns = now_ns;
        }
        let pcpu = &mut self.pcpus[core];
        pcpu.current = next;
        pcpu.since_ns = now_ns;
        next
    }

    /// The first of its queue, or of another's if that goes before it.
    #[inline]
    fn next(&self, core: CoreId) -> Option<VcpuId> {
        let own = self.pcpus[core].queue.first().copied();
        let own_priority = own.map(|id| self.vcpus[id].priority);
        match own_priority {
            Some(Priority::Under | Priority::Boost) => own,
            _ => self.steal(core, own_priority).or(own),
        }
    }

    /// `csched_load_balance`: the first, of the next cores in turn, that goes before what is here.
    fn steal(&self, core: CoreId, own_priority: Option<Priority>) -> Option<VcpuId> {
        let own = self.cores.iter().position(|&other| other == core)?;
        let others = self.cores[own + 1..].iter().chain(&self.cores[..own]);
        others.flat_map(|&other| &self.pcpus[other].queue).copied().find(|&id| {
            own_priority.is_none_or(|own| self.vcpus[id].priority > own)
                && self.vcpus[id].cores.contains(&core)
        })
    }

    /// Whether another could have the core when the slice ends.
    pub(crate) fn tick(&mut self, core: CoreId, now_ns: u64) {
        let Some(id) = self.pcpus[core].current else { return };
        self.pay(id, now_ns);
        let exact = self.settings.exact_accounting;
        let vcpu = &mut self.vcpus[id];
        if vcpu.priority == Priority::Boost {
            vcpu.priority = Priority::Under;
        }
        if !exact {
            vcpu.credit -= PER_TICK;
        }
        vcpu.active = true;
    }

    fn per_slice(&self) -> i64 {
        PER_TICK * i64::try_from(self.settings.slice_ns / self.settings.tick_ns).unwrap_or(3)
    }

    /// `csched_acct`: gives credit. Tells the cores that should choose anew.
    pub(crate) fn give(&mut self, now_ns: u64) -> Vec<CoreId> {
        let mut tickled = Vec::new();
        for core in self.cores.clone() {
            if let Some(current) = self.pcpus[core].current {
                self.pay(current, now_ns);
            }
        }
        let active: Vec<VcpuId> = self.vcpus.ids().filter(|&id| self.vcpus[id].active).collect();
        let weights: i64 = active.iter().map(|&id| self.vcpus[id].weight).sum();
        let mut weight_left = weights;
        let mut total = self.per_slice() * i64::try_from(self.cores.len()).unwrap_or(1);
        let mut balance = 0;
        for id in active {
            let (fair, peak) = self.fair(id, total, weights);
            weight_left -= self.vcpus[id].weight;
            if fair > peak && weight_left > 0 {
                total += share(fair - peak, weights, weight_left);
            }
            self.vcpus[id].credit += fair.min(peak);
            balance += self.set_priority(id, &mut tickled);
        }
        self.balance = balance;
        self.sort();
        for core in &self.cores {
            let waiting = self.pcpus[*core].queue.first().map(|&id| self.vcpus[id].priority);
            let running = self.pcpus[*core].current.map(|id| self.vcpus[id].priority);
            if waiting > running {
                tickled.push(*core);
            }
        }
        tickled
    }

    /// What its weight gives it, and the most it may get.
    fn fair(&self, id: VcpuId, total: i64, weights: i64) -> (i64, i64) {
        let vcpu = &self.vcpus[id];
        let mut peak = self.per_slice();
        if self.balance < 0 {
            peak += share(-self.balance, vcpu.weight, weights);
        }
        if vcpu.cap_pct > 0 {
            peak = peak.min(share(vcpu.cap_pct, self.per_slice(), 100));
        }
        (share(total, vcpu.weight, weights), peak)
    }

    /// Priority, parking and bounds by what credit there is; its credit.
    fn set_priority(&mut self, id: VcpuId, tickled: &mut Vec<CoreId>) -> i64 {
        let per_slice = self.per_slice();
        let vcpu = &mut self.vcpus[id];
        if vcpu.credit < 0 {
            vcpu.priority = Priority::Over;
            let cap = share(vcpu.cap_pct, per_slice, 100);
            if vcpu.cap_pct > 0 && vcpu.credit < -cap && !vcpu.parked {
                vcpu.parked = true;
                tickled.push(vcpu.home);
                self.remove(id);
            }
            let vcpu = &mut self.vcpus[id];
            vcpu.credit = vcpu.credit.max(-per_slice);
            return vcpu.credit;
        }
        vcpu.priority = Priority::Under;
        if vcpu.credit > per_slice {
            vcpu.active = false;
            vcpu.credit = 0;
        }
        let credit = vcpu.credit;
        if std::mem::take(&mut vcpu.parked) && vcpu.runnable {
            let home = vcpu.home;
            self.insert(id);
            tickled.push(home);
        }
        credit
    }

    /// `csched_runq_sort`: priorities have changed while they waited.
    fn sort(&mut self) {
        for core in &self.cores {
            let vcpus = &self.vcpus;
            self.pcpus[*core].queue.sort_by(|&a, &b| vcpus[b].priority.cmp(&vcpus[a].priority));
        }
    }
}

#[cfg(test)]
mod tests {
    use {super::*, crate::engine::ids::Id};

    const TICK_NS: u64 = 10_000_000;

    fn core(number: usize) -> CoreId {
        CoreId::at(number)
    }

    /// All always want to run; ns each got.
    fn hogs(settings: model::Credit, vcpus: &[(u32, u32, Vec<CoreId>)], ticks: u64) -> Vec<u64> {
        let cores = [core(0), core(1)];
        let used: Vec<CoreId> =
            cores.into_iter().filter(|core| vcpus.iter().any(|v| v.2.contains(core))).collect();
        let mut credit = Credit::new(settings, 2, used.clone());
        for (weight, cap, on) in vcpus {
            let id = credit.add(*weight, *cap, on.clone());
            credit.wake(id, 0);
        }
        let mut ran = Table::filled(0, vcpus.len());
        let mut current: Vec<Option<VcpuId>> =
            used.iter().map(|&core| credit.choose(core, 0)).collect();
        for tick in 1..=ticks {
            let now_ns = tick * TICK_NS;
            current.iter().flatten().for_each(|&id| ran[id] += TICK_NS);
            for &core in &used {
                credit.tick(core, now_ns);
            }
            if tick % 3 == 0 {
                credit.give(now_ns);
                current = used.iter().map(|&core| credit.choose(core, now_ns)).collect();
            }
        }
        ran.iter().copied().collect()
    }

    #[test]
    fn time_goes_by_weight() {
        for exact_accounting in [false, true] {
            let settings = model::Credit { exact_accounting, ..model::Credit::default() };
            let ran = hogs(settings, &[(512, 0, vec![core(0)]), (256, 0, vec![core(0)])], 30_000);
            let ratio = ran[0] as f64 / ran[1] as f64;
            assert!((ratio - 2.0).abs() < 0.06, "{ratio}");
        }
    }

    #[test]
    fn a_cap_holds_on_an_idle_core() {
        let settings = model::Credit { exact_accounting: true, ..model::Credit::default() };
        let ran = hogs(settings, &[(256, 40, vec![core(0)])], 30_000);
        let used = ran[0] as f64 / (30_000 * TICK_NS) as f64;
        assert!((used - 0.4).abs() < 0.02, "{used}");
    }

    #[test]
    fn cores_balance() {
        // Three on two cores: 2/3 of a core each, although all begin on the first.
        let settings = model::Credit { exact_accounting: true, ..model::Credit::default() };
        let ran = hogs(settings, &[0; 3].map(|_| (256, 0, vec![core(0), core(1)])), 30_000);
        let total: u64 = ran.iter().sum();
        assert_eq!(total, 2 * 30_000 * TICK_NS, "both cores busy throughout");
        for ran_ns in ran {
            assert!((ran_ns as f64 / total as f64 - 1.0 / 3.0).abs() < 0.02, "{ran_ns}");
        }
    }

    #[test]
    fn who_wakes_with_credit_goes_first_until_the_next_tick() {
        let mut credit = Credit::new(model::Credit::default(), 1, vec![core(0)]);
        let ids = [credit.add(256, 0, vec![core(0)]), credit.add(256, 0, vec![core(0)])];
        assert_eq!(credit.wake(ids[0], 0), Some((core(0), 0)));
        assert_eq!(credit.choose(core(0), 0), Some(ids[0]));
        credit.tick(core(0), TICK_NS);
        assert_eq!(credit.wake(ids[1], TICK_NS), Some((core(0), TICK_NS)), "boosted: preempts");
        assert_eq!(credit.choose(core(0), TICK_NS), Some(ids[1]));
        credit.tick(core(0), 2 * TICK_NS);
        credit.sleep(ids[1], 2 * TICK_NS);
        assert_eq!(credit.choose(core(0), 2 * TICK_NS), Some(ids[0]));
        let plain = model::Credit { boost: false, ..model::Credit::default() };
        let mut credit = Credit::new(plain, 1, vec![core(0)]);
        let ids = [credit.add(256, 0, vec![core(0)]), credit.add(256, 0, vec![core(0)])];
        credit.wake(ids[0], 0);
        credit.choose(core(0), 0);
        assert_eq!(credit.wake(ids[1], 0), None, "not boosted: waits its turn");
    }
}
