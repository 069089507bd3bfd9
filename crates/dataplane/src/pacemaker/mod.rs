//! The pacemaker: a thread on each managed core that goes before all others, and mostly sleeps.
//!
//! The kernel lets a thread run until its next tick (4 ms at 250 Hz), whatever time slices say,
//! unless something wakes up meanwhile. While several routers compete for a core, or wait for other
//! programs there, the pacemaker wakes up at every beat, so that the scheduler chooses anew. So it
//! does while a virtual machine that mostly sleeps waits for anybody else. And it tells the NIC's
//! threads when to yield: see [`Mode`].

mod machines;
mod mode;
mod others;
mod thread_time;
mod yielding;

use std::{
    os::fd::AsFd,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use libbpf_rs::{MapCore, MapHandle};

pub use self::mode::{Chooser, Mode, Sample};
use self::{
    machines::Machines,
    mode::{BEAT_NS, Pace, QUIET_NS},
    others::Others,
    thread_time::Thread,
    yielding::{FIRST, LAST, Taken, Yielding},
};
use crate::{
    Error, Result, mapped::MappedArray, monotonic_ns, netns, skeletons::demux::types as host,
    timespec,
};

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
    /// Of each virtual machine of this core, the file that lists the threads of its cgroup.
    pub machines: Vec<PathBuf>,
}

/// Looks after cores until `stop` is set or their threads have ended and their machines' cgroups are
/// gone; blocks.
///
/// `table`: the kernel's number of the table of queues; None: there are none. `ready` is called once
/// all cores are looked after.
pub fn run(
    cores: &[CoreWork],
    table: Option<u32>,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<()> {
    let queues = table.map(open_queues).transpose()?;
    let queues = queues.as_ref();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for core in cores {
            let tell = tell.clone();
            scope.spawn(move || match Beat::of(core, queues) {
                Ok(beat) => {
                    let _ = tell.send(Ok(()));
                    drop(tell);
                    beat.run(stop);
                }
                Err(error) => drop(tell.send(Err(error))),
            });
        }
        drop(tell);
        let begun = told.iter().collect::<Result<Vec<()>>>();
        match begun {
            Ok(_) => ready(),
            Err(_) => stop.store(true, Ordering::Relaxed),
        }
        begun.map(drop)
    })
}

struct Queues(MappedArray<host::isl_queue>);

// SAFETY: only read, and each read is of memory that programs of the kernel write meanwhile anyway.
unsafe impl Sync for Queues {}

fn open_queues(id: u32) -> Result<Queues> {
    let refused = |reason: String| Error::Table { name: format!("isl_queues ({id})"), reason };
    let map = MapHandle::from_map_id(id).map_err(|error| refused(format!("{error:#}")))?;
    let entries = map.max_entries() as usize;
    let mapped = MappedArray::new(map.as_fd(), entries);
    mapped.map(Queues).map_err(|error| refused(error.to_string()))
}

struct Router {
    threads: Vec<Thread>,
    queues: Vec<usize>,
    counts: Counts,
}

/// Frames of a router so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    offered: u64,
    /// Dropped because a queue was full.
    dropped: u64,
    /// Dropped because the router had had its share of the core.
    dropped_share: u64,
}

impl Counts {
    fn since(self, before: Self) -> Taken {
        let dropped = self.dropped.wrapping_sub(before.dropped)
            + self.dropped_share.wrapping_sub(before.dropped_share);
        Taken { frames: self.offered.wrapping_sub(before.offered), dropped }
    }
}

/// The state of one core's pacemaker.
struct Beat<'a> {
    nic: Vec<Thread>,
    routers: Vec<Router>,
    queues: Option<&'a Queues>,
    chooser: Chooser,
    active: Vec<bool>,
    taken: Vec<Taken>,
    yielding: Yielding,
    mode: Mode,
    nice: i32,
    sampled_ns: u64,
    others: Others,
    machines: Machines,
}

impl<'a> Beat<'a> {
    /// On the thread that is to look after the core: it moves there and goes before all others.
    fn of(work: &CoreWork, queues: Option<&'a Queues>) -> Result<Self> {
        let open = |threads: &[i32]| threads.iter().filter_map(|&n| Thread::open(n).ok()).collect();
        let routers: Vec<Router> = work
            .routers
            .iter()
            .map(|router| {
                let slots: Vec<usize> = router.queues.iter().map(|&slot| slot as usize).collect();
                let counts = counted(queues, &slots);
                Router { threads: open(&router.threads), queues: slots, counts }
            })
            .collect();
        let all = work.routers.iter().flat_map(|router| &router.threads);
        let others = Others::new(work.core, work.nic_threads.iter().chain(all).copied());
        netns::pin(work.core)?;
        netns::go_first().map_err(|source| Error::Core { core: work.core, source })?;
        let beat = Self {
            nic: open(&work.nic_threads),
            chooser: Chooser::new(routers.len()),
            active: vec![false; routers.len()],
            taken: vec![Taken::default(); routers.len()],
            yielding: Yielding::new(),
            routers,
            queues,
            mode: Mode::Free,
            nice: FIRST,
            sampled_ns: monotonic_ns(),
            others,
            machines: Machines::new(&work.machines),
        };
        beat.set_nice(FIRST);
        Ok(beat)
    }

    fn run(mut self, stop: &AtomicBool) {
        let mut next_ns = monotonic_ns();
        while !stop.load(Ordering::Relaxed) {
            next_ns = (next_ns + self.pace().interval_ns()).max(monotonic_ns());
            sleep_until(next_ns);
            // A sample is a little later than its beat.
            let due_ns = self.sampled_ns + self.pace().sample_ns();
            if next_ns + BEAT_NS / 2 >= due_ns && !self.sample() {
                break;
            }
        }
        self.set_nice(FIRST);
    }

    fn pace(&self) -> Pace {
        Pace {
            mode: self.mode,
            polls_nic: !self.nic.is_empty(),
            is_quiet: self.chooser.is_quiet(self.sampled_ns, QUIET_NS),
            yields: self.yielding.yields(),
            beside_others: self.others.are_there(),
            machines_wait: self.machines.had_to_wait(),
        }
    }

    /// Looks at all threads and queues; false when no thread and no machine's cgroup is left.
    fn sample(&mut self) -> bool {
        let now_ns = monotonic_ns();
        self.sampled_ns = now_ns;
        self.others.look(now_ns);
        self.machines.look(now_ns);
        let mut full = false;
        let routers = self.routers.iter_mut().zip(&mut self.active).zip(&mut self.taken);
        for ((router, active), taken) in routers {
            let counts = counted(self.queues, &router.queues);
            let before = std::mem::replace(&mut router.counts, counts);
            full |= counts.dropped != before.dropped;
            *active = counts.offered != before.offered;
            *taken = counts.since(before);
        }
        let (wanted_percent, ran_percent) = self.look_at_threads();
        let mode = self.chooser.mode(Sample {
            now_ns,
            active: &self.active,
            overloaded: full || wanted_percent >= BUSY_PERCENT,
            shared: ran_percent < OWN_PERCENT,
        });
        self.mode = mode;
        let nice = self.nice_of(mode, ran_percent);
        if nice != self.nice {
            self.set_nice(nice);
            self.nice = nice;
        }
        !self.nic.is_empty()
            || self.routers.iter().any(|router| !router.threads.is_empty())
            || self.machines.are_there()
    }

    fn nice_of(&mut self, mode: Mode, ran_percent: u64) -> i32 {
        if mode != Mode::Contended {
            self.yielding.reset();
            return if mode == Mode::Alone { LAST } else { FIRST };
        }
        let (chooser, now_ns) = (&self.chooser, self.sampled_ns);
        let expected = self.taken.iter().enumerate();
        let expected = expected.filter(|&(router, _)| chooser.expects(router, now_ns));
        self.yielding.nice(ran_percent, expected.map(|(_, taken)| *taken))
    }

    /// The longest part of the time that one of the threads wanted the core, and the part that they
    /// had it together, percent.
    ///
    /// Looks at the threads of a router with queues only while no other has work: looking takes about
    /// a microsecond for each thread, and while several have work their queues tell enough.
    fn look_at_threads(&mut self) -> (u64, u64) {
        let (mut wanted, mut ran) = used(&mut self.nic);
        let several = self.active.iter().filter(|&&active| active).count() > 1;
        for (router, active) in self.routers.iter_mut().zip(&mut self.active) {
            let told_by_queues = !router.queues.is_empty() && !self.nic.is_empty();
            if told_by_queues && (several || !*active) {
                continue;
            }
            let (its_wanted, its_ran) = used(&mut router.threads);
            wanted = wanted.max(its_wanted);
            ran += its_ran;
            *active |= router.queues.is_empty() && its_ran > 0;
        }
        (wanted, ran)
    }

    fn set_nice(&self, nice: i32) {
        for thread in &self.nic {
            let number = thread.number().unsigned_abs();
            // SAFETY: takes no pointers; a thread that has ended changes nothing.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, number, nice) };
        }
    }
}

/// The longest part of the time that one of the threads wanted a core, and the part that they had one
/// together, percent; forgets those that have ended.
fn used(threads: &mut Vec<Thread>) -> (u64, u64) {
    let (mut wanted, mut ran) = (0, 0);
    threads.retain_mut(|thread| {
        thread.used().is_ok_and(|used| {
            wanted = wanted.max(used.wanted_percent());
            ran += used.ran_percent();
            true
        })
    });
    (wanted, ran)
}

/// What has happened to the queues of a router so far.
fn counted(queues: Option<&Queues>, slots: &[usize]) -> Counts {
    let one = |slot: usize| queues?.0.read(slot..slot + 1)?.first().copied();
    slots.iter().filter_map(|&slot| one(slot)).fold(Counts::default(), |sum, queue| Counts {
        offered: sum.offered.wrapping_add(queue.offered),
        dropped: sum.dropped.wrapping_add(queue.dropped_queue),
        dropped_share: sum.dropped_share.wrapping_add(queue.dropped_share),
    })
}

fn sleep_until(at_ns: u64) {
    let at = timespec(at_ns);
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

#[cfg(test)]
mod tests {
    use std::{
        mem::size_of,
        time::{Duration, Instant},
    };

    use libbpf_rs::{MapHandle, MapType, libbpf_sys};

    use super::*;
    use crate::test_thread;

    const LIMIT: Duration = Duration::from_secs(300);

    /// A table of queues as the demultiplexer has, which the test fills.
    fn table(queues: u32) -> MapHandle {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            ..Default::default()
        };
        let value = u32::try_from(size_of::<host::isl_queue>()).expect("it is small");
        MapHandle::create(MapType::Array, Some("isl_queues"), 4, value, queues, &options)
            .expect("the kernel has such maps")
    }

    fn nice(thread: i32) -> i32 {
        // SAFETY: takes no pointers.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.unsigned_abs()) }
    }

    #[test]
    fn a_nic_thread_yields_while_all_starve_until_one_keeps_up() {
        let core = test_thread::first_core();
        let map = table(2);
        let mut queues: MappedArray<host::isl_queue> =
            MappedArray::new(map.as_fd(), 2).expect("it can be mapped");
        let mut until = |dropped: [u64; 2], is_reached: &dyn Fn() -> bool| {
            let limit = Instant::now() + LIMIT;
            while !is_reached() {
                assert!(Instant::now() < limit, "did not come about");
                for (slot, dropped) in dropped.into_iter().enumerate() {
                    queues.update(slot, |queue| {
                        queue.offered += 16;
                        queue.dropped_queue += dropped;
                    });
                }
                thread::sleep(Duration::from_millis(1));
            }
        };
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let work = |number: i32| CoreWork {
            core,
            nic_threads: vec![number],
            routers: (0..2)
                .map(|slot| RouterWork { threads: vec![], queues: vec![slot] })
                .collect(),
            machines: vec![],
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                netns::pin(core).expect("the core is there");
                // SAFETY: gettid takes nothing.
                tell.send(unsafe { libc::gettid() }).expect("the test listens");
                while !over.load(Ordering::Relaxed) {
                    test_thread::spin(100_000);
                }
            });
            let number = told.recv().expect("it runs");
            let id = map.info().expect("it is there").info.id;
            let paced = scope.spawn({
                let (stop, work) = (&stop, work(number));
                move || run(&[work], Some(id), stop, || ())
            });
            until([16, 1], &|| nice(number) == FIRST);
            until([16, 16], &|| nice(number) > FIRST);
            until([16, 1], &|| nice(number) == FIRST);
            stop.store(true, Ordering::Relaxed);
            over.store(true, Ordering::Relaxed);
            paced.join().expect("it ends").expect("the core can be looked after");
        });
    }
}
