//! Descriptors as they lie in a guest's memory.

use std::ptr::NonNull;

use crate::error::CutOff;

/// Size of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: u32 = 16;
/// The chain goes on.
pub(crate) const FLAG_NEXT: u16 = 0x1;
/// The device writes the buffer.
pub(crate) const FLAG_WRITE: u16 = 0x2;
/// The buffer is a table of descriptors.
pub(crate) const FLAG_INDIRECT: u16 = 0x4;

/// A table of descriptors, the ring's own or an indirect one.
pub(crate) struct Table {
    /// Where it starts. All entries lie within one region of mapped memory.
    pub(crate) start: NonNull<u8>,
    /// How many descriptors it has.
    pub(crate) entries: u32,
}

/// A descriptor, copied from the guest's memory.
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

/// Half a descriptor. Indirect tables may start anywhere.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(u64);

impl Table {
    /// Reads a descriptor, each byte once.
    #[inline]
    pub(crate) fn read(&self, index: u32) -> Result<Descriptor, CutOff> {
        if index >= self.entries {
            return Err(CutOff::DescriptorIndex { index, entries: self.entries });
        }
        let offset = index as usize * DESCRIPTOR_BYTES as usize;
        // SAFETY: inside the table, which lies within one mapped region; `Word` needs no alignment.
        // Volatile, so that nothing is read a second time after it was checked.
        let (low, high) = unsafe {
            let words = self.start.as_ptr().add(offset).cast::<Word>();
            (words.read_volatile().0, words.add(1).read_volatile().0)
        };
        let high = u64::from_le(high).to_le_bytes();
        Ok(Descriptor {
            address: u64::from_le(low),
            bytes: u32::from_le_bytes([high[0], high[1], high[2], high[3]]),
            flags: u16::from_le_bytes([high[4], high[5]]),
            next: u16::from_le_bytes([high[6], high[7]]),
        })
    }
}
