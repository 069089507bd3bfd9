//! The device's side of a split virtqueue, for guests that do not keep to the rules.
//!
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 2.7. Each index and each descriptor is
//! read from the guest's memory once and then checked, so that a guest that changes it meanwhile
//! gains nothing.

use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering, fence},
    },
};

use crate::{
    chain::{Chain, Segment},
    descriptor::{DESCRIPTOR_BYTES, Descriptor, FLAG_INDIRECT, FLAG_NEXT, FLAG_WRITE, Table},
    error::CutOff,
    memory::GuestMemory,
    message::RingAddresses,
    prefetch::{LINE_BYTES, prefetch},
};

/// The largest queue that is accepted. The specification allows 32768; QEMU, Linux and User-Mode
/// Linux stay below this.
pub const MAX_QUEUE_SIZE: u16 = 1024;

/// How many descriptors a chain may have, those without bytes and in an indirect table too. The
/// specification says the queue's size, and a chain of 1,024 costs hundreds of times what a frame does.
/// Windows' driver has at most 256 (`MAX_FRAGMENTS_IN_ONE_NB`), FreeBSD's 64 (`VTNET_TX_SEGS_MAX`), Linux's
/// 19 (`MAX_SKB_FRAGS` and 2), or 47 as it may be configured.
const MAX_CHAIN: u32 = 256;

/// How many chains ahead of their turn a head's descriptor is asked for, and then its buffer.
const DESCRIPTOR_AHEAD: u16 = 8;
const BUFFER_AHEAD: u16 = 4;

/// In the available ring's flags: the guest wants no calls.
const NO_INTERRUPT: u16 = 0x1;
/// In the used ring's flags: the device wants no kicks.
const NO_NOTIFY: u16 = 0x1;

/// What a queue is made of.
#[derive(Debug, Clone, Copy)]
pub struct QueueSettings {
    /// How many descriptors it has.
    pub size: u16,
    /// Where its three parts lie.
    pub addresses: RingAddresses,
    /// The available index of the next chain.
    pub next_available: u16,
    /// `VIRTIO_RING_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
    /// `VIRTIO_RING_F_INDIRECT_DESC` was negotiated.
    pub indirect: bool,
}

/// A split virtqueue, seen from the device.
#[derive(Debug)]
pub struct Queue {
    memory: Arc<GuestMemory>,
    descriptors: NonNull<u8>,
    available: NonNull<u16>,
    used: NonNull<u32>,
    size: u16,
    event_idx: bool,
    indirect: bool,
    next_available: u16,
    /// The guest's available index as last read: up to here chains are taken without looking again.
    seen_available: u16,
    used_index: u16,
    published: u16,
    /// The used index at the last [`Queue::needs_call`].
    signalled: Option<u16>,
    /// A frame of so many bytes found too few buffers when the guest's available index was this.
    lacking: Option<(u16, usize)>,
}

// SAFETY: the pointers lead into memory that the queue keeps mapped, and that no thread owns.
unsafe impl Send for Queue {}

impl Queue {
    /// A queue in this memory, which it keeps mapped. Its used index is the one that it finds there.
    pub fn new(memory: &Arc<GuestMemory>, settings: &QueueSettings) -> Result<Self, CutOff> {
        let QueueSettings { size, addresses, .. } = *settings;
        check_size(u32::from(size))?;
        let entries = u64::from(size);
        // Both rings end with the event index, negotiated or not.
        let parts = [
            ("descriptor table", addresses.descriptors, 16 * entries, 16),
            ("available ring", addresses.available, 6 + 2 * entries, 2),
            ("used ring", addresses.used, 6 + 8 * entries, 4),
        ];
        let mut found = [NonNull::dangling(); 3];
        for ((part, address, bytes, alignment), found) in parts.into_iter().zip(&mut found) {
            let start = memory.user_range(address, bytes).ok_or(CutOff::Outside {
                part,
                address,
                bytes,
            })?;
            if start.as_ptr().addr() % alignment != 0 {
                return Err(CutOff::Misaligned { part, address, alignment });
            }
            *found = start;
        }
        let [descriptors, available, used] = found;
        let mut queue = Self {
            memory: Arc::clone(memory),
            descriptors,
            available: available.cast(),
            used: used.cast(),
            size,
            event_idx: settings.event_idx,
            indirect: settings.indirect,
            next_available: settings.next_available,
            seen_available: settings.next_available,
            used_index: 0,
            published: 0,
            signalled: None,
            lacking: None,
        };
        let in_memory = queue.used_word(1).load(Ordering::Relaxed);
        queue.used_index = u16::from_le(in_memory);
        queue.published = queue.used_index;
        Ok(queue)
    }

    /// How many descriptors it has.
    #[must_use]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The available index of the next chain: where another back-end would go on.
    #[must_use]
    pub fn next_available(&self) -> u16 {
        self.next_available
    }

    /// How many chains the guest has made available that were not popped yet.
    #[inline]
    pub fn available(&self) -> Result<u16, CutOff> {
        // Acquire: what the guest wrote before it advanced its index is seen after this.
        let index = u16::from_le(self.available_word(1).load(Ordering::Acquire));
        let heads = index.wrapping_sub(self.next_available);
        if heads > self.size {
            return Err(CutOff::AvailableIndex { heads, size: self.size });
        }
        Ok(heads)
    }

    /// Takes the next chain; false: none is available.
    #[inline]
    pub fn pop(&mut self, chain: &mut Chain) -> Result<bool, CutOff> {
        if self.next_available == self.seen_available {
            let heads = self.available()?;
            if heads == 0 {
                return Ok(false);
            }
            self.seen_available = self.next_available.wrapping_add(heads);
        }
        let head = self.head(0);
        self.look_ahead();
        chain.begin(head, &self.memory);
        self.follow(head, chain)?;
        self.next_available = self.next_available.wrapping_add(1);
        Ok(true)
    }

    /// Whether a frame of so many bytes, or a shorter one, has found too few buffers since the guest
    /// provided the last one: looking through all of them again for each frame would cost others' time.
    #[inline]
    pub(crate) fn lacks(&mut self, bytes: usize) -> bool {
        let Some((index, lacked_bytes)) = self.lacking else { return false };
        if u16::from_le(self.available_word(1).load(Ordering::Relaxed)) != index {
            // For good: the index comes to the same number again, with buffers then.
            self.lacking = None;
        }
        self.lacking.is_some() && bytes >= lacked_bytes
    }

    /// A frame of so many bytes has found too few buffers: all that there are were popped for it.
    pub(crate) fn note_lack(&mut self, bytes: usize) {
        self.lacking = Some((self.next_available, bytes));
    }

    /// The head of the chain that is so many behind the next one.
    #[inline]
    fn head(&self, behind: u16) -> u16 {
        let slot = self.next_available.wrapping_add(behind) & (self.size - 1);
        u16::from_le(self.available_word(2 + usize::from(slot)).load(Ordering::Relaxed))
    }

    /// Asks for what the next chains are made of. What is read here is not trusted, and is read again
    /// when it is their turn.
    #[inline]
    fn look_ahead(&self) {
        let known = self.seen_available.wrapping_sub(self.next_available);
        if known > DESCRIPTOR_AHEAD {
            let offset = usize::from(self.head(DESCRIPTOR_AHEAD)) * DESCRIPTOR_BYTES as usize;
            prefetch(self.descriptors.as_ptr().wrapping_add(offset), false);
        }
        if known <= BUFFER_AHEAD {
            return;
        }
        let table = Table { start: self.descriptors, entries: u32::from(self.size) };
        let Ok(descriptor) = table.read(u32::from(self.head(BUFFER_AHEAD))) else {
            return;
        };
        let (address, bytes) = (descriptor.address, u64::from(descriptor.bytes));
        if let Some(start) = self.memory.guest_range(address, bytes) {
            let to_write = descriptor.flags & FLAG_WRITE != 0;
            prefetch(start.as_ptr(), to_write);
            // The header is 12 bytes long, so that the shortest frame ends in the next line.
            prefetch(start.as_ptr().wrapping_add(LINE_BYTES), to_write);
        }
    }

    /// Gives the last `chains` popped chains back, as if they had not been popped.
    #[inline]
    pub(crate) fn unpop(&mut self, chains: u16) {
        self.next_available = self.next_available.wrapping_sub(chains);
    }

    /// Gives a chain back to the guest, of whose writable part `bytes` were written. The guest sees
    /// it after [`Queue::publish`].
    #[inline]
    pub fn push_used(&mut self, head: u16, bytes: u32) {
        let slot = usize::from(self.used_index & (self.size - 1));
        // SAFETY: `slot` is below the queue's size, so the element lies inside the used ring, which
        // is aligned to 4 bytes.
        unsafe {
            let element = self.used.as_ptr().add(1 + 2 * slot);
            element.write_volatile(u32::from(head).to_le());
            element.add(1).write_volatile(bytes.to_le());
        }
        self.used_index = self.used_index.wrapping_add(1);
    }

    /// Shows the guest all that was pushed, with one store.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.used_index {
            // Release: whoever sees the index sees the elements and the buffers' contents.
            self.used_word(1).store(self.used_index.to_le(), Ordering::Release);
            self.published = self.used_index;
        }
    }

    /// Whether the guest wants to be called for what was published since the last time this was
    /// asked. The first answer is always yes.
    #[must_use]
    pub fn needs_call(&mut self) -> bool {
        // The used index must be visible before we read what the guest wants: it does the same in
        // the opposite order (2.7.7.2, 2.7.10).
        fence(Ordering::SeqCst);
        let new = self.published;
        let Some(old) = self.signalled.replace(new) else {
            return true;
        };
        if self.event_idx {
            return passes_event(self.used_event(), new, old);
        }
        new != old && self.wants_interrupts()
    }

    /// Whether what the guest asked to be told of was published, called or not. A caller that
    /// signals again after a while asks this: true as long as the guest has not come to look. With
    /// `EVENT_IDX` a guest that has switched its interrupts off may also leave it true; without, it
    /// is true whenever interrupts are on.
    #[must_use]
    pub fn used_event_passed(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.event_idx {
            let behind = self.published.wrapping_sub(self.used_event());
            (1..=self.size).contains(&behind)
        } else {
            self.wants_interrupts()
        }
    }

    /// Asks the guest to kick when it makes the next chain available; true: it has done so
    /// meanwhile, and the kick may not come.
    pub fn enable_kicks(&mut self) -> Result<bool, CutOff> {
        if self.event_idx {
            let event = 2 + 4 * usize::from(self.size);
            self.used_word(event).store(self.next_available.to_le(), Ordering::Relaxed);
        } else {
            self.used_word(0).store(0, Ordering::Relaxed);
        }
        // What is asked for must be visible before we look at the index for the last time (2.7.10.1).
        fence(Ordering::SeqCst);
        Ok(self.available()? > 0)
    }

    /// Spares the guest kicks while the queue is being polled. With `EVENT_IDX` that is so anyway
    /// once it has kicked: until [`Queue::enable_kicks`] asks for another kick.
    pub fn disable_kicks(&mut self) {
        if !self.event_idx {
            self.used_word(0).store(NO_NOTIFY.to_le(), Ordering::Relaxed);
        }
    }

    /// Follows a chain from its head, into an indirect table too.
    #[inline]
    fn follow(&self, head: u16, chain: &mut Chain) -> Result<(), CutOff> {
        let mut table = Table { start: self.descriptors, entries: u32::from(self.size) };
        let mut is_indirect = false;
        let (mut limit, mut followed) = (table.entries.min(MAX_CHAIN), 0);
        let mut index = u32::from(head);
        loop {
            if followed == limit {
                return Err(CutOff::ChainTooLong { limit });
            }
            followed += 1;
            chain.descriptors += 1;
            let descriptor = table.read(index)?;
            if descriptor.flags & FLAG_INDIRECT != 0 {
                table = self.indirect_table(&descriptor, is_indirect)?;
                (is_indirect, limit, followed, index) = (true, MAX_CHAIN, 0, 0);
                continue;
            }
            self.add_segment(&descriptor, index, chain)?;
            if descriptor.flags & FLAG_NEXT == 0 {
                return Ok(());
            }
            index = u32::from(descriptor.next);
        }
    }

    /// Translates one descriptor; one without bytes leaves no trace.
    #[inline]
    fn add_segment(
        &self,
        descriptor: &Descriptor,
        index: u32,
        chain: &mut Chain,
    ) -> Result<(), CutOff> {
        let is_writable = descriptor.flags & FLAG_WRITE != 0;
        if !is_writable && !chain.writable().is_empty() {
            return Err(CutOff::ReadableAfterWritable { index });
        }
        if descriptor.bytes == 0 {
            return Ok(());
        }
        let (address, bytes) = (descriptor.address, u64::from(descriptor.bytes));
        let start = self.memory.guest_range(address, bytes).ok_or(CutOff::Outside {
            part: "buffer",
            address,
            bytes,
        })?;
        chain.push(Segment { start, bytes: descriptor.bytes as usize }, is_writable);
        Ok(())
    }

    /// The table that an indirect descriptor names.
    fn indirect_table(&self, descriptor: &Descriptor, is_nested: bool) -> Result<Table, CutOff> {
        let Descriptor { address, bytes, flags, .. } = *descriptor;
        let refused = |reason| Err(CutOff::Indirect { bytes, flags, reason });
        if !self.indirect {
            return refused("not negotiated");
        }
        if is_nested {
            return refused("inside an indirect table");
        }
        if flags & FLAG_NEXT != 0 {
            return refused("not the last descriptor");
        }
        if bytes == 0 || bytes % DESCRIPTOR_BYTES != 0 {
            return refused("not a multiple of 16 bytes");
        }
        let size = u64::from(bytes);
        let start = self.memory.guest_range(address, size).ok_or(CutOff::Outside {
            part: "indirect table",
            address,
            bytes: size,
        })?;
        Ok(Table { start, entries: bytes / DESCRIPTOR_BYTES })
    }

    /// The used index whose passing the guest wants to be told of.
    #[inline]
    fn used_event(&self) -> u16 {
        u16::from_le(self.available_word(2 + usize::from(self.size)).load(Ordering::Relaxed))
    }

    #[inline]
    fn wants_interrupts(&self) -> bool {
        u16::from_le(self.available_word(0).load(Ordering::Relaxed)) & NO_INTERRUPT == 0
    }

    /// A 16-bit word of the available ring: flags, index, heads, `used_event`.
    #[inline]
    fn available_word(&self, index: usize) -> &AtomicU16 {
        debug_assert!(index <= 2 + usize::from(self.size));
        // SAFETY: inside the ring, which has 3 words more than the queue has descriptors, is
        // aligned to 2 bytes and stays mapped as long as the queue; others access it atomically.
        unsafe { AtomicU16::from_ptr(self.available.as_ptr().add(index)) }
    }

    /// A 16-bit word of the used ring: flags, index, elements of 4 words, `avail_event`.
    #[inline]
    fn used_word(&self, index: usize) -> &AtomicU16 {
        debug_assert!(index <= 2 + 4 * usize::from(self.size));
        // SAFETY: inside the ring, which has 3 words and 4 for each descriptor, is aligned to 4
        // bytes and stays mapped as long as the queue; others access it atomically.
        unsafe { AtomicU16::from_ptr(self.used.as_ptr().cast::<u16>().add(index)) }
    }
}

/// Whether a queue may have so many descriptors.
pub(crate) fn check_size(size: u32) -> Result<u16, CutOff> {
    match u16::try_from(size) {
        Ok(accepted) if accepted.is_power_of_two() && accepted <= MAX_QUEUE_SIZE => Ok(accepted),
        _ => Err(CutOff::QueueSize { size, limit: MAX_QUEUE_SIZE }),
    }
}

/// Whether an index that went from `old` to `new` has passed `event` (2.7.7.2, `vring_need_event`).
#[inline]
fn passes_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::passes_event;

    proptest! {
        /// 2.7.7.2: a call is needed if the device writes the element that `used_event` names, so
        /// if `event` is one of the indices `old, old + 1, .., new - 1`.
        #[test]
        fn the_event_rule_says_what_the_specification_says(
            event: u16, old: u16, written in 0u16..2048,
        ) {
            let new = old.wrapping_add(written);
            let is_written = (0..written).any(|step| old.wrapping_add(step) == event);
            prop_assert_eq!(passes_event(event, new, old), is_written);
            // Near enough that the answer is often yes.
            let event = old.wrapping_add(event % 4096).wrapping_sub(1024);
            let is_written = (0..written).any(|step| old.wrapping_add(step) == event);
            prop_assert_eq!(passes_event(event, new, old), is_written);
        }
    }
}
