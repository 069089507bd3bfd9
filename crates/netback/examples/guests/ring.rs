//! The driver's side of a split ring, made to be fast: each descriptor has one buffer for good, so
//! that making it available again is one store.
//!
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 2.7.

use std::{
    io,
    rc::Rc,
    sync::atomic::{Ordering, fence},
};

use vhost::VringConfigData;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::memory::{GUEST, Memory};

/// Descriptors of a ring.
pub const SIZE: u16 = 256;
/// Bytes of a buffer: the longest frame and its header, and some to spare.
pub const BUFFER_BYTES: u16 = 2048;
/// Bytes before each frame: `struct virtio_net_hdr_v1`.
pub const HEADER_BYTES: u16 = 12;
/// Bytes of a ring: three pages, one for each part, and its buffers.
pub const RING_BYTES: usize = 3 * PART_BYTES + SIZE as usize * BUFFER_BYTES as usize;

const PART_BYTES: usize = 4096;
const DESCRIPTOR_BYTES: usize = 16;
const WRITE: u16 = 2;
/// In the available ring's flags: no calls, please.
const NO_INTERRUPT: u16 = 1;
/// In the used ring's flags: no kicks, please.
const NO_NOTIFY: u16 = 1;

/// Which of a NIC's rings it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Receive,
    Transmit,
}

/// One ring. Nothing is allocated after it was made.
pub struct Ring {
    memory: Rc<Memory>,
    /// Where its parts begin.
    at: usize,
    kick: EventFd,
    call: EventFd,
    event_idx: bool,
    /// The available index, shown to the device or not.
    available: u16,
    /// The available index that the device can see.
    shown: u16,
    /// The next used element.
    used: u16,
}

impl Ring {
    /// A ring that begins at `at`, none of whose buffers is available yet; wants no calls.
    pub fn new(
        memory: &Rc<Memory>,
        at: usize,
        direction: Direction,
        event_idx: bool,
    ) -> io::Result<Self> {
        let ring = Self {
            memory: Rc::clone(memory),
            at,
            kick: EventFd::new(EFD_NONBLOCK)?,
            call: EventFd::new(EFD_NONBLOCK)?,
            event_idx,
            available: 0,
            shown: 0,
            used: 0,
        };
        let flags = if direction == Direction::Receive { WRITE } else { 0 };
        for head in 0..SIZE {
            let at = ring.at + DESCRIPTOR_BYTES * usize::from(head);
            let address = GUEST + ring.buffer(head) as u64;
            memory.write(at, &address.to_le_bytes());
            memory.write(at + 12, &flags.to_le_bytes());
        }
        (0..SIZE).for_each(|head| ring.set_bytes(head, BUFFER_BYTES));
        ring.refuse_calls();
        Ok(ring)
    }

    /// What a front-end tells the back-end.
    pub fn addresses(&self) -> VringConfigData {
        let user = self.memory.user_address() + self.at as u64;
        VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: user,
            avail_ring_addr: user + PART_BYTES as u64,
            used_ring_addr: user + 2 * PART_BYTES as u64,
            log_addr: None,
        }
    }

    pub fn kick_descriptor(&self) -> &EventFd {
        &self.kick
    }

    pub fn call_descriptor(&self) -> &EventFd {
        &self.call
    }

    /// Where a descriptor's buffer begins, in the guest's memory.
    #[inline]
    pub fn buffer(&self, head: u16) -> usize {
        self.at + 3 * PART_BYTES + usize::from(BUFFER_BYTES) * usize::from(head)
    }

    /// Says how long a descriptor's buffer is, bytes.
    #[inline]
    pub fn set_bytes(&self, head: u16, bytes: u16) {
        let at = self.at + DESCRIPTOR_BYTES * usize::from(head) + 8;
        self.memory.double_word(at).store(u32::from(bytes).to_le(), Ordering::Relaxed);
    }

    /// Empties the header before a descriptor's frame, as a driver does for each.
    #[inline]
    pub fn clear_header(&self, head: u16) {
        let at = self.buffer(head);
        for part in [0, 4, 8] {
            self.memory.double_word(at + part).store(0, Ordering::Relaxed);
        }
    }

    /// How many descriptors the device has given back that were not taken yet.
    #[inline]
    pub fn returned(&self) -> u16 {
        // Acquire: what the device wrote before it advanced its index is seen after this.
        let index = self.memory.word(self.used_at() + 2).load(Ordering::Acquire);
        u16::from_le(index).wrapping_sub(self.used)
    }

    /// Takes one that the device has given back: [`Ring::returned`] has said that there is one.
    #[inline]
    pub fn take(&mut self) -> u16 {
        let at = self.used_at() + 4 + 8 * usize::from(self.used % SIZE);
        self.used = self.used.wrapping_add(1);
        // Of an element's first 32 bits only 16 are used: heads are below 256.
        u16::from_le(self.memory.word(at).load(Ordering::Relaxed)) % SIZE
    }

    /// What the device has written into the next one that [`Ring::take`] gives, bytes.
    pub fn next_bytes(&self) -> u16 {
        let at = self.used_at() + 8 + 8 * usize::from(self.used % SIZE);
        u16::from_le(self.memory.word(at).load(Ordering::Relaxed))
    }

    /// Makes a descriptor available; the device sees it after [`Ring::publish`].
    #[inline]
    pub fn offer(&mut self, head: u16) {
        let at = self.available_at() + 4 + 2 * usize::from(self.available % SIZE);
        self.memory.word(at).store(head.to_le(), Ordering::Relaxed);
        self.available = self.available.wrapping_add(1);
    }

    /// Shows the device what was made available, and kicks if it asked for that.
    #[inline]
    pub fn publish(&mut self) {
        let (new, old) = (self.available, self.shown);
        if new == old {
            return;
        }
        // Release: whoever sees the index sees the entries, the descriptors and the frames.
        self.memory.word(self.available_at() + 2).store(new.to_le(), Ordering::Release);
        self.shown = new;
        // The index must be visible before it is read what the device wants: it does the same in
        // the opposite order (2.7.13.4.1).
        fence(Ordering::SeqCst);
        let wanted = if self.event_idx {
            let at = self.used_at() + 4 + 8 * usize::from(SIZE);
            let event = u16::from_le(self.memory.word(at).load(Ordering::Relaxed));
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            u16::from_le(self.memory.word(self.used_at()).load(Ordering::Relaxed)) & NO_NOTIFY == 0
        };
        if wanted {
            self.kick();
        }
    }

    /// Kicks, whatever the device asked for.
    pub fn kick(&self) {
        // It fails if so many are unread that one more makes no difference.
        let _ = self.kick.write(1);
    }

    /// Asks the device to call when it gives the next descriptor back.
    pub fn want_call(&self) {
        if self.event_idx {
            let at = self.available_at() + 4 + 2 * usize::from(SIZE);
            self.memory.word(at).store(self.used.to_le(), Ordering::Relaxed);
        } else {
            self.memory.word(self.available_at()).store(0, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Asks for no calls. With event indices that means: for one in 65,536 descriptors.
    fn refuse_calls(&self) {
        let at = self.available_at();
        if self.event_idx {
            self.memory.word(at + 4 + 2 * usize::from(SIZE)).store(u16::MAX, Ordering::Relaxed);
        } else {
            self.memory.word(at).store(NO_INTERRUPT.to_le(), Ordering::Relaxed);
        }
    }

    /// Whether the device has called since this was last asked.
    pub fn was_called(&self) -> bool {
        self.call.read().is_ok()
    }

    fn available_at(&self) -> usize {
        self.at + PART_BYTES
    }

    fn used_at(&self) -> usize {
        self.at + 2 * PART_BYTES
    }
}
