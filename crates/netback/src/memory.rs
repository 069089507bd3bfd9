//! A guest's memory in our address space.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    cut_short::Watched,
    error::{CutOff, system},
    message::{MAX_REGIONS, MemoryRegion},
};

/// How much memory a guest may share: 1 TiB. Our address space has 128, and sparse files cost nothing.
pub const MAX_MEMORY_BYTES: u64 = 1 << 40;

/// All memory that a guest shares with its NICs, mapped until this value is dropped.
///
/// The file behind a region is checked at mapping. One that is cut short later breaks this memory
/// alone, where [`contain_cut_files`](crate::contain_cut_files) was called: see
/// [`GuestMemory::is_cut_short`]. **Not contained yet:** a file of a file system in user space can
/// delay an access without limit (only the program that runs the machine can have that, not the
/// machine's kernel, except where both are one: User-Mode Linux), and pages that this process touches first are
/// charged to its own cgroup.
#[derive(Debug)]
pub struct GuestMemory {
    mappings: Vec<Mapping>,
    /// Index of the mapping that was hit last. A hint: any value is correct.
    last_hit: AtomicUsize,
}

#[derive(Debug)]
struct Mapping {
    region: MemoryRegion,
    /// Where the region's first byte lies.
    host: NonNull<u8>,
    /// What was mapped: it starts and ends on page borders.
    start: *mut libc::c_void,
    mapped_bytes: usize,
    /// None only while it is dropped: before the memory is unmapped.
    watched: Option<Watched>,
}

// SAFETY: a mapping is not tied to a thread, and it is not changed before it is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above; whoever accesses the memory behind it does so through raw pointers.
unsafe impl Sync for Mapping {}

impl GuestMemory {
    /// Maps the regions, each from its own file; descriptors are not needed afterwards.
    ///
    /// Where regions overlap, any of them may be used.
    pub fn map(regions: &[(MemoryRegion, BorrowedFd<'_>)]) -> Result<Self, CutOff> {
        if regions.is_empty() || regions.len() > MAX_REGIONS {
            let regions = u32::try_from(regions.len()).unwrap_or(u32::MAX);
            return Err(CutOff::Regions { regions, limit: MAX_REGIONS });
        }
        let bytes = regions.iter().fold(0u64, |sum, (region, _)| sum.saturating_add(region.bytes));
        if bytes > MAX_MEMORY_BYTES {
            return Err(CutOff::MemoryBytes { bytes, limit: MAX_MEMORY_BYTES });
        }
        let mappings = regions
            .iter()
            .map(|(region, file)| Mapping::new(*region, *file))
            .collect::<Result<_, _>>()?;
        Ok(Self { mappings, last_hit: AtomicUsize::new(0) })
    }

    /// Whether the file behind a region was found to be shorter than it was: all that is read from
    /// the region since then is zero, and the guest is to be cut off.
    #[inline]
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        self.mappings.iter().any(Mapping::is_broken)
    }

    /// Where a range of guest-physical addresses lies; None unless it lies within one region.
    #[inline]
    #[must_use]
    pub fn guest_range(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        let last_hit = self.last_hit.load(Ordering::Relaxed);
        if let Some(found) =
            self.mappings.get(last_hit).and_then(|mapping| mapping.guest_range(address, bytes))
        {
            return Some(found);
        }
        let (index, found) = self
            .mappings
            .iter()
            .enumerate()
            .find_map(|(index, mapping)| Some((index, mapping.guest_range(address, bytes)?)))?;
        self.last_hit.store(index, Ordering::Relaxed);
        Some(found)
    }

    /// Where a range of the front-end's own addresses lies; None unless it lies within one region.
    #[must_use]
    pub fn user_range(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        self.mappings
            .iter()
            .find_map(|mapping| mapping.at(mapping.region.user_address, address, bytes))
    }
}

impl Mapping {
    #[inline]
    fn is_broken(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_broken)
    }

    fn new(region: MemoryRegion, file: BorrowedFd<'_>) -> Result<Self, CutOff> {
        let end_of = |address: u64| {
            let wraps = CutOff::RegionRange { address, bytes: region.bytes };
            if region.bytes == 0 {
                Err(wraps)
            } else {
                address.checked_add(region.bytes).ok_or(wraps)
            }
        };
        end_of(region.guest_address)?;
        end_of(region.user_address)?;
        let needed_bytes = end_of(region.mmap_offset)?;
        let (file_bytes, block_bytes) = size_and_block(file)?;
        if needed_bytes > file_bytes {
            return Err(CutOff::ShortFile { needed_bytes, file_bytes });
        }
        // Huge pages are mapped and unmapped whole, and their file system's block is such a page.
        let offset = region.mmap_offset / block_bytes * block_bytes;
        let lead = region.mmap_offset - offset;
        let too_large = || CutOff::RegionRange { address: region.mmap_offset, bytes: region.bytes };
        let mapped_bytes =
            (needed_bytes - offset).checked_next_multiple_of(block_bytes).ok_or_else(too_large)?;
        let mapped_bytes = usize::try_from(mapped_bytes).map_err(|_| too_large())?;
        let lead = usize::try_from(lead).map_err(|_| too_large())?;
        let offset = libc::off_t::try_from(offset).map_err(|_| too_large())?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(system("mapping guest memory"));
        }
        // SAFETY: `lead` is less than `mapped_bytes`, because the region is not empty.
        let host = unsafe { start.cast::<u8>().add(lead) };
        let host = NonNull::new(host).expect("the kernel never chooses address 0");
        let mut mapping = Self { region, host, start, mapped_bytes, watched: None };
        mapping.watched = Some(Watched::new(start, mapped_bytes)?);
        Ok(mapping)
    }

    #[inline]
    fn guest_range(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        self.at(self.region.guest_address, address, bytes)
    }

    /// Where `bytes` at `address` lie if the region starts at `base`.
    #[inline]
    fn at(&self, base: u64, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        let offset = address.checked_sub(base)?;
        if bytes > self.region.bytes.checked_sub(offset)? {
            return None;
        }
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: at most one past the region's end, hence inside the mapping or one past it.
        Some(unsafe { self.host.add(offset) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.watched = None;
        // SAFETY: exactly what `new` mapped; queues and chains keep the whole memory alive.
        unsafe { libc::munmap(self.start, self.mapped_bytes) };
    }
}

/// Size of a file, and the size of what can be mapped of it at once: a page or more.
fn size_and_block(file: BorrowedFd<'_>) -> Result<(u64, u64), CutOff> {
    // SAFETY: all zeros are a value of this plain structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for one structure.
    if unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) } != 0 {
        return Err(system("fstat of guest memory"));
    }
    // SAFETY: no arguments that could be wrong.
    let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let block_bytes = u64::try_from(status.st_blksize).unwrap_or(0);
    // A file system may report any block size; only huge pages are larger and matter here.
    let block_bytes = if block_bytes.is_power_of_two() { block_bytes } else { 0 };
    Ok((u64::try_from(status.st_size).unwrap_or(0), block_bytes.max(page_bytes)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::test_support::{memory_file, named_memory_file};

    const PAGE: u64 = 4096;

    fn region(guest: u64, bytes: u64, user: u64, mmap_offset: u64) -> MemoryRegion {
        MemoryRegion { guest_address: guest, bytes, user_address: user, mmap_offset }
    }

    #[test]
    fn ranges_at_the_edges() {
        let file = memory_file(4 * PAGE);
        let memory = GuestMemory::map(&[
            (region(0x10_0000, 2 * PAGE, 0x7000_0000, 0), file.as_fd()),
            (region(0x10_0000 + 2 * PAGE, PAGE, 0x9000_0000, 2 * PAGE), file.as_fd()),
        ])
        .unwrap();
        let start = memory.guest_range(0x10_0000, 1).unwrap();
        assert_eq!(memory.user_range(0x7000_0000, 2 * PAGE), Some(start));
        let last = memory.guest_range(0x10_0000 + 2 * PAGE - 1, 1).unwrap();
        assert_eq!(last.as_ptr() as usize - start.as_ptr() as usize, 8191);
        assert!(memory.guest_range(0x10_0000 - 1, 1).is_none());
        assert!(memory.guest_range(0x10_0000 + 2 * PAGE - 1, 2).is_none(), "crosses two regions");
        assert!(memory.guest_range(0x10_0000 + 3 * PAGE - 1, 2).is_none());
        assert!(memory.guest_range(0x10_0000 + 3 * PAGE, 1).is_none());
        assert!(memory.guest_range(u64::MAX, 1).is_none());
        assert!(memory.guest_range(0x10_0000, u64::MAX).is_none());
        assert!(memory.user_range(0x9000_0000, PAGE + 1).is_none());
        assert!(memory.user_range(0x7000_0000 + 2 * PAGE, 1).is_none());
    }

    #[test]
    fn an_offset_inside_a_page_points_to_the_files_byte() {
        let file = memory_file(2 * PAGE);
        let whole = GuestMemory::map(&[(region(0, 2 * PAGE, 0, 0), file.as_fd())]).unwrap();
        let part = GuestMemory::map(&[(region(0, 100, 0, PAGE + 24), file.as_fd())]).unwrap();
        let written = whole.guest_range(PAGE + 24, 1).unwrap();
        let read = part.guest_range(0, 100).unwrap();
        // SAFETY: one byte inside each mapping.
        unsafe {
            written.write_volatile(0xa5);
            assert_eq!(read.read_volatile(), 0xa5);
        }
        assert!(part.guest_range(0, 101).is_none());
    }

    #[test]
    fn refused_regions() {
        let file = memory_file(2 * PAGE);
        let map = |region| GuestMemory::map(&[(region, file.as_fd())]).unwrap_err();
        assert!(matches!(
            map(region(0, 2 * PAGE, 0, 1)),
            CutOff::ShortFile { needed_bytes: 8193, file_bytes: 8192 }
        ));
        assert!(matches!(map(region(0, 0, 0, 0)), CutOff::RegionRange { .. }));
        assert!(matches!(map(region(u64::MAX, 1, 0, 0)), CutOff::RegionRange { .. }));
        assert!(matches!(map(region(0, PAGE, u64::MAX - 1, 0)), CutOff::RegionRange { .. }));
        assert!(matches!(map(region(0, PAGE, 0, u64::MAX - 1)), CutOff::RegionRange { .. }));
        assert!(matches!(GuestMemory::map(&[]), Err(CutOff::Regions { regions: 0, .. })));
        let sparse = memory_file(MAX_MEMORY_BYTES + 1);
        let two = [MAX_MEMORY_BYTES, 1].map(|bytes| (region(0, bytes, 0, 0), sparse.as_fd()));
        assert!(GuestMemory::map(&two[..1]).is_ok());
        assert!(matches!(GuestMemory::map(&two), Err(CutOff::MemoryBytes { .. })));
    }

    #[test]
    fn dropping_unmaps() {
        let mapped = || {
            std::fs::read_to_string("/proc/self/maps").unwrap().contains("memfd:isolane-dropped")
        };
        let file = named_memory_file(c"isolane-dropped", PAGE);
        let memory = GuestMemory::map(&[(region(0, PAGE, 0, 0), file.as_fd())]).unwrap();
        assert!(mapped());
        drop(memory);
        assert!(!mapped());
    }
}
