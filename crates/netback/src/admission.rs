//! What an uplink lets in for whom: windows that programs of the kernel keep to before they copy a frame.
//!
//! A port's window is as wide as its router has buffers. What finds it shut is refused where it arrives, and
//! costs neither the copy nor this side's time: a flood for one router takes little from the others. A few
//! frames are always let in, so that somebody looks for buffers again.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use crate::mapping::Mapping;

/// A socket filter, and the map of counters that it shares with its user.
#[derive(Debug)]
pub struct AdmissionProgram {
    /// Of a program of type `BPF_PROG_TYPE_SOCKET_FILTER`.
    pub filter: OwnedFd,
    /// Of a map that can be mapped: entries for the whole ring, for frames for several ports, and for each
    /// port of the uplink in their order.
    pub entries: OwnedFd,
}

/// `struct isl_admission` of `bpf/include/admission.h`. Each side writes a cache line of its own.
#[repr(C)]
#[derive(Debug, Default)]
struct Entry {
    let_in: AtomicU64,
    refused: AtomicU64,
    line0: [u64; 6],
    taken: AtomicU64,
    window: AtomicU32,
    pad: u32,
    line1: [u64; 6],
}

const ALL: usize = 0;
const OTHERS: usize = 1;
const FIRST: usize = 2;

/// Let in although the router seems to have no buffers: with nothing let in nobody would look again.
const MIN_WINDOW: u32 = 4;
/// Of a router that is not there, whose frames are counted as such; also before the first frame.
const ABSENT: u32 = 256;
/// Of frames for several ports: this part of the ring.
const OTHERS_PART: u32 = 4;
/// From here on a port has enough buffers, and its window is opened anew only after it was given frames.
const ENOUGH: u32 = 64;
/// At least so long between two corrections of what waits.
const CORRECTION_NS: u64 = 100_000_000;

/// The entries of one uplink, shared with the kernel.
#[derive(Debug)]
struct Entries {
    mapping: Mapping,
    count: usize,
}

// SAFETY: what is in the mapping is atomic.
unsafe impl Sync for Entries {}

impl Entries {
    fn map(map: &OwnedFd, count: usize) -> io::Result<Self> {
        let mapping = Mapping::new(count * size_of::<Entry>(), Some((map, 0)))?;
        Ok(Self { mapping, count })
    }

    #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins with a page")]
    fn get(&self, number: usize) -> &Entry {
        assert!(number < self.count);
        // SAFETY: inside the mapping, which lives as long as this value; all zeros are an entry.
        unsafe { &*self.mapping.start.cast::<Entry>().add(number) }
    }
}

/// What an uplink lets in.
#[derive(Debug)]
pub(crate) struct Admission {
    entries: Arc<Entries>,
    /// When what waits may be set right again.
    corrects_at_ns: u64,
}

/// What an uplink lets in for one port.
#[derive(Debug)]
pub(crate) struct Gate {
    entries: Arc<Entries>,
    number: usize,
    /// Frames were offered to the port since its window was opened, or it had few buffers then.
    stale: bool,
}

impl Admission {
    /// Shares the entries of an uplink with so many ports, and slots in its ring, with its programs.
    pub(crate) fn new(map: &OwnedFd, ports: usize, slots: u32) -> io::Result<Self> {
        let entries = Arc::new(Entries::map(map, FIRST + ports)?);
        let made = Self { entries, corrects_at_ns: 0 };
        made.entries.get(ALL).window.store(slots, Ordering::Relaxed);
        made.entries.get(OTHERS).window.store(slots / OTHERS_PART, Ordering::Relaxed);
        for port in 0..ports {
            made.entries.get(FIRST + port).window.store(ABSENT, Ordering::Relaxed);
        }
        Ok(made)
    }

    /// That of the uplink's port with this number.
    pub(crate) fn gate(&self, port: usize) -> Gate {
        Gate { entries: Arc::clone(&self.entries), number: FIRST + port, stale: false }
    }

    /// A frame was taken that is no single port's.
    pub(crate) fn took_other(&self) {
        took(self.entries.get(OTHERS), 1);
    }

    /// So many frames were taken, whoever's they were; 0: nothing waits. Then what was let in and never came,
    /// such as what the ring had no space for, is forgotten from time to time. Who is let in at that moment
    /// waits for less than nothing until the next time.
    pub(crate) fn took(&mut self, frames: u32, now_ns: u64) {
        took(self.entries.get(ALL), frames.into());
        if frames == 0 && now_ns >= self.corrects_at_ns {
            self.corrects_at_ns = now_ns + CORRECTION_NS;
            for number in 0..self.entries.count {
                let entry = self.entries.get(number);
                entry.taken.store(entry.let_in.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Frames for several ports that found no space.
    pub(crate) fn refused_others(&self) -> u64 {
        self.entries.get(OTHERS).refused.load(Ordering::Relaxed)
    }

    /// Frames that arrived and were refused: for a port, or because they are for nobody here.
    pub(crate) fn refused(&self) -> u64 {
        let numbers = (0..self.entries.count).filter(|&number| number != OTHERS);
        numbers.map(|number| self.entries.get(number).refused.load(Ordering::Relaxed)).sum()
    }
}

impl Gate {
    /// A frame for the port was taken.
    pub(crate) fn took(&mut self) {
        took(self.entries.get(self.number), 1);
        self.stale = true;
    }

    /// Whether its window is to be opened anew.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Opens its window for as many frames as its router has buffers; None: there is no router.
    pub(crate) fn open(&mut self, buffers: Option<u32>) {
        let window = buffers.map_or(ABSENT, |buffers| buffers.max(MIN_WINDOW));
        self.entries.get(self.number).window.store(window, Ordering::Relaxed);
        self.stale = window < ENOUGH;
    }

    /// Frames for the port that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.entries.get(self.number).refused.load(Ordering::Relaxed)
    }
}

/// Nobody else writes this.
fn took(entry: &Entry, frames: u64) {
    entry.taken.store(entry.taken.load(Ordering::Relaxed) + frames, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::memory_file;

    impl Admission {
        /// Shares entries with nobody.
        pub(crate) fn alone(ports: usize) -> Self {
            let map = memory_file(((FIRST + ports) * size_of::<Entry>()) as u64);
            Self::new(&map, ports, 4096).unwrap()
        }

        /// Of the whole ring, of frames for several ports, and of each port.
        pub(crate) fn windows(&self) -> Vec<u32> {
            let window = |number| self.entries.get(number).window.load(Ordering::Relaxed);
            (0..self.entries.count).map(window).collect()
        }
    }

    fn waiting(admission: &Admission) -> Vec<i64> {
        let of = |number| {
            let entry = admission.entries.get(number);
            let [let_in, taken] =
                [&entry.let_in, &entry.taken].map(|one| one.load(Ordering::Relaxed));
            i64::try_from(let_in).unwrap() - i64::try_from(taken).unwrap()
        };
        (0..admission.entries.count).map(of).collect()
    }

    #[test]
    fn a_window_is_as_wide_as_there_are_buffers_and_never_shut() {
        let admission = Admission::alone(2);
        assert_eq!(admission.windows(), [4096, 1024, ABSENT, ABSENT]);
        let mut gate = admission.gate(1);
        for (buffers, window, stale) in [
            (Some(200), 200, false),
            (Some(63), 63, true),
            (Some(0), MIN_WINDOW, true),
            (None, ABSENT, false),
        ] {
            gate.open(buffers);
            assert_eq!((admission.windows()[3], gate.is_stale()), (window, stale));
        }
        gate.took();
        assert!(gate.is_stale(), "it has a buffer less");
        assert_eq!(admission.windows()[2], ABSENT, "another port's");
    }

    #[test]
    fn what_is_taken_waits_no_more_and_what_never_came_is_forgotten() {
        let mut admission = Admission::alone(1);
        let mut gate = admission.gate(0);
        for (number, frames) in [(ALL, 9), (OTHERS, 2), (FIRST, 7)] {
            admission.entries.get(number).let_in.store(frames, Ordering::Relaxed);
        }
        (0..4).for_each(|_| gate.took());
        admission.took_other();
        admission.took(5, 1);
        assert_eq!(waiting(&admission), [4, 1, 3]);
        admission.took(0, 1);
        assert_eq!(waiting(&admission), [0; 3]);
        // Not each time that nothing waits: there may be many ports.
        admission.entries.get(FIRST).let_in.store(9, Ordering::Relaxed);
        admission.took(0, CORRECTION_NS);
        assert_eq!(waiting(&admission), [0, 0, 2]);
        admission.took(0, CORRECTION_NS + 1);
        assert_eq!(waiting(&admission), [0; 3]);
    }
}
