//! The CPU accountant: who used which core for how long, to the nanosecond.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use libbpf_rs::{MapCore, MapFlags, skel::Skel};

use crate::{
    Error, Result,
    load::{Family, Loaded, present},
    skeletons::account::{AccountSkel, AccountSkelBuilder, types},
};

/// `ISL_MAX_ACCOUNTS`.
pub const ACCOUNTS: usize = 128;
/// `ISL_FIRST_OWN`: the first account that is the caller's to give; the ones below are fixed.
pub const FIRST_OWN: u32 = 8;
/// Names of the fixed accounts, by number (`enum isl_account`).
pub const FIXED: [&str; 7] =
    ["idle", "process", "kthread", "softirq", "backlog", "other-nic", "interrupt"];
const MAX_CPUS: usize = 512;
const FAMILY: Family = Family {
    program: "account",
    feature: "BTF tracepoints (CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS; Linux 5.5)",
};

/// The numbers above are those of `bpf/include/intf.h`, or this does not compile.
const _: () = {
    assert!(types::isl_account::ISL_FIRST_OWN.0 == FIRST_OWN);
    assert!(types::isl_account::ISL_MAX_ACCOUNTS.0 as usize == ACCOUNTS);
    assert!(types::isl_account::ISL_INTERRUPT.0 as usize + 1 == FIXED.len());
};
const _: fn(types::bss) -> [types::isl_cpu_use; MAX_CPUS * ACCOUNTS] = |bss| bss.used;

/// What one account used of one core in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// In softirqs, ns.
    pub softirq_ns: u64,
    /// In threads (softirqs on top of them left out), ns.
    pub thread_ns: u64,
    /// NAPI polls.
    pub polls: u64,
    /// Frames that they took.
    pub frames: u64,
}

/// The loaded programs; dropping them detaches.
pub struct CpuAccountant {
    skel: Loaded<AccountSkel<'static>>,
}

impl CpuAccountant {
    /// Loads the programs and puts them on the scheduler's, the softirqs' and NAPI's tracepoints.
    pub fn attach() -> Result<Self> {
        let mut skel = Loaded::load(FAMILY, AccountSkelBuilder::default(), |open| {
            // x86 only: elsewhere the timer's interrupts stay with what they interrupt.
            let timer = cfg!(target_arch = "x86_64");
            open.progs.isl_timer_in.set_autoload(timer);
            open.progs.isl_timer_out.set_autoload(timer);
            Ok(())
        })?;
        skel.attach().map_err(|error| FAMILY.refused(&error))?;
        Ok(Self { skel })
    }

    /// Charges an interface's polls to an account; `netns` is the namespace's file.
    pub fn add_nic(&mut self, netns: &Path, ifindex: u32, account: u32) -> Result<()> {
        let wrap = |source| Error::Netns { path: netns.to_owned(), source };
        let inode = fs::metadata(netns).map_err(wrap)?.ino();
        let inum =
            u32::try_from(inode).map_err(|_| wrap(io::Error::other("not a namespace's file")))?;
        let mut key = inum.to_ne_bytes().to_vec();
        key.extend(ifindex.to_ne_bytes());
        put(&self.skel.maps.isl_nic_account, &key, account)
    }

    /// Charges a thread's time to an account.
    pub fn add_thread(&mut self, thread: u32, account: u32) -> Result<()> {
        put(&self.skel.maps.isl_tid_account, &thread.to_ne_bytes(), account)
    }

    /// Forgets all interfaces and threads.
    pub fn forget(&mut self) -> Result<()> {
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
                used
            })
            .collect())
    }
}

impl From<&types::isl_cpu_use> for CpuUse {
    fn from(used: &types::isl_cpu_use) -> Self {
        Self {
            softirq_ns: used.softirq_ns,
            thread_ns: used.thread_ns,
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
    use super::*;

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

    #[test]
    fn a_spinning_thread_is_charged_for_all_its_time() {
        let mut accountant = CpuAccountant::attach().expect("loads");
        // SAFETY: takes no arguments.
        let thread = u32::try_from(unsafe { libc::gettid() }).expect("positive");
        accountant.add_thread(thread, FIRST_OWN).expect("the table has space");
        // A core is accounted for from its first switch on.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let start_ns = crate::monotonic_ns();
        let end_ns = start_ns + 20_000_000;
        accountant.begin(start_ns, end_ns).expect("begins");
        let cpu_ns = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointer is to a live timespec.
            unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
            u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("positive")
        };
        let before_ns = cpu_ns();
        while crate::monotonic_ns() < end_ns {
            std::hint::spin_loop();
        }
        let spent_ns = cpu_ns() - before_ns;
        let used = accountant.read(MAX_CPUS).expect("reads");
        let charged_ns: u64 = used.iter().map(|core| core[FIRST_OWN as usize].thread_ns).sum();
        // The kernel's figure has interrupts and softirqs in it; ours has not.
        assert!(charged_ns <= spent_ns + 1_000_000, "{charged_ns} of {spent_ns} ns");
        assert!(charged_ns * 2 > spent_ns, "{charged_ns} of {spent_ns} ns");
    }
}
