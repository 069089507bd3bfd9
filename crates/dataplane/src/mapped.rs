//! A BPF array map in our memory: read and cleared without a system call per entry.

use std::{
    io, ops,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

/// Array map of `len` entries of type `T`, created with `BPF_F_MMAPABLE`.
pub(crate) struct MappedArray<T: Copy + Default> {
    start: *mut T,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl<T: Copy + Default + Send> Send for MappedArray<T> {}

impl<T: Copy + Default> MappedArray<T> {
    /// Maps the whole array. `T` must be a multiple of 8 bytes, as the kernel pads entries.
    pub(crate) fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        debug_assert_eq!(size_of::<T>() % 8, 0);
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len * size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A copy of some entries; None when out of range.
    pub(crate) fn read(&self, range: ops::Range<usize>) -> Option<Vec<T>> {
        if range.end > self.len {
            return None;
        }
        // SAFETY: inside the mapping; volatile because programs write it meanwhile.
        Some(range.map(|index| unsafe { self.start.add(index).read_volatile() }).collect())
    }

    /// Changes an entry; None when out of range. What programs write at the same moment may be lost.
    pub(crate) fn update(&mut self, index: usize, change: impl FnOnce(&mut T)) -> Option<()> {
        if index >= self.len {
            return None;
        }
        // SAFETY: inside the mapping, and `T` is plain data of which any bytes are a value.
        change(unsafe { &mut *self.start.add(index) });
        Some(())
    }

    /// Sets the first `count` entries to zero.
    pub(crate) fn clear(&mut self, count: usize) {
        for index in 0..count.min(self.len) {
            // SAFETY: inside the mapping.
            unsafe { self.start.add(index).write_volatile(T::default()) };
        }
    }
}

impl<T: Copy + Default> Drop for MappedArray<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, and nobody borrows from it.
        unsafe { libc::munmap(self.start.cast(), self.len * size_of::<T>()) };
    }
}
