//! Cores and what runs on them.

use serde::Deserialize;

/// A core: runs one context at a time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Its name.
    pub name: String,
    /// Who is next on it.
    #[serde(default)]
    pub scheduler: CpuScheduler,
    /// Cost of giving the core to another context, ns.
    #[serde(default)]
    pub switch_ns: f64,
    /// Cost of a timer interrupt, ns.
    #[serde(default)]
    pub tick_cost_ns: f64,
    /// On whose account interrupts and switches go: `kernel`, or `hypervisor` on a Xen host.
    #[serde(default)]
    pub mode: Mode,
}

/// A CPU scheduler.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CpuScheduler {
    /// Linux's completely fair scheduler (as of 3.2; until 6.5 its rules for what is here are the
    /// same). No balancing: each context stays on its core.
    Cfs(Cfs),
    /// Linux's EEVDF scheduler (since 6.6; as of 6.17). No balancing: each context stays on its core.
    Eevdf(Eevdf),
    /// Xen's credit scheduler.
    Credit(Credit),
}

impl Default for CpuScheduler {
    fn default() -> Self {
        Self::Cfs(Cfs::default())
    }
}

/// CFS settings; the defaults are Linux's on eight CPUs (4 = 1 + log2 8 times those on one).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cfs {
    /// `sched_latency_ns`.
    pub latency_ns: u64,
    /// `sched_min_granularity_ns`.
    pub min_granularity_ns: u64,
    /// `sched_wakeup_granularity_ns`.
    pub wakeup_granularity_ns: u64,
    /// Timer tick, ns (1 s / HZ).
    pub tick_ns: u64,
    /// Whether interrupts' and softirqs' time is kept off the account of the thread they interrupt
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub irq_time_accounting: bool,
}

impl Default for Cfs {
    fn default() -> Self {
        Self {
            latency_ns: 24_000_000,
            min_granularity_ns: 3_000_000,
            wakeup_granularity_ns: 4_000_000,
            tick_ns: 4_000_000,
            irq_time_accounting: true,
        }
    }
}

/// EEVDF settings; the defaults are Linux's on eight CPUs (4 = 1 + log2 8 times those on one).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eevdf {
    /// `base_slice_ns`.
    pub slice_ns: u64,
    /// Timer tick, ns (1 s / HZ).
    pub tick_ns: u64,
    /// Whether interrupts' and softirqs' time is kept off the account of the thread they interrupt
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub irq_time_accounting: bool,
    /// Takes the place of ticks: so often a thread of real-time priority has the core for a moment, ns (a
    /// pacemaker), and whose turn it was does not count after that.
    pub beat_ns: Option<u64>,
}

impl Default for Eevdf {
    fn default() -> Self {
        Self { slice_ns: 2_800_000, tick_ns: 4_000_000, irq_time_accounting: true, beat_ns: None }
    }
}

/// Settings of Xen's credit scheduler; the defaults are Xen 4.0's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Credit {
    /// Time slice, also the period in which credit is given, ns.
    pub slice_ns: u64,
    /// Tick at which the running vCPU pays, ns.
    pub tick_ns: u64,
    /// Whether a vCPU pays for the time it ran (Xen 4.1 on), or whoever runs at a tick pays for
    /// the whole tick.
    pub exact_accounting: bool,
    /// Whether a vCPU that wakes with credit left goes before all others until the next tick.
    pub boost: bool,
    /// How long a vCPU runs before a waking one may preempt it, ns (Xen 4.2's default: 1 ms).
    pub rate_limit_ns: u64,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            slice_ns: 30_000_000,
            tick_ns: 10_000_000,
            exact_accounting: false,
            boost: true,
            rate_limit_ns: 0,
        }
    }
}

/// Rules of the receive softirq (`net_rx_action`, `__do_softirq`); defaults as in Linux 6.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Softirq {
    /// Frames per poll: `dev_weight`. A stage may have its own `batch`.
    pub weight: u32,
    /// Frames per round over the poll list: `netdev_budget`.
    pub budget: u32,
    /// Time per round, ns: `netdev_budget_usecs` (before 4.12: two jiffies).
    pub time_ns: u64,
    /// Rounds before ksoftirqd has to go on: `MAX_SOFTIRQ_RESTART`.
    pub restarts: u32,
    /// Time after which ksoftirqd has to go on, ns: `MAX_SOFTIRQ_TIME`; none before 3.10.
    pub restart_time_ns: Option<u64>,
    /// Whether softirqs stop for a thread that wants the core (since 3.10).
    pub stop_for_threads: bool,
    /// Whether interrupts leave softirqs to ksoftirqd while that is runnable (from 4.9 to 6.4).
    pub defer_to_ksoftirqd: bool,
    /// Whether a thread or process that has handed a frame on runs pending softirqs as the end of an
    /// interrupt does (`local_bh_enable`). Stages with a ring do not: a guest's NIC is its own.
    pub on_transmit: bool,
}

impl Default for Softirq {
    fn default() -> Self {
        Self {
            weight: 64,
            budget: 300,
            time_ns: 2_000_000,
            restarts: 10,
            restart_time_ns: Some(2_000_000),
            stop_for_threads: true,
            defer_to_ksoftirqd: true,
            on_transmit: true,
        }
    }
}

/// A CPU cgroup. Each core shares among groups, and tasks without a group, on its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// `cpu.shares` on each core; a task of nice 0 has 1,024.
    #[serde(default = "default_shares")]
    pub shares: u32,
}

fn default_shares() -> u32 {
    1_024
}

/// What the bars of CPU time are split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The host's kernel.
    #[default]
    Kernel,
    /// Processes; a guest's time is the time of its process.
    User,
    /// Xen or KVM itself.
    Hypervisor,
}

impl Mode {
    /// Its word in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Hypervisor => "hypervisor",
        }
    }
}

/// The kinds of context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextKind {
    /// The receive softirq of a core; at most one per core. ksoftirqd comes with it.
    Softirq,
    /// A kernel thread (vhost, threaded NAPI); accounted as `kernel` unless its stages say otherwise.
    Thread,
    /// A process, or a KVM guest's vCPU, which is one; accounted as `user`.
    Process,
    /// A Xen vCPU; accounted as `kernel`.
    Vcpu,
}

/// What runs on a core: serves the stages that are in it, in turn, a poll each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ContextKind,
    /// The cores it may run on: one, or several under the credit scheduler (the first is where
    /// it begins).
    pub cores: Vec<String>,
    /// CFS and EEVDF: nice value, -20 to 19.
    #[serde(default)]
    pub nice: i8,
    /// CFS and EEVDF: its cgroup.
    #[serde(default)]
    pub group: Option<String>,
    /// EEVDF: its own slice, ns (`sched_setattr`).
    #[serde(default)]
    pub slice_ns: Option<u64>,
    /// CFS and EEVDF: whether it never takes the core because it wakes (`SCHED_BATCH`).
    #[serde(default)]
    pub batch: bool,
    /// Credit scheduler: weight.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Credit scheduler: maximum it may use, percent of a core; 0: no limit.
    #[serde(default)]
    pub cap_pct: u32,
    /// Cost of each wake-up, besides the switch, ns: for a vCPU the exit, the injected interrupt
    /// and the entry. Accounted as `wake`.
    #[serde(default)]
    pub wake_ns: f64,
    /// What each interrupt costs it that hits its core while it runs, ns: for a KVM guest the exit
    /// and the entry. Accounted as `exit`.
    #[serde(default)]
    pub exit_ns: f64,
    /// Cost of finding caches cold, ns, for each other context with such a cost that ran on the core
    /// since this one did.
    #[serde(default)]
    pub cold_ns: f64,
    /// On whose account `wake_ns` and `exit_ns` go; default that of the context's kind.
    #[serde(default)]
    pub wake_mode: Option<Mode>,
    /// CFS and EEVDF: whether others get the core between its polls only, as with NAPI threads, which poll with
    /// softirqs off.
    #[serde(default)]
    pub whole_polls: bool,
}

fn default_weight() -> u32 {
    256
}
