//! Whether a virtual machine that mostly sleeps waits for others on its core.
//!
//! One that computes waits, too, but nobody feels that; and each beat takes time from it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::thread_time::{Thread, Used};

/// Between two looks, of so many threads at least, if there are as many: a look takes about a microsecond
/// for each of them, in which nobody else has the core. A core without packets is woken up every 10 ms.
const LOOK_NS: u64 = 9_000_000;
const LOOK_THREADS: usize = 32;
/// Between two looks at which threads a machine has, which take longer.
const LIST_NS: u64 = 200_000_000;
/// Of a machine with more threads the others are not looked at.
const MAX_THREADS: usize = 64;
/// After a machine had to wait, beats go on for so long. Then another one has to.
const WAITS_NS: u64 = 2_000_000_000;
/// A thread that waited for more of the time than this (percent) waited for long: for a tick of the kernel.
const WAITED_PERCENT: u64 = 10;
/// What a thread did in so much time and less tells whether it sleeps. Of what it did longer ago less and less
/// counts.
const LATELY_NS: u64 = 1_000_000_000;
const MIN_LATELY_NS: u64 = 100_000_000;

/// The virtual machines of a core.
pub(super) struct Machines {
    all: Vec<Machine>,
    next: usize,
    looked_ns: u64,
    wait_until_ns: Option<u64>,
}

struct Machine {
    /// The file that lists the threads of its cgroup.
    members: PathBuf,
    is_there: bool,
    listed_ns: Option<u64>,
    threads: BTreeMap<i32, Watched>,
}

struct Watched {
    thread: Thread,
    lately: Lately,
}

/// How much of the last time a thread wanted the core.
#[derive(Clone, Copy, Default)]
struct Lately {
    wanted_ns: u64,
    passed_ns: u64,
}

impl Lately {
    fn add(&mut self, used: Used) {
        self.wanted_ns += used.ran_ns + used.waited_ns;
        self.passed_ns += used.passed_ns;
        if self.passed_ns > LATELY_NS {
            self.wanted_ns /= 2;
            self.passed_ns /= 2;
        }
    }

    /// A wait counts when it is over: only in the long run does one that computes never sleep.
    fn mostly_slept(self) -> bool {
        self.passed_ns >= MIN_LATELY_NS && 2 * self.wanted_ns < self.passed_ns
    }
}

impl Machines {
    /// Those whose cgroups these files list the threads of.
    pub(super) fn new(members: &[PathBuf]) -> Self {
        let machine = |members: &PathBuf| Machine {
            members: members.clone(),
            is_there: members.exists(),
            listed_ns: None,
            threads: BTreeMap::new(),
        };
        Self {
            all: members.iter().map(machine).collect(),
            next: 0,
            looked_ns: 0,
            wait_until_ns: None,
        }
    }

    /// Whether one of them had to wait lately.
    pub(super) fn had_to_wait(&self) -> bool {
        self.wait_until_ns.is_some()
    }

    /// Whether one of their cgroups is there, as far as is known.
    pub(super) fn are_there(&self) -> bool {
        self.all.iter().any(|machine| machine.is_there)
    }

    /// Looks at some of them in turn, if it is time to.
    pub(super) fn look(&mut self, now_ns: u64) {
        if now_ns - self.looked_ns < LOOK_NS {
            return;
        }
        self.looked_ns = now_ns;
        self.wait_until_ns = self.wait_until_ns.filter(|&until_ns| now_ns < until_ns);
        let mut threads = 0;
        for _ in 0..self.all.len() {
            let machine = &mut self.all[self.next];
            if machine.waits(now_ns) {
                self.wait_until_ns = Some(now_ns + WAITS_NS);
            }
            threads += machine.threads.len() + 1;
            self.next = (self.next + 1) % self.all.len();
            if threads >= LOOK_THREADS {
                break;
            }
        }
    }
}

impl Machine {
    /// Looks at its threads: whether one of them had to wait since the last look.
    fn waits(&mut self, now_ns: u64) -> bool {
        if self.listed_ns.is_none_or(|listed_ns| now_ns - listed_ns >= LIST_NS) {
            self.listed_ns = Some(now_ns);
            self.list();
        }
        let mut seen = Vec::with_capacity(self.threads.len());
        self.threads.retain(|_, one| {
            one.thread.used().is_ok_and(|used| {
                one.lately.add(used);
                seen.push((used, one.lately));
                true
            })
        });
        waits(&seen)
    }

    /// Looks which threads it has; it keeps those that it knows where that cannot be read.
    fn list(&mut self) {
        let Ok(numbers) = listed(&self.members) else { return };
        self.is_there = numbers.is_some();
        let numbers = numbers.unwrap_or_default();
        self.threads.retain(|number, _| numbers.contains(number));
        for number in numbers {
            // Meanwhile it may have ended.
            if !self.threads.contains_key(&number)
                && let Some(one) = Watched::of(number)
            {
                self.threads.insert(number, one);
            }
        }
    }
}

impl Watched {
    fn of(number: i32) -> Option<Self> {
        Some(Self { thread: Thread::open(number).ok()?, lately: Lately::default() })
    }
}

/// The threads of a cgroup; None: it is gone.
fn listed(members: &Path) -> io::Result<Option<Vec<i32>>> {
    match fs::read_to_string(members) {
        Ok(text) => {
            let numbers = text.lines().filter_map(|line| line.parse().ok());
            Ok(Some(numbers.take(MAX_THREADS).collect()))
        }
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ENODEV) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether a thread that mostly sleeps waited for more of the time than the others of its machine can have been
/// the reason.
fn waits(seen: &[(Used, Lately)]) -> bool {
    let ran: u64 = seen.iter().map(|(used, _)| used.ran_percent()).sum();
    seen.iter().any(|(used, lately)| {
        let waited = used.wanted_percent() - used.ran_percent();
        lately.mostly_slept() && waited >= ran - used.ran_percent() + WAITED_PERCENT
    })
}

#[cfg(test)]
mod tests {
    use std::{
        process,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{monotonic_ns, test_thread};

    const MS: u64 = 1_000_000;
    const LIMIT: Duration = Duration::from_secs(300);

    /// A thread that ran and waited for such parts of 10 ms, percent, and wanted such a part of the last second.
    fn used(ran: u64, waited: u64, lately: u64) -> (Used, Lately) {
        let used = Used { ran_ns: ran * MS / 10, waited_ns: waited * MS / 10, passed_ns: 10 * MS };
        (used, Lately { wanted_ns: lately * 10 * MS, passed_ns: 1_000 * MS })
    }

    #[test]
    fn who_mostly_sleeps_waits_and_who_computes_does_not() {
        for (all, expected) in [
            (vec![used(5, 10, 49)], true),
            (vec![used(5, 9, 49)], false),
            (vec![used(50, 50, 100)], false),
            (vec![used(5, 10, 50)], false),
            (vec![used(5, 40, 10), used(31, 0, 31)], false),
            (vec![used(5, 40, 10), used(30, 0, 30)], true),
            (vec![used(50, 50, 100), used(5, 60, 20)], true),
            (vec![], false),
        ] {
            let shown: Vec<Used> = all.iter().map(|(used, _)| *used).collect();
            assert_eq!(waits(&all), expected, "{shown:?}");
        }
    }

    /// Adds looks of 10 ms at a thread that has its turn of 4 ms each `turns` of them.
    fn computes(lately: &mut Lately, turns: u64, mut each: impl FnMut(Lately)) {
        for look in 0..1_000 {
            let mut used = Used { ran_ns: 0, waited_ns: 0, passed_ns: 10 * MS };
            if look % turns == turns - 1 {
                (used.ran_ns, used.waited_ns) = (4 * MS, (10 * turns - 4) * MS);
            }
            lately.add(used);
            each(*lately);
        }
    }

    #[test]
    fn one_that_computes_is_not_taken_for_one_that_sleeps_while_it_waits_for_its_turn() {
        for turns in [1, 2, 4] {
            computes(&mut Lately::default(), turns, |lately| assert!(!lately.mostly_slept()));
        }
        let mut lately = Lately::default();
        let mut slept = 0;
        computes(&mut lately, 12, |lately| slept += u32::from(lately.mostly_slept()));
        assert!(slept <= 12, "at first only: {slept}");
    }

    #[test]
    fn who_sleeps_is_known_after_a_while_also_if_it_computed_before() {
        let mut lately = Lately::default();
        computes(&mut lately, 1, |_| ());
        let sleeps = Used { ran_ns: MS, waited_ns: MS, passed_ns: 10 * MS };
        let looks = (0..1_000).take_while(|_| {
            lately.add(sleeps);
            !lately.mostly_slept()
        });
        assert!((10..=200).contains(&looks.count()));
    }

    #[test]
    fn threads_of_a_cgroup_come_and_go_with_its_list() {
        let file = std::env::temp_dir().join(format!("isolane-members-{}", process::id()));
        // SAFETY: gettid takes nothing.
        let me = unsafe { libc::gettid() };
        let mut machines = Machines::new(std::slice::from_ref(&file));
        assert!(!machines.are_there());
        let mut look = |listed: &str, threads: &[i32]| {
            fs::write(&file, listed).expect("it can be written");
            let limit = Instant::now() + LIMIT;
            while !machines.all[0].threads.keys().eq(threads) {
                assert!(Instant::now() < limit, "{listed:?} never came about");
                test_thread::spin(MS);
                machines.look(monotonic_ns());
            }
            assert!(machines.are_there());
        };
        look(&format!("{me}\n-1\n"), &[me]);
        look("", &[]);
        look(&format!("{me}\n"), &[me]);
        fs::remove_file(&file).expect("it is there");
        let limit = Instant::now() + LIMIT;
        while machines.are_there() {
            assert!(Instant::now() < limit);
            test_thread::spin(MS);
            machines.look(monotonic_ns());
        }
        assert!(machines.all[0].threads.is_empty());
    }

    #[test]
    fn many_machines_are_looked_at_in_turn() {
        let file = std::env::temp_dir().join(format!("isolane-many-{}", process::id()));
        // SAFETY: gettid takes nothing.
        fs::write(&file, format!("{}\n", unsafe { libc::gettid() })).expect("it can be written");
        let mut machines = Machines::new(&vec![file.clone(); 100]);
        let looked = |machines: &Machines| {
            machines.all.iter().filter(|machine| !machine.threads.is_empty()).count()
        };
        for look in 1..=7 {
            machines.look(look * LOOK_NS);
            let expected =
                (LOOK_THREADS / 2 * usize::try_from(look).expect("it is small")).min(100);
            assert_eq!(looked(&machines), expected);
        }
        fs::remove_file(&file).expect("it is there");
    }
}
