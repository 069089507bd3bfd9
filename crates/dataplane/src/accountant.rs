//! The CPU accountant: who used which core for how long, to the nanosecond.

use std::path::Path;

use libbpf_rs::{
    MapCore, MapFlags,
    btf::{Btf, types::Typedef},
    skel::{OpenSkel, Skel},
};

use crate::{
    Error, Result,
    load::{Family, Loaded, present},
    netns::number,
    skeletons::account::{AccountSkel, AccountSkelBuilder, OpenAccountSkel, types},
};

/// `ISL_MAX_ACCOUNTS`.
pub const ACCOUNTS: usize = 128;
/// `ISL_FIRST_OWN`: the first account that is the caller's to give; the ones below are fixed.
pub const FIRST_OWN: u32 = 10;
/// Names of the fixed accounts, by number (`enum isl_account`).
pub const FIXED: [&str; 9] = [
    "idle",
    "process",
    "kthread",
    "softirq",
    "backlog",
    "other-nic",
    "interrupt",
    "net-tx",
    "steal",
];
const MAX_CPUS: usize = 512;
const FAMILY: Family = Family {
    program: "account",
    feature: "BTF tracepoints (CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS; Linux 5.5)",
};

/// The numbers above are those of `bpf/include/intf.h`, or this does not compile.
const _: () = {
    assert!(types::isl_account::ISL_FIRST_OWN.0 == FIRST_OWN);
    assert!(types::isl_account::ISL_MAX_ACCOUNTS.0 as usize == ACCOUNTS);
    assert!(types::isl_account::ISL_STEAL.0 as usize + 1 == FIXED.len());
};
const _: fn(types::bss) -> [types::isl_cpu_use; MAX_CPUS * ACCOUNTS] = |bss| bss.used;

/// What one account used of one core in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// In softirqs, ns.
    pub softirq_ns: u64,
    /// In threads (softirqs on top of them left out), ns.
    pub thread_ns: u64,
    /// In softirqs and interrupts on top of its threads, ns; charged to other accounts.
    pub over_ns: u64,
    /// What the kernel's own accounting says of its threads (`sum_exec_runtime`), ns: to be compared
    /// with `thread_ns + over_ns`. Idle has none.
    pub kernel_ns: u64,
    /// NAPI polls.
    pub polls: u64,
    /// Frames that they took.
    pub frames: u64,
}

/// Sums over the demultiplexer's polls in the window: what a regression of their time needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollSums {
    /// Polls.
    pub polls: u64,
    /// Their time, ns.
    pub ns: u64,
    /// Sum of ns x ns.
    pub ns_ns: u64,
    /// Frames passed on.
    pub passed: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// Sum of passed x passed.
    pub passed_passed: u64,
    /// Sum of passed x dropped.
    pub passed_dropped: u64,
    /// Sum of dropped x dropped.
    pub dropped_dropped: u64,
    /// Sum of passed x ns.
    pub passed_ns: u64,
    /// Sum of dropped x ns.
    pub dropped_ns: u64,
}

/// The loaded programs; dropping them detaches.
pub struct CpuAccountant {
    skel: Loaded<AccountSkel<'static>>,
}

impl CpuAccountant {
    /// Loads the programs and puts them on the scheduler's, the softirqs' and NAPI's tracepoints.
    pub fn attach() -> Result<Self> {
        let mut skel = Loaded::load(FAMILY, AccountSkelBuilder::default(), |open| {
            load_what_the_kernel_has(open);
            Ok(())
        })?;
        skel.attach().map_err(|error| FAMILY.refused(&error))?;
        Ok(Self { skel })
    }

    /// Charges an interface's polls to an account; `netns` is the namespace's file.
    pub fn add_nic(&mut self, netns: &Path, ifindex: u32, account: u32) -> Result<()> {
        let mut key = number(netns)?.to_ne_bytes().to_vec();
        key.extend(ifindex.to_ne_bytes());
        put(&self.skel.maps.isl_nic_account, &key, account)
    }

    /// Charges a thread's time to an account.
    pub fn add_thread(&mut self, thread: u32, account: u32) -> Result<()> {
        put(&self.skel.maps.isl_tid_account, &thread.to_ne_bytes(), account)
    }

    /// Makes an account's NAPI threads those that [`Self::poll_sums`] is about; 0: none.
    pub fn sample_polls(&mut self, account: u32) -> Result<()> {
        present(self.skel.maps.bss_data.as_deref_mut())?.window.demux_account = account;
        Ok(())
    }

    /// Forgets all interfaces and threads.
    pub fn forget(&mut self) -> Result<()> {
        self.sample_polls(0)?;
        clear(&self.skel.maps.isl_nic_account)?;
        clear(&self.skel.maps.isl_tid_account)
    }

    /// Sets all accounts to zero and the window to come, on `CLOCK_MONOTONIC`, ns.
    pub fn begin(&mut self, start_ns: u64, end_ns: u64) -> Result<()> {
        let bss = present(self.skel.maps.bss_data.as_deref_mut())?;
        (bss.window.start_ns, bss.window.end_ns) = (u64::MAX, 0);
        for used in &mut bss.used {
            *used = types::isl_cpu_use::default();
        }
        bss.poll_sums.fill(types::isl_poll_sums::default());
        for core in &mut bss.cores {
            (core.events, core.uncompared_ns, core.early_ns) = (0, 0, 0);
        }
        (bss.window.start_ns, bss.window.end_ns) = (start_ns, end_ns);
        Ok(())
    }

    /// What each account used of the first `cores` cores, after the window's end,
    /// `[core][account]`. What a core is in the middle of is charged up to the window's end.
    pub fn read(&self, cores: usize) -> Result<Vec<Vec<CpuUse>>> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        let by_core = bss.used.chunks_exact(ACCOUNTS).zip(&bss.cores).take(cores);
        Ok(by_core
            .map(|(accounts, core)| {
                let mut used: Vec<CpuUse> = accounts.iter().map(CpuUse::from).collect();
                let open_from_ns = core.since_ns.max(bss.window.start_ns);
                if core.since_ns > 0 && open_from_ns < bss.window.end_ns {
                    used[core.task_account as usize % ACCOUNTS].thread_ns +=
                        bss.window.end_ns - open_from_ns;
                }
                used[core.task_account as usize % ACCOUNTS].kernel_ns +=
                    open_stint_ns(core, (bss.window.start_ns, bss.window.end_ns));
                used
            })
            .collect())
    }

    /// How often the programs ran on each of the first `cores` cores in the window.
    pub fn events(&self, cores: usize) -> Result<Vec<u64>> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        Ok(bss.cores.iter().take(cores).map(|core| core.events).collect())
    }

    /// For how long each of the first `cores` cores ran tasks in the window of which the kernel's
    /// figure is not known, ns: the accountant's stands for it in `kernel_ns`.
    pub fn uncompared_ns(&self, cores: usize) -> Result<Vec<u64>> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        let window = (bss.window.start_ns, bss.window.end_ns);
        let all = bss.cores.iter().take(cores);
        Ok(all.map(|core| core.uncompared_ns + open_stint_ns(core, window)).collect())
    }

    /// How much more than [`Self::read`] the kernel may have charged tasks with on each of the first
    /// `cores` cores in the window, ns: interrupts and softirqs that woke one up on an idle core.
    pub fn early_ns(&self, cores: usize) -> Result<Vec<u64>> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        Ok(bss.cores.iter().take(cores).map(|core| core.early_ns).collect())
    }

    /// How long each of the first `cores` cores has idled since this was loaded, ns; window or not.
    pub fn idle_ns(&self, cores: usize) -> Result<Vec<u64>> {
        let now_ns = crate::monotonic_ns();
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        let idles = |core: &types::isl_core_state| {
            core.task_account == types::isl_account::ISL_IDLE.0
                && core.softirq_account as usize == ACCOUNTS
                && core.interrupts == 0
                && core.since_ns > 0
        };
        let total = |core: &types::isl_core_state| {
            let open_ns = if idles(core) { now_ns.saturating_sub(core.since_ns) } else { 0 };
            core.idle_ns + open_ns
        };
        Ok(bss.cores.iter().take(cores).map(total).collect())
    }

    /// Sums over the demultiplexer's polls in the window, on all cores.
    pub fn poll_sums(&self) -> Result<PollSums> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        let mut all = PollSums::default();
        for sums in &bss.poll_sums {
            all.polls += sums.polls;
            all.ns += sums.ns;
            all.ns_ns += sums.ns_ns;
            all.passed += sums.passed;
            all.dropped += sums.dropped;
            all.passed_passed += sums.passed_passed;
            all.passed_dropped += sums.passed_dropped;
            all.dropped_dropped += sums.dropped_dropped;
            all.passed_ns += sums.passed_ns;
            all.dropped_ns += sums.dropped_ns;
        }
        Ok(all)
    }
}

/// Switches on the programs whose tracepoints this kernel has: which interrupts there are depends on
/// the processor.
fn load_what_the_kernel_has(open: &mut OpenAccountSkel<'_>) {
    let Ok(btf) = Btf::from_vmlinux() else { return };
    for mut program in open.open_object_mut().progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        // Those that have to be there are loaded in any case: the kernel says what it lacks.
        let Some(tracepoint) = section.strip_prefix("tp_btf/") else { continue };
        if !program.autoload() {
            let name = format!("btf_trace_{tracepoint}");
            program.set_autoload(btf.type_by_name::<Typedef<'_>>(&name).is_some());
        }
    }
}

/// How long the task that a core is still running had it in the window: the kernel's figure is read
/// when a task leaves.
fn open_stint_ns(core: &types::isl_core_state, window: (u64, u64)) -> u64 {
    let idles = core.task_account == types::isl_account::ISL_IDLE.0;
    if idles { 0 } else { window.1.saturating_sub(core.task_since_ns.max(window.0)) }
}

impl From<&types::isl_cpu_use> for CpuUse {
    fn from(used: &types::isl_cpu_use) -> Self {
        Self {
            softirq_ns: used.softirq_ns,
            thread_ns: used.thread_ns,
            over_ns: used.over_ns,
            kernel_ns: used.kernel_ns,
            polls: used.polls,
            frames: used.frames,
        }
    }
}

fn put(map: &impl MapCore, key: &[u8], account: u32) -> Result<()> {
    if account as usize >= ACCOUNTS {
        return Err(Error::Spec {
            key: "account",
            value: account.to_string(),
            accepted: format!("fewer than {ACCOUNTS}"),
        });
    }
    map.update(key, &account.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| Error::table(map, &error))
}

fn clear(map: &impl MapCore) -> Result<()> {
    let keys: Vec<_> = map.keys().collect();
    for key in keys {
        map.delete(&key).map_err(|error| Error::table(map, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;
    use crate::test_thread;

    /// `ISL_PROCESS`.
    const PROCESS: usize = 1;
    /// A minute of them: a limit for what never comes about, not for what is slow.
    const MAX_WINDOWS: usize = 3000;

    #[test]
    fn what_cannot_be_accounted_is_refused_with_the_kernels_reason() {
        let mut accountant = CpuAccountant::attach().expect("loads");
        let error = accountant.add_thread(1, 128).expect_err("no such account").to_string();
        assert!(error.contains("account: 128") && error.contains("fewer than 128"), "{error}");
        let full = (1..).find_map(|thread| accountant.add_thread(thread, FIRST_OWN).err());
        let error = full.expect("the table is not endless").to_string();
        assert!(error.contains("isl_tid_account") && error.contains("os error 7"), "{error}");
        accountant.forget().expect("forgets");
        accountant.add_thread(1, FIRST_OWN).expect("the table has space again");
    }

    #[test]
    fn what_is_no_namespace_is_named() {
        let mut accountant = CpuAccountant::attach().expect("loads");
        let error = accountant.add_nic(Path::new("/nowhere"), 1, FIRST_OWN);
        let error = error.expect_err("no such file").to_string();
        assert!(error.contains("/nowhere") && error.contains("os error 2"), "{error}");
    }

    fn this_thread() -> u32 {
        // SAFETY: takes no arguments.
        u32::try_from(unsafe { libc::gettid() }).expect("positive")
    }

    /// What the accounts were charged with on all cores, ns, in a window in which this thread spun.
    /// Nothing if others had its core until the window's end.
    fn charged_while_spinning(accountant: &mut CpuAccountant) -> Vec<u64> {
        let start_ns = crate::monotonic_ns();
        let end_ns = start_ns + 20_000_000;
        accountant.begin(start_ns, end_ns).expect("begins");
        test_thread::spin(5_000_000);
        while crate::monotonic_ns() < end_ns {}
        // A core is accounted for from its first switch on, and charges what has passed at the next.
        thread::sleep(Duration::from_millis(1));
        let used = accountant.read(MAX_CPUS).expect("reads");
        (0..ACCOUNTS).map(|account| used.iter().map(|core| core[account].thread_ns).sum()).collect()
    }

    /// Tells whether that holds in a window, of what its own account and its process's were charged.
    fn comes_about(accountant: &mut CpuAccountant, holds: fn(u64, u64) -> bool) -> bool {
        (0..MAX_WINDOWS).any(|_| {
            let charged = charged_while_spinning(accountant);
            holds(charged[FIRST_OWN as usize], charged[PROCESS])
        })
    }

    #[test]
    fn a_thread_is_charged_to_its_account_until_it_is_forgotten() {
        let mut accountant = CpuAccountant::attach().expect("loads");
        accountant.add_thread(this_thread(), FIRST_OWN).expect("the table has space");
        assert!(comes_about(&mut accountant, |own, _| own > 0));
        accountant.forget().expect("forgets");
        // Not every switch is seen: a core may go on with what it knew for a window.
        assert!(comes_about(&mut accountant, |own, process| own == 0 && process > 0));
    }

    /// How much is charged depends on whether a core that this thread wants is its own for a while.
    mod acceptance {
        use super::*;

        const STEAL: usize = FIXED.len() - 1;

        /// Has every core switch tasks: a core is accounted for from its first switch on, and charges
        /// what has passed at the next.
        fn switch_everywhere() -> usize {
            let cores = thread::available_parallelism().expect("a count").get();
            thread::scope(|scope| {
                for core in 0..cores {
                    scope.spawn(move || {
                        crate::netns::pin(core).expect("the core is there");
                        thread::sleep(Duration::from_millis(1));
                    });
                }
            });
            cores
        }

        /// What a thread of this test was charged with in a window in which it spun, beside its CPU time
        /// by its clock. Windows of which the hypervisor took a part, or whose switches were not all
        /// seen, say nothing; in a hundred there is another.
        fn spinning(window_ns: u64) -> (CpuUse, u64) {
            let cores = switch_everywhere();
            let mut accountant = CpuAccountant::attach().expect("loads");
            accountant.add_thread(this_thread(), FIRST_OWN).expect("the table has space");
            (0..100)
                .find_map(|_| {
                    switch_everywhere();
                    let start_ns = crate::monotonic_ns() + 1_000_000;
                    let end_ns = start_ns + window_ns;
                    accountant.begin(start_ns, end_ns).expect("begins");
                    while crate::monotonic_ns() < start_ns {}
                    let before_ns = test_thread::ran_ns();
                    while crate::monotonic_ns() < end_ns {}
                    let spent_ns = test_thread::ran_ns() - before_ns;
                    // The kernel's figure is complete once the thread has left its core.
                    switch_everywhere();
                    let used = accountant.read(cores).expect("reads");
                    let stolen_ns: u64 = used.iter().map(|core| core[STEAL].thread_ns).sum();
                    let uncompared = accountant.uncompared_ns(cores).expect("reads");
                    let sum = |of: fn(&CpuUse) -> u64| -> u64 {
                        used.iter().map(|core| of(&core[FIRST_OWN as usize])).sum()
                    };
                    assert!(accountant.events(cores).expect("reads").iter().sum::<u64>() > 0);
                    let undisturbed = stolen_ns == 0 && uncompared.iter().all(|&ns| ns == 0);
                    undisturbed.then(|| {
                        let own = CpuUse {
                            thread_ns: sum(|used| used.thread_ns),
                            over_ns: sum(|used| used.over_ns),
                            kernel_ns: sum(|used| used.kernel_ns),
                            ..CpuUse::default()
                        };
                        (own, spent_ns)
                    })
                })
                .expect("one of a hundred windows is undisturbed")
        }

        #[test]
        #[ignore = "acceptance: depends on how fast this machine is now"]
        fn a_spinning_thread_is_charged_for_all_its_time() {
            let (own, spent_ns) = spinning(20_000_000);
            // The clock of the thread leaves out what was stolen at once, the accountant once it is told.
            assert!(own.thread_ns <= 20_000_000, "{} of {spent_ns} ns", own.thread_ns);
            assert!(own.thread_ns * 2 > spent_ns, "{} of {spent_ns} ns", own.thread_ns);
        }

        #[test]
        #[ignore = "acceptance: depends on how fast this machine is now"]
        fn the_kernels_own_figure_of_a_thread_is_kept_beside_ours() {
            let (own, _) = spinning(60_000_000);
            let (ours, kernel) = (own.thread_ns + own.over_ns, own.kernel_ns);
            assert!(kernel > 1_000_000, "{kernel} ns");
            assert!(ours.abs_diff(kernel) < kernel / 50 + 500_000, "{ours} and {kernel} ns");
        }

        #[test]
        #[ignore = "acceptance: depends on how fast this machine is now"]
        fn idle_time_grows_on_and_windows_add_up() {
            let mut accountant = CpuAccountant::attach().expect("loads");
            let adds_up = (0..20).any(|_| {
                let cores = switch_everywhere();
                let before = accountant.idle_ns(cores).expect("reads");
                let start_ns = crate::monotonic_ns();
                accountant.begin(start_ns, start_ns + 20_000_000).expect("begins");
                thread::sleep(Duration::from_millis(25));
                switch_everywhere();
                let after = accountant.idle_ns(cores).expect("reads");
                assert!(before.iter().zip(&after).all(|(before, after)| before <= after));
                accountant.read(cores).expect("reads").iter().all(|core| {
                    let sum_ns: u64 =
                        core.iter().map(|used| used.softirq_ns + used.thread_ns).sum();
                    // A stretch may be missed while the hypervisor has the core, none counted twice.
                    assert!(sum_ns < 20_200_000, "{sum_ns} ns");
                    sum_ns > 19_800_000
                })
            });
            assert!(adds_up, "no window of twenty was accounted for as a whole");
        }
    }
}
