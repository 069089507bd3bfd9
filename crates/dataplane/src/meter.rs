//! The meter: exact bills of every core's time, by receiving interface and thread.

use std::{fs, mem::MaybeUninit, os::unix::fs::MetadataExt, path::Path, ptr};

use libbpf_rs::{
    MapCore, MapFlags, OpenObject,
    skel::{OpenSkel, Skel, SkelBuilder},
};

use crate::{
    Error, Result,
    error::{one_line, room_for},
    skeletons::meter::{MeterSkel, MeterSkelBuilder, types},
};

/// `ISL_MAX_ACCOUNTS`.
pub const ACCOUNTS: usize = 128;
/// `ISL_FIRST_OWN`: the first account that is the caller's to give; the ones below are fixed.
pub const FIRST_OWN: u32 = 8;
/// Names of the fixed accounts, by number (`enum isl_account`).
pub const FIXED: [&str; 7] =
    ["idle", "process", "kthread", "softirq", "backlog", "other-nic", "interrupt"];
const MAX_CPUS: usize = 512;

/// What one account used of one core in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// In softirqs, ns.
    pub softirq_ns: u64,
    /// In threads (softirqs on top of them left out), ns.
    pub thread_ns: u64,
    /// NAPI polls.
    pub polls: u64,
    /// Frames that they took.
    pub frames: u64,
}

/// A loaded meter; dropping it detaches.
pub struct Meter {
    skel: MeterSkel<'static>,
    // Declared last: dropped after the skeleton that borrows it.
    _object: Box<MaybeUninit<OpenObject>>,
}

impl Meter {
    /// Loads the programs and puts them on the scheduler's, the softirqs' and NAPI's trace points.
    pub fn attach() -> Result<Self> {
        room_for("meter")?;
        let refuse = |error: libbpf_rs::Error| Error::Load {
            program: "meter",
            feature: "BTF trace points (CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS; Linux 5.5)",
            reason: one_line(&error),
        };
        let mut object = Box::new(MaybeUninit::uninit());
        // SAFETY: the box is kept in `Meter` behind the skeleton and never moves its content.
        let slot: &'static mut MaybeUninit<OpenObject> =
            unsafe { &mut *ptr::from_mut(object.as_mut()) };
        let mut open = MeterSkelBuilder::default().open(slot).map_err(refuse)?;
        // x86 only: elsewhere the timer's interrupts stay with what they interrupt.
        let timer = cfg!(target_arch = "x86_64");
        open.progs.isl_timer_entry.set_autoload(timer);
        open.progs.isl_timer_exit.set_autoload(timer);
        let mut skel = open.load().map_err(refuse)?;
        skel.attach().map_err(refuse)?;
        Ok(Self { skel, _object: object })
    }

    /// Bills an interface's polls to an account; `netns` is the namespace's file.
    pub fn add_nic(&mut self, netns: &Path, ifindex: u32, account: u32) -> Result<()> {
        let inode = fs::metadata(netns)
            .map_err(|source| Error::Netns { path: netns.to_owned(), source })?
            .ino();
        let inum = u32::try_from(inode).map_err(|_| Error::State("not a namespace's inode"))?;
        let mut key = inum.to_ne_bytes().to_vec();
        key.extend(ifindex.to_ne_bytes());
        put(&self.skel.maps.nics, &key, account)
    }

    /// Bills a thread's time to an account.
    pub fn add_thread(&mut self, thread: u32, account: u32) -> Result<()> {
        put(&self.skel.maps.threads, &thread.to_ne_bytes(), account)
    }

    /// Forgets all interfaces and threads.
    pub fn forget(&mut self) -> Result<()> {
        clear(&self.skel.maps.nics)?;
        clear(&self.skel.maps.threads)
    }

    /// Sets all bills to zero and the window to come, on `CLOCK_MONOTONIC`, ns.
    pub fn begin(&mut self, window_ns: (u64, u64)) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref_mut();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        (bss.window.start_ns, bss.window.end_ns) = (u64::MAX, 0);
        for bill in &mut bss.bills {
            *bill = types::isl_bill::default();
        }
        (bss.window.start_ns, bss.window.end_ns) = window_ns;
        Ok(())
    }

    /// The bills of the first `cores` cores after the window's end, `[core][account]`. What a core
    /// is in the middle of is charged up to the window's end.
    pub fn read(&self, cores: usize) -> Result<Vec<Vec<Bill>>> {
        let bss = self.skel.maps.bss_data.as_deref();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        let mut result = Vec::with_capacity(cores.min(MAX_CPUS));
        for core in 0..cores.min(MAX_CPUS) {
            let mut bills: Vec<Bill> = bss.bills[core * ACCOUNTS..(core + 1) * ACCOUNTS]
                .iter()
                .map(|bill| Bill {
                    softirq_ns: bill.softirq_ns,
                    thread_ns: bill.thread_ns,
                    polls: bill.polls,
                    frames: bill.frames,
                })
                .collect();
            let state = &bss.cores[core];
            let open_from = state.since_ns.max(bss.window.start_ns);
            if state.since_ns > 0 && open_from < bss.window.end_ns {
                bills[state.task_account as usize % ACCOUNTS].thread_ns +=
                    bss.window.end_ns - open_from;
            }
            result.push(bills);
        }
        Ok(result)
    }
}

fn put(map: &libbpf_rs::MapMut<'_>, key: &[u8], account: u32) -> Result<()> {
    if account as usize >= ACCOUNTS {
        return Err(Error::State("the meter has no more accounts"));
    }
    map.update(key, &account.to_ne_bytes(), MapFlags::ANY)
        .map_err(|_| Error::State("the meter's table is full"))
}

fn clear(map: &libbpf_rs::MapMut<'_>) -> Result<()> {
    let keys: Vec<_> = map.keys().collect();
    for key in keys {
        map.delete(&key).map_err(|_| Error::State("the kernel refused to clear the meter"))?;
    }
    Ok(())
}
