//! The pacemaker: a thread on each managed core that goes before all others, and mostly sleeps.
//!
//! The kernel lets a thread run until its next tick (4 ms at 250 Hz), whatever time slices say,
//! unless something wakes up meanwhile. While several routers compete for a core, the pacemaker wakes up
//! at every beat, so that the scheduler chooses anew. And it tells the NIC's threads when to yield:
//! see [`Mode`].

mod charging;
mod mode;
mod thread_time;

use std::{
    io,
    os::fd::AsFd,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use libbpf_rs::{MapCore, MapHandle};

pub use self::charging::{Usage, allowances};
pub use self::mode::{Chooser, Mode, Sample};
use self::thread_time::Thread;
use crate::{
    Error, Result, mapped::MappedArray, monotonic_ns, netns, skeletons::demux::types as host,
};

/// Between two choices of the scheduler while routers compete. With 50 us the beats take a fifth of
/// a core of a virtual machine.
const BEAT_NS: u64 = 150_000;
/// Between two looks at what the threads do.
const SAMPLE_NS: u64 = 1_000_000;
/// The same for a core whose routers have had no work for [`QUIET_NS`].
const QUIET_SAMPLE_NS: u64 = 10_000_000;
const QUIET_NS: u64 = 100_000_000;
/// Nice values of a NIC's threads.
const FIRST: i32 = -20;
const LAST: i32 = 19;
/// A thread that ran or waited for more of the time than this (percent) wants more than there is.
const BUSY_PERCENT: u64 = 90;
/// Threads that ran for more of the time than this (percent) had the core to themselves.
const OWN_PERCENT: u64 = 80;

/// A router of a core.
#[derive(Clone, Debug)]
pub struct RouterWork {
    /// Its threads.
    pub threads: Vec<i32>,
    /// Slots of its queues; without any, its threads tell whether it has work.
    pub queues: Vec<u32>,
    /// CPU weight.
    pub weight: u64,
}

/// A core to look after.
#[derive(Clone, Debug)]
pub struct CoreWork {
    /// Number of the core.
    pub core: usize,
    /// Threads that poll NICs and run the demultiplexer.
    pub nic_threads: Vec<i32>,
    /// Routers whose frames those threads see, or whose threads run on this core.
    pub routers: Vec<RouterWork>,
}

/// Looks after cores until `stop` is set or their threads have ended; blocks.
///
/// `table`: the kernel's number of the table of queues; None: there are none.
pub fn run(cores: &[CoreWork], table: Option<u32>, stop: &AtomicBool) -> Result<()> {
    let queues = table.map(open_queues).transpose()?;
    let queues = queues.as_ref();
    thread::scope(|scope| {
        let workers: Vec<_> = cores
            .iter()
            .map(|core| scope.spawn(move || Beat::of(core, queues)?.run(stop)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or(Err(Error::State("a pacemaker panicked"))))
            .collect()
    })
}

/// The queues of all routers; the pacemaker of the NIC's core writes `share_*` there.
type Queues = Mutex<MappedArray<host::isl_queue>>;

fn open_queues(id: u32) -> Result<Queues> {
    let refused = |reason: String| Error::Table { name: format!("isl_queues ({id})"), reason };
    let map = MapHandle::from_map_id(id).map_err(|error| refused(format!("{error:#}")))?;
    let entries = map.max_entries() as usize;
    let mapped = MappedArray::new(map.as_fd(), entries);
    mapped.map(Mutex::new).map_err(|error| refused(error.to_string()))
}

struct Router {
    threads: Vec<Thread>,
    queues: Vec<Queue>,
    /// What it did and caused lately.
    usage: Usage,
}

/// A queue, and what had happened to it at the last sample.
struct Queue {
    slot: usize,
    before: host::isl_queue,
    /// Frames that came since the sample before.
    offered: u64,
}

/// The state of one core's pacemaker.
struct Beat<'a> {
    core: usize,
    nic: Vec<Thread>,
    routers: Vec<Router>,
    queues: Option<&'a Queues>,
    chooser: Chooser,
    active: Vec<bool>,
    mode: Mode,
    sampled_ns: u64,
    /// What the NIC's threads used lately, and how long that was.
    nic_ns: u64,
    passed_ns: u64,
}

impl<'a> Beat<'a> {
    fn of(work: &CoreWork, queues: Option<&'a Queues>) -> Result<Self> {
        let open = |threads: &[i32]| threads.iter().filter_map(|&n| Thread::open(n).ok()).collect();
        let routers: Vec<Router> = work
            .routers
            .iter()
            .map(|router| Router {
                threads: open(&router.threads),
                queues: router.queues.iter().map(|&slot| Queue::at(slot as usize)).collect(),
                usage: Usage { weight: router.weight, ..Usage::default() },
            })
            .collect();
        let beat = Self {
            core: work.core,
            nic: open(&work.nic_threads),
            chooser: Chooser::new(routers.len()),
            active: vec![false; routers.len()],
            routers,
            queues,
            mode: Mode::Calm,
            sampled_ns: monotonic_ns(),
            nic_ns: 0,
            passed_ns: 0,
        };
        beat.set_nice(FIRST);
        Ok(beat)
    }

    fn run(mut self, stop: &AtomicBool) -> Result<()> {
        netns::pin(self.core)?;
        go_first(self.core)?;
        let mut next_ns = monotonic_ns();
        while !stop.load(Ordering::Relaxed) {
            next_ns = (next_ns + self.interval_ns()).max(monotonic_ns());
            sleep_until(next_ns);
            // A sample is a little later than its beat.
            if next_ns + BEAT_NS / 2 - self.sampled_ns >= SAMPLE_NS && !self.sample() {
                break;
            }
        }
        self.set_nice(FIRST);
        self.let_all_in();
        Ok(())
    }

    fn interval_ns(&self) -> u64 {
        match self.mode {
            Mode::Contended if self.nic.is_empty() => BEAT_NS,
            Mode::Contended | Mode::Alone => SAMPLE_NS,
            Mode::Calm if self.chooser.is_quiet(self.sampled_ns, QUIET_NS) => QUIET_SAMPLE_NS,
            Mode::Calm => SAMPLE_NS,
        }
    }

    /// Looks at all threads and queues; false when no thread is left.
    fn sample(&mut self) -> bool {
        let now_ns = monotonic_ns();
        let passed_ns = now_ns - self.sampled_ns;
        self.sampled_ns = now_ns;
        let (mut busiest_ns, nic_ns) = used(&mut self.nic);
        let (mut total_ns, mut drops) = (nic_ns, false);
        self.nic_ns = faded(self.nic_ns) + nic_ns;
        self.passed_ns = faded(self.passed_ns) + passed_ns;
        for (router, active) in self.routers.iter_mut().zip(&mut self.active) {
            let (busy_ns, ran_ns) = used(&mut router.threads);
            busiest_ns = busiest_ns.max(busy_ns);
            total_ns += ran_ns;
            router.usage.fade();
            router.usage.own_ns += ran_ns;
            let (offered, dropped) = self.queues.map_or((0, 0), |queues| router.count(queues));
            drops |= dropped > 0;
            *active = if router.queues.is_empty() { ran_ns > 0 } else { offered > 0 };
        }
        let mode = self.chooser.mode(Sample {
            now_ns,
            active: &self.active,
            overloaded: drops || busiest_ns * 100 >= passed_ns * BUSY_PERCENT,
            shared: total_ns * 100 < passed_ns * OWN_PERCENT,
        });
        if mode != self.mode {
            self.set_nice(if mode == Mode::Alone { LAST } else { FIRST });
            self.let_all_in();
            self.mode = mode;
        }
        if mode == Mode::Contended && !self.nic.is_empty() {
            self.charge(now_ns);
        }
        !self.nic.is_empty() || self.routers.iter().any(|router| !router.threads.is_empty())
    }

    /// Has each router let in what its share allows until the next sample.
    fn charge(&self, now_ns: u64) {
        let Some(Ok(mut queues)) = self.queues.map(Mutex::lock) else { return };
        let usages: Vec<Usage> = self.routers.iter().map(|router| router.usage).collect();
        let allowed = allowances(self.passed_ns, self.nic_ns, &usages);
        for (router, allowed) in self.routers.iter().zip(allowed) {
            let next = allowed.map(|frames| frames * SAMPLE_NS / self.passed_ns.max(1));
            let offered: u64 = router.queues.iter().map(|queue| queue.offered).sum();
            for queue in &router.queues {
                let frames = next.map(|next| (next * queue.offered / offered.max(1)).max(1));
                queue.allow(&mut queues, frames, now_ns);
            }
        }
    }

    fn let_all_in(&self) {
        let Some(Ok(mut queues)) = self.queues.map(Mutex::lock) else { return };
        for queue in self.routers.iter().flat_map(|router| &router.queues) {
            queue.allow(&mut queues, None, 0);
        }
    }

    fn set_nice(&self, nice: i32) {
        for thread in &self.nic {
            let number = thread.number().unsigned_abs();
            // SAFETY: takes no pointers; a thread that has ended changes nothing.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, number, nice) };
        }
    }
}

/// The longest time that one of the threads ran or waited, and the time that all of them ran, ns;
/// forgets those that have ended.
fn used(threads: &mut Vec<Thread>) -> (u64, u64) {
    let (mut busiest_ns, mut total_ns) = (0, 0);
    threads.retain_mut(|thread| {
        thread.used().is_ok_and(|used| {
            busiest_ns = busiest_ns.max(used.ran_ns + used.waited_ns);
            total_ns += used.ran_ns;
            true
        })
    });
    (busiest_ns, total_ns)
}

impl Router {
    /// Adds what happened to its queues since the last sample; returns the frames that came, and
    /// those of them that were dropped.
    fn count(&mut self, queues: &Queues) -> (u64, u64) {
        let Ok(queues) = queues.lock() else { return (0, 0) };
        let (mut offered, dropped_before) = (0, self.usage.dropped);
        for queue in &mut self.queues {
            let found = queues.read(queue.slot..queue.slot + 1);
            let Some(now) = found.and_then(|found| found.first().copied()) else { continue };
            let before = std::mem::replace(&mut queue.before, now);
            queue.offered = now.offered.saturating_sub(before.offered);
            offered += queue.offered;
            let usage = &mut self.usage;
            usage.offered += queue.offered;
            usage.enqueued += u64::from(now.enqueued.wrapping_sub(before.enqueued));
            usage.served += now.served.saturating_sub(before.served);
            usage.dropped += (now.dropped_queue + now.dropped_share)
                .saturating_sub(before.dropped_queue + before.dropped_share);
        }
        (offered, self.usage.dropped - dropped_before)
    }
}

impl Queue {
    fn at(slot: usize) -> Self {
        Self { slot, before: host::isl_queue::default(), offered: 0 }
    }

    /// Lets so many more frames in; None: as many as come.
    fn allow(&self, queues: &mut MappedArray<host::isl_queue>, frames: Option<u64>, now_ns: u64) {
        let _ = queues.update(self.slot, |queue| {
            let more = u32::try_from(frames.unwrap_or(0)).unwrap_or(u32::MAX / 4);
            queue.share_limit = queue.enqueued.wrapping_add(more);
            // The 32 bits of the program's clock; 0 would mean: as many as come.
            let now_ms = (now_ns / 1_000_000 & u64::from(u32::MAX)) as u32;
            queue.share_set_ms = if frames.is_some() { now_ms.max(1) } else { 0 };
        });
    }
}

/// An exponential mean's memory: an eighth is forgotten at each sample.
fn faded(sum: u64) -> u64 {
    sum - sum / 8
}

/// Puts the calling thread before all ordinary ones of its core; it may, as it mostly sleeps.
fn go_first(core: usize) -> Result<()> {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters live through the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) } != 0 {
        return Err(Error::Core { core, source: io::Error::last_os_error() });
    }
    Ok(())
}

fn sleep_until(at_ns: u64) {
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
    };
    // SAFETY: both pointers are valid for the call; an early return only makes a beat come early.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const at,
            std::ptr::null_mut(),
        )
    };
}

/// Has SIGTERM call `stop`, which may do no more than set a flag.
pub fn stop_on_sigterm(stop: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler only stores to an atomic, which is safe whatever it interrupts.
    unsafe { libc::signal(libc::SIGTERM, stop as *const () as libc::sighandler_t) };
}
