//! Files of guests' memory that are cut short while they are mapped.
//!
//! Whoever touches what is no longer there gets `SIGBUS`, which would end the process and so all
//! guests. The handler here puts empty memory in that guest's mapping's stead and marks it; the
//! access goes on with zeros, and the guest is cut off at the end of the round.

use std::{
    io,
    os::raw::c_int,
    ptr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::error::CutOff;

/// Mappings at one time: of 256 NICs, each with as many regions as it may have.
const SLOTS: usize = 2048;

struct Slot {
    /// Where the mapping starts; 0: the slot is free, 1: it is being filled.
    start: AtomicUsize,
    bytes: AtomicUsize,
    broken: AtomicBool,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static TABLE: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];

impl Slot {
    const fn free() -> Self {
        Self {
            start: AtomicUsize::new(FREE),
            bytes: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }
}

/// Takes a free slot of a table, and returns its number; None: there is none.
fn take(table: &[Slot], start: usize, bytes: usize) -> Option<usize> {
    table.iter().position(|slot| {
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        let is_free = slot.start.compare_exchange(FREE, TAKEN, success, failure).is_ok();
        if is_free {
            slot.bytes.store(bytes, Ordering::Relaxed);
            slot.broken.store(false, Ordering::Relaxed);
            slot.start.store(start, Ordering::Release);
        }
        is_free
    })
}

/// A mapping that is looked after, until this value is dropped: before it is unmapped.
#[derive(Debug)]
pub(crate) struct Watched(usize);

impl Watched {
    pub(crate) fn new(start: *mut libc::c_void, bytes: usize) -> Result<Self, CutOff> {
        let slot = take(&TABLE, start.addr(), bytes);
        slot.map(Self).ok_or(CutOff::Mappings { limit: SLOTS })
    }

    /// Whether the file was found to be shorter than the mapping.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        TABLE[self.0].broken.load(Ordering::Relaxed)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        TABLE[self.0].start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler, for the whole process. `SIGBUS` that no guest's memory causes ends it as before.
pub fn contain_cut_files() -> io::Result<()> {
    // SAFETY: all zeros are a value of this plain structure: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO;
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    action.sa_sigaction = handler as usize;
    // SAFETY: the handler calls nothing but what is allowed in one.
    let failed = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn handle(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a live structure, and SIGBUS has an address in it.
    let address = unsafe { (*info).si_addr() }.addr();
    for slot in &TABLE {
        let start = slot.start.load(Ordering::Acquire);
        let bytes = slot.bytes.load(Ordering::Relaxed);
        if start > TAKEN && address.wrapping_sub(start) < bytes {
            slot.broken.store(true, Ordering::Relaxed);
            if put_empty_memory(start, bytes) {
                return;
            }
        }
    }
    // SAFETY: with the default action the same access ends the process, as it should.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

/// In a mapping's stead; false: the kernel has none.
fn put_empty_memory(start: usize, bytes: usize) -> bool {
    // SAFETY: exactly what one of our mappings has, which its owner unmaps later all the same.
    let at = unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(start),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    at != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;
    use crate::{GuestMemory, MemoryRegion, test_support::memory_file};

    const BYTES: u64 = 8 * 4096;

    fn mapped(file: &impl AsFd) -> GuestMemory {
        let region =
            MemoryRegion { guest_address: 0, bytes: BYTES, user_address: 0, mmap_offset: 0 };
        GuestMemory::map(&[(region, file.as_fd())]).unwrap()
    }

    #[test]
    fn a_file_that_is_cut_short_breaks_its_own_memory_alone() {
        contain_cut_files().unwrap();
        let (cut, whole) = (memory_file(BYTES), memory_file(BYTES));
        let (broken, other) = (mapped(&cut), mapped(&whole));
        let byte = |memory: &GuestMemory, at| memory.guest_range(at, 1).unwrap().as_ptr();
        // SAFETY: mapped, and used by nobody else.
        unsafe {
            byte(&broken, 0).write_volatile(7);
            byte(&other, 0).write_volatile(8);
            assert_eq!(libc::ftruncate(cut.as_raw_fd(), 4096), 0);
            assert_eq!(byte(&broken, 0).read_volatile(), 7, "the first page is there still");
            assert!(!broken.is_cut_short());
            byte(&broken, BYTES - 1).write_volatile(9);
            assert!(broken.is_cut_short());
            assert_eq!(byte(&broken, 0).read_volatile(), 0, "all of it is empty memory now");
            assert_eq!(byte(&other, 0).read_volatile(), 8);
        }
        assert!(!other.is_cut_short());
        drop(broken);
        assert!(!mapped(&whole).is_cut_short(), "nor is what gets the same slot");
    }

    #[test]
    fn a_table_has_so_many_slots_and_each_is_taken_once() {
        let table = [const { Slot::free() }; 2];
        assert_eq!([take(&table, 4096, 1), take(&table, 8192, 1)], [Some(0), Some(1)]);
        assert_eq!(take(&table, 12288, 1), None);
        table[0].start.store(FREE, Ordering::Relaxed);
        table[0].broken.store(true, Ordering::Relaxed);
        assert_eq!(take(&table, 12288, 1), Some(0));
        assert!(!table[0].broken.load(Ordering::Relaxed), "that was somebody else's");
    }
}
