//! The CPU profiler: where each core is at every tick of a clock, and whose work that is.

use std::{
    cell::RefCell,
    collections::HashMap,
    io,
    os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd},
    rc::Rc,
};

use libbpf_rs::{Link, RingBuffer, RingBufferBuilder, skel::Skel};

mod pace;

use self::pace::{Pace, TURN_NS};
use crate::{
    Result,
    load::{Family, Loaded, present},
    monotonic_ns,
    skeletons::profile::{ProfileSkel, ProfileSkelBuilder, types},
    symbols::{self, Names},
};

const FAMILY: Family = Family {
    program: "profile",
    feature: "BTF tracepoints (CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS; Linux 5.5) and ring buffers (5.8)",
};
const EVENTS: Family =
    Family { program: "profile", feature: "perf events of cores (CONFIG_PERF_EVENTS)" };
/// What calls the timers that are due.
const TIMER_INTERRUPT: &str = "hrtimer_interrupt";
/// Outermost functions of an interrupt: on x86, on Arm.
const ENTRIES: [&str; 2] = ["asm_sysvec_apic_timer_interrupt", "el1h_64_irq"];
const HEAD_BYTES: usize = size_of::<types::isl_profile_record>();

/// What the ticks are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The processor's cycles: also where interrupts are off.
    Cycles,
    /// The kernel's timer: what is done with interrupts off shows where they are on again.
    CpuClock,
}

impl Clock {
    /// Its name, as perf has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        }
    }
}

/// Whose work a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A thread's.
    Thread(u32),
    /// An interface's, which a softirq polled: number of its namespace, and its index there.
    Nic(u32, u32),
    /// Nobody's: another softirq.
    Softirq,
}

/// Equal samples.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sampled {
    /// Whose.
    pub owner: Owner,
    /// Where.
    pub core: u32,
    /// The thread's name; empty in softirqs.
    pub name: String,
    /// Functions of the kernel, outermost first.
    pub kernel: Vec<String>,
    /// Functions in user space, outermost first.
    pub user: Vec<String>,
    /// How many.
    pub samples: u64,
}

/// What all samples of busy cores were.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// All but lost ones.
    pub sampled: Vec<Sampled>,
    /// Ticks of which nothing is known: there was no memory for them.
    pub lost: u64,
    /// Samples that there had been if no core had been idle.
    pub expected: u64,
    /// Time that the program took, ns, on all cores.
    pub program_ns: u64,
}

/// A sample with addresses; what it has in common with others.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Chain {
    core: u32,
    thread: u32,
    process: u32,
    name: [u8; 16],
    kernel: Vec<u64>,
    user: Vec<u64>,
    /// Whether the chain begins in the interrupt that took it.
    by_timer: bool,
}

#[derive(Default)]
struct Counts {
    counted: HashMap<(Owner, Chain), u64>,
    /// By core: samples of softirqs whose owner is not told yet.
    pending: HashMap<u32, Vec<Chain>>,
}

/// The loaded programs; dropping them detaches.
pub struct Profiler {
    ring: RingBuffer<'static>,
    counts: Rc<RefCell<Counts>>,
    ticks: Vec<Link>,
    skel: Loaded<ProfileSkel<'static>>,
    cores: Vec<u32>,
    clock: Clock,
    /// Of the cores, descriptors that `ticks` owns.
    events: Vec<RawFd>,
    pace: RefCell<Pace>,
    names: Names,
}

impl Profiler {
    /// Samples the cores `hz` times per second each, as far as they are not idle.
    pub fn start(cores: &[u32], hz: u64) -> Result<Self> {
        let mut skel = Loaded::load(FAMILY, ProfileSkelBuilder::default(), |_| Ok(()))?;
        skel.attach().map_err(|error| FAMILY.refused(&error))?;
        let counts = Rc::new(RefCell::new(Counts::default()));
        let mut builder = RingBufferBuilder::new();
        let taking = Rc::clone(&counts);
        builder
            .add(&skel.maps.isl_samples, move |record| {
                taking.borrow_mut().take(record);
                0
            })
            .map_err(|error| FAMILY.refused(&error))?;
        let ring = builder.build().map_err(|error| FAMILY.refused(&error))?;
        let mut clock = Clock::Cycles;
        let (mut ticks, mut events) = (Vec::new(), Vec::new());
        let pace = RefCell::new(Pace::new(hz as f64, monotonic_ns()));
        for &core in cores {
            for hz in pace.borrow().now_hz() {
                let event = match open(core, hz, clock) {
                    Err(_) if ticks.is_empty() => {
                        clock = Clock::CpuClock;
                        open(core, hz, clock)
                    }
                    opened => opened,
                };
                let refused = |source| EVENTS.refused_because(format!("core {core}: {source}"));
                let event = event.map_err(refused)?.into_raw_fd();
                events.push(event);
                let link = skel.progs.isl_tick.attach_perf_event(event);
                ticks.push(link.map_err(|error| FAMILY.refused(&error))?);
            }
        }
        let bss = present(skel.maps.bss_data.as_deref_mut())?;
        bss.profile_window.by_timer = u32::from(clock == Clock::CpuClock);
        let (cores, names) = (cores.to_vec(), Names::new());
        Ok(Self { ring, counts, ticks, skel, cores, clock, events, pace, names })
    }

    /// What the ticks are of.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Forgets what was sampled; from now on only ticks of a window count, on `CLOCK_MONOTONIC`,
    /// ns.
    pub fn begin(&mut self, start_ns: u64, end_ns: u64) -> Result<()> {
        let bss = present(self.skel.maps.bss_data.as_deref_mut())?;
        (bss.profile_window.start_ns, bss.profile_window.end_ns) = (u64::MAX, 1);
        self.ring.consume().map_err(|error| FAMILY.refused(&error))?;
        *self.counts.borrow_mut() = Counts::default();
        self.turn(monotonic_ns())?;
        let mut pace = self.pace.borrow_mut();
        (pace.window, pace.expected) = ((start_ns, end_ns), 0.0);
        let bss = present(self.skel.maps.bss_data.as_deref_mut())?;
        for core in &mut bss.profiled {
            (core.lost, core.ns) = (0, 0);
        }
        (bss.profile_window.start_ns, bss.profile_window.end_ns) = (start_ns, end_ns);
        Ok(())
    }

    /// Reads names anew: programs are loaded and unloaded, and addresses used again.
    pub fn forget_names(&mut self) {
        self.names = Names::new();
    }

    /// Takes what has come; to be called several times a second, where that is possible.
    pub fn drain(&self) -> Result<()> {
        let now_ns = monotonic_ns();
        if now_ns - self.pace.borrow().since_ns >= TURN_NS {
            self.turn(now_ns)?;
        }
        self.ring.consume().map_err(|error| FAMILY.refused(&error))
    }

    /// Changes the rate.
    fn turn(&self, now_ns: u64) -> Result<()> {
        let mut pace = self.pace.borrow_mut();
        pace.end_turn(now_ns);
        for (&event, hz) in self.events.iter().zip(pace.now_hz().into_iter().cycle()) {
            set_rate(event, hz, self.clock)
                .map_err(|source| EVENTS.refused_because(format!("its rate: {source}")))?;
        }
        Ok(())
    }

    /// What was sampled since [`Self::begin`], or since the start, with the functions' names.
    pub fn taken(&self) -> Result<Profile> {
        self.pace.borrow_mut().end_turn(monotonic_ns());
        self.ring.consume().map_err(|error| FAMILY.refused(&error))?;
        let profiled = &present(self.skel.maps.bss_data.as_deref())?.profiled;
        let of_cores = || self.cores.iter().map(|&core| &profiled[core as usize % profiled.len()]);
        let mut counts = self.counts.borrow_mut();
        counts.end();
        Ok(Profile {
            sampled: named(&counts.counted, &self.names),
            lost: of_cores().map(|core| core.lost).sum(),
            expected: whole(self.pace.borrow().expected * self.cores.len() as f64),
            program_ns: of_cores().map(|core| core.ns).sum(),
        })
    }

    /// Ends the sampling; then as [`Self::taken`].
    pub fn finish(mut self) -> Result<Profile> {
        self.ticks.clear();
        self.events.clear();
        self.taken()
    }
}

impl Counts {
    /// Takes a record: a head, of samples with addresses after it.
    fn take(&mut self, record: &[u8]) {
        if record.len() < HEAD_BYTES {
            return;
        }
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&record[4 * at..4 * at + 4]);
            u32::from_ne_bytes(bytes)
        };
        let (kind, core) = (types::isl_profile_kind(word(0)), word(1));
        match kind {
            types::isl_profile_kind::ISL_POLLED => self.told(core, Owner::Nic(word(4), word(5))),
            types::isl_profile_kind::ISL_NOT_POLLED => self.told(core, Owner::Softirq),
            _ => {
                let addresses = record[HEAD_BYTES..].chunks_exact(8).map(address);
                let mut kernel: Vec<_> = addresses.collect();
                let user = kernel.split_off((word(6) as usize).min(kernel.len()));
                let (thread, process, name) = (word(2), word(3), [0; 16]);
                let by_timer = kind == types::isl_profile_kind::ISL_BY_TIMER;
                let mut chain = Chain { core, thread, process, name, kernel, user, by_timer };
                if by_timer || kind == types::isl_profile_kind::ISL_IN_SOFTIRQ {
                    // Whom it interrupted has nothing to do with it.
                    (chain.thread, chain.process, chain.user) = (0, 0, Vec::new());
                    self.pending.entry(core).or_default().push(chain);
                } else {
                    chain.name.copy_from_slice(&record[32..48]);
                    self.count(Owner::Thread(chain.thread), chain);
                }
            }
        }
    }

    fn count(&mut self, owner: Owner, chain: Chain) {
        *self.counted.entry((owner, chain)).or_default() += 1;
    }

    fn told(&mut self, core: u32, owner: Owner) {
        for chain in self.pending.remove(&core).unwrap_or_default() {
            self.count(owner, chain);
        }
    }

    /// What nobody was told of is nobody's.
    fn end(&mut self) {
        let cores: Vec<u32> = self.pending.keys().copied().collect();
        for core in cores {
            self.told(core, Owner::Softirq);
        }
    }
}

fn address(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// The samples with names in place of addresses, outermost first.
fn named(counted: &HashMap<(Owner, Chain), u64>, names: &Names) -> Vec<Sampled> {
    let chains = || counted.keys().map(|(_, chain)| chain);
    let kernel = names.of_kernel(chains().flat_map(|chain| chain.kernel.iter().copied()));
    let mut by_process: HashMap<u32, Vec<u64>> = HashMap::new();
    for chain in chains().filter(|chain| !chain.user.is_empty()) {
        by_process.entry(chain.process).or_default().extend(&chain.user);
    }
    let user: HashMap<u32, HashMap<u64, String>> = by_process
        .into_iter()
        .map(|(process, found)| (process, names.of_process(process, found)))
        .collect();
    let none = HashMap::new();
    let mut found: HashMap<Sampled, u64> = HashMap::new();
    for ((owner, chain), samples) in counted {
        let sampled = Sampled {
            owner: *owner,
            core: chain.core,
            name: text(&chain.name),
            kernel: interrupted(symbols::named(&chain.kernel, &kernel), chain.by_timer),
            user: symbols::named(&chain.user, user.get(&chain.process).unwrap_or(&none)),
            samples: 0,
        };
        *found.entry(sampled).or_default() += samples;
    }
    found.into_iter().map(|(sampled, samples)| Sampled { samples, ..sampled }).collect()
}

fn text(name: &[u8]) -> String {
    let name = name.split(|&letter| letter == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(name).into_owned()
}

/// A chain without the interrupt that took it, if it has that.
fn interrupted(mut chain: Vec<String>, by_timer: bool) -> Vec<String> {
    let timer = chain.iter().rposition(|name| name == TIMER_INTERRUPT).filter(|_| by_timer);
    if let Some(timer) = timer {
        let whole = chain[..timer].iter().rposition(|name| ENTRIES.iter().any(|of| name == of));
        chain.truncate(whole.unwrap_or(timer).max(1));
    }
    chain
}

/// `struct perf_event_attr` of its first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period_or_hz: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

/// `PERF_TYPE_HARDWARE`, `PERF_COUNT_HW_CPU_CYCLES`; `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`.
const CYCLES: (u32, u64) = (0, 0);
const CPU_CLOCK: (u32, u64) = (1, 0);
/// Bit `freq` of the flags.
const BY_FREQUENCY: u64 = 1 << 10;

fn open(core: u32, hz: f64, clock: Clock) -> io::Result<OwnedFd> {
    let ((kind, config), period_or_hz, flags) = match clock {
        Clock::Cycles => (CYCLES, whole(hz).max(1), BY_FREQUENCY),
        Clock::CpuClock => (CPU_CLOCK, whole(1e9 / hz), 0),
    };
    let size = u32::try_from(size_of::<EventAttributes>()).unwrap_or(u32::MAX);
    let attributes =
        EventAttributes { kind, size, config, period_or_hz, flags, ..Default::default() };
    let (anybody, no_group, close_on_exec) = (-1, -1, 8_u64);
    // SAFETY: the attributes live as long as the call, and say how long they are.
    let found = unsafe {
        let arguments = (&raw const attributes, anybody, core, no_group, close_on_exec);
        let (attributes, process, core, group, flags) = arguments;
        libc::syscall(libc::SYS_perf_event_open, attributes, process, core, group, flags)
    };
    let descriptor = i32::try_from(found).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// `PERF_EVENT_IOC_PERIOD`.
const SET_PERIOD: libc::c_ulong = 0x4008_2404;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, far below 2^53"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn set_rate(event: RawFd, hz: f64, clock: Clock) -> io::Result<()> {
    let value = match clock {
        Clock::Cycles => whole(hz).max(1),
        Clock::CpuClock => whole(1e9 / hz),
    };
    // SAFETY: the descriptor is an open event's, and the value lives as long as the call.
    if unsafe { libc::ioctl(event, SET_PERIOD, &raw const value) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: types::isl_profile_kind, words: [u32; 7], chain: &[u64]) -> Vec<u8> {
        let [core, thread, process, netns, ifindex, kernel, user] = words;
        let head = [kind.0, core, thread, process, netns, ifindex, kernel, user];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(b"worker\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(chain.iter().flat_map(|address| address.to_ne_bytes()));
        bytes
    }

    #[test]
    fn samples_of_a_softirq_are_whose_poll_has_ended() {
        let mut counts = Counts::default();
        let softirq = types::isl_profile_kind::ISL_IN_SOFTIRQ;
        counts.take(&record(softirq, [1, 7, 7, 0, 0, 2, 1], &[10, 20, 30]));
        counts.take(&record(softirq, [1, 8, 8, 0, 0, 2, 0], &[10, 20]));
        counts.take(&record(softirq, [0, 8, 8, 0, 0, 1, 0], &[40]));
        counts.take(&record(types::isl_profile_kind::ISL_POLLED, [1, 0, 0, 77, 3, 0, 0], &[]));
        counts.take(&record(types::isl_profile_kind::ISL_NOT_POLLED, [0; 7], &[]));
        counts.take(&record(softirq, [1, 8, 8, 0, 0, 1, 0], &[50]));
        counts.end();
        let found: HashMap<_, _> = counts
            .counted
            .iter()
            .map(|((owner, chain), samples)| ((*owner, chain.kernel.clone()), *samples))
            .collect();
        let expected = [
            ((Owner::Nic(77, 3), vec![10, 20]), 2),
            ((Owner::Softirq, vec![40]), 1),
            ((Owner::Softirq, vec![50]), 1),
        ];
        assert_eq!(found, HashMap::from(expected));
    }

    #[test]
    fn a_timers_interrupt_is_not_what_it_interrupted() {
        let named = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<String>>();
        let inner = [
            "asm_sysvec_apic_timer_interrupt",
            "sysvec_apic_timer_interrupt",
            "hrtimer_interrupt",
            "__hrtimer_run_queues",
        ];
        let outer = ["asm_sysvec_apic_timer_interrupt", "handle_softirqs", "veth_poll"];
        let chain = named(&[outer, inner[..3].try_into().unwrap_or_default()].concat());
        assert_eq!(interrupted(chain.clone(), true), named(&outer));
        assert_eq!(interrupted(chain.clone(), false), chain);
        assert_eq!(
            interrupted(named(&["veth_poll", "hrtimer_interrupt", "f"]), true),
            named(&["veth_poll"])
        );
        assert_eq!(interrupted(named(&inner), true).len(), 1);
        assert!(interrupted(Vec::new(), true).is_empty());
    }

    #[test]
    fn a_threads_sample_has_both_chains_and_its_name() {
        let mut counts = Counts::default();
        let thread = types::isl_profile_kind::ISL_IN_THREAD;
        for _ in 0..3 {
            counts.take(&record(thread, [1, 7, 6, 0, 0, 1, 2], &[10, 20, 30]));
        }
        counts.take(&[1, 2, 3]);
        let found = named(&counts.counted, &Names::new());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].owner, found[0].samples), (Owner::Thread(7), 3));
        assert_eq!(
            (found[0].name.as_str(), found[0].kernel.len(), found[0].user.len()),
            ("worker", 1, 2)
        );
    }
}
