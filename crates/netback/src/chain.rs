//! A chain of descriptors, translated: the buffer that a guest hands over.

use std::{
    ptr::{self, NonNull},
    sync::Arc,
};

use crate::memory::GuestMemory;

/// A contiguous part of a buffer, in our address space.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Where it starts. The guest may change what lies there at any moment.
    pub start: NonNull<u8>,
    /// Its size; never 0.
    pub bytes: usize,
}

/// A buffer of the guest's: what the device may read, and what it may write.
///
/// It keeps the guest's memory mapped until it is used for another guest, cleared or dropped. One
/// value serves for all chains, so that nothing is allocated per chain.
#[derive(Debug, Default)]
pub struct Chain {
    pub(crate) head: u16,
    /// Descriptors that it has, those without bytes too.
    pub(crate) descriptors: u32,
    readable: Vec<Segment>,
    writable: Vec<Segment>,
    memory: Option<Arc<GuestMemory>>,
}

// SAFETY: the segments point into memory that the chain keeps mapped, and that no thread owns.
unsafe impl Send for Chain {}

impl Chain {
    /// A chain without segments, to be filled by [`crate::Queue::pop`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets go of the segments and of the guest's memory.
    pub fn clear(&mut self) {
        self.readable.clear();
        self.writable.clear();
        self.memory = None;
    }

    /// Its first descriptor, which names it in [`crate::Queue::push_used`].
    #[must_use]
    pub fn head(&self) -> u16 {
        self.head
    }

    /// What the device may read, in order.
    #[must_use]
    pub fn readable(&self) -> &[Segment] {
        &self.readable
    }

    /// What the device may write, in order.
    #[must_use]
    pub fn writable(&self) -> &[Segment] {
        &self.writable
    }

    /// How much the device may read.
    #[must_use]
    pub fn readable_bytes(&self) -> usize {
        self.readable.iter().map(|segment| segment.bytes).sum()
    }

    /// How much the device may write.
    #[must_use]
    pub fn writable_bytes(&self) -> usize {
        self.writable.iter().map(|segment| segment.bytes).sum()
    }

    /// Copies from the readable part, starting at `offset`; how much was copied, which is less than
    /// asked where the chain ends.
    #[inline]
    pub fn read(&self, offset: usize, target: &mut [u8]) -> usize {
        let mut copied = 0;
        for (start, bytes) in spans(&self.readable, offset, target.len()) {
            // SAFETY: `start` and `bytes` lie within a segment, whose memory is mapped as long as
            // this chain has it, and `spans` ends at the length of `target`, which is ours.
            unsafe { ptr::copy_nonoverlapping(start, target.as_mut_ptr().add(copied), bytes) };
            copied += bytes;
        }
        copied
    }

    /// Copies into the writable part, as [`Chain::read`] does.
    #[inline]
    #[must_use]
    pub fn write(&self, offset: usize, source: &[u8]) -> usize {
        let mut copied = 0;
        for (start, bytes) in spans(&self.writable, offset, source.len()) {
            // SAFETY: as in `read`.
            unsafe { ptr::copy_nonoverlapping(source.as_ptr().add(copied), start, bytes) };
            copied += bytes;
        }
        copied
    }

    /// The readable part's first `N` bytes; None: it has fewer, or they lie in several segments. A number
    /// that the compiler knows costs no call.
    #[inline]
    #[must_use]
    pub fn read_first<const N: usize>(&self) -> Option<[u8; N]> {
        let first = self.readable.first().filter(|first| first.bytes >= N)?;
        // SAFETY: so many bytes lie within the segment, whose memory is mapped as long as this chain has it.
        Some(unsafe { ptr::read_unaligned(first.start.as_ptr().cast()) })
    }

    /// Writes the writable part's first bytes; false: as in [`Chain::read_first`], and nothing is written.
    #[inline]
    #[must_use]
    pub fn write_first<const N: usize>(&self, bytes: [u8; N]) -> bool {
        let Some(first) = self.writable.first().filter(|first| first.bytes >= N) else {
            return false;
        };
        // SAFETY: as in `read_first`.
        unsafe { ptr::write_unaligned(first.start.as_ptr().cast(), bytes) };
        true
    }

    /// Prepares it for a chain in this memory.
    #[inline]
    pub(crate) fn begin(&mut self, head: u16, memory: &Arc<GuestMemory>) {
        self.head = head;
        self.descriptors = 0;
        self.readable.clear();
        self.writable.clear();
        if !self.memory.as_ref().is_some_and(|current| Arc::ptr_eq(current, memory)) {
            self.memory = Some(Arc::clone(memory));
        }
    }

    /// Adds a segment of the memory that the chain began with.
    #[inline]
    pub(crate) fn push(&mut self, segment: Segment, is_writable: bool) {
        if is_writable {
            self.writable.push(segment);
        } else {
            self.readable.push(segment);
        }
    }
}

/// The parts of the segments that hold `bytes` bytes from `offset` on, or as many as there are.
#[inline]
fn spans(
    segments: &[Segment],
    mut offset: usize,
    mut bytes: usize,
) -> impl Iterator<Item = (*mut u8, usize)> + '_ {
    segments.iter().filter_map(move |segment| {
        let skipped = offset.min(segment.bytes);
        offset -= skipped;
        let taken = bytes.min(segment.bytes - skipped);
        bytes -= taken;
        // `wrapping_add` stays inside the segment; it spares this safe function an `unsafe`.
        (taken > 0).then(|| (segment.start.as_ptr().wrapping_add(skipped), taken))
    })
}
