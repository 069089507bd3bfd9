//! A model of a guest: memory in a file, and a driver that fills a ring's three parts as the
//! specification says. It accesses the memory through the file, so it needs no mapping of its own.

#![allow(dead_code, reason = "unit tests and the example that fuzzes use a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails; unit tests may anyway")]

use std::{
    collections::HashMap,
    fs::File,
    os::{
        fd::{AsFd, FromRawFd},
        unix::fs::FileExt,
    },
    sync::Arc,
};

use isolane_netback::{GuestMemory, MemoryRegion, Queue, QueueSettings, RingAddresses, Session};

/// Whether a ring of a session runs.
pub fn runs(session: &mut Session, ring: usize) -> bool {
    let rings = session.rings();
    [rings.receive.is_some(), rings.transmit.is_some()].get(ring) == Some(&true)
}

/// Where the guest has its memory.
pub const GUEST: u64 = 0x4000_0000;
/// Where the front-end has it.
pub const USER: u64 = 0x7f00_0000_0000;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// A guest's memory. All positions are offsets from its start.
pub struct Guest {
    pub file: File,
    pub bytes: u64,
}

impl Guest {
    pub fn new(bytes: u64) -> Self {
        // SAFETY: a string that ends with 0.
        let fd = unsafe { libc::memfd_create(c"isolane-guest".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "memfd_create failed");
        // SAFETY: a descriptor that nobody else has.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes).unwrap();
        Self { file, bytes }
    }

    pub fn region(&self) -> MemoryRegion {
        MemoryRegion { guest_address: GUEST, bytes: self.bytes, user_address: USER, mmap_offset: 0 }
    }

    pub fn map(&self) -> Arc<GuestMemory> {
        Arc::new(GuestMemory::map(&[(self.region(), self.file.as_fd())]).unwrap())
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.bytes, "the model writes inside its memory");
        self.file.write_all_at(bytes, at).unwrap();
    }

    pub fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.file.read_exact_at(&mut read, at).unwrap();
        read
    }

    pub fn u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
    }

    pub fn set_u16(&self, at: u64, value: u16) {
        self.write(at, &value.to_le_bytes());
    }

    /// Writes a descriptor: an address of the guest's, size, flags, next.
    pub fn descriptor(&self, at: u64, (address, bytes, flags, next): (u64, u32, u16, u16)) {
        let mut descriptor = [0; 16];
        descriptor[..8].copy_from_slice(&address.to_le_bytes());
        descriptor[8..12].copy_from_slice(&bytes.to_le_bytes());
        descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
        descriptor[14..].copy_from_slice(&next.to_le_bytes());
        self.write(at, &descriptor);
    }
}

/// Part of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Offset in the guest's memory.
    pub at: u64,
    pub bytes: u32,
    pub writable: bool,
}

/// The driver's side of one ring.
pub struct Driver {
    pub at: u64,
    pub size: u16,
    pub available: u16,
    pub used: u16,
    free: Vec<u16>,
    in_flight: HashMap<u16, Vec<u16>>,
}

impl Driver {
    /// A ring whose parts lie one after the other from `at` on; both indices are at `start`.
    pub fn new(guest: &Guest, at: u64, size: u16, start: u16) -> Self {
        let driver = Self {
            at,
            size,
            available: start,
            used: start,
            free: (0..size).rev().collect(),
            in_flight: HashMap::new(),
        };
        guest.set_u16(driver.available_at() + 2, start);
        guest.set_u16(driver.used_at() + 2, start);
        driver
    }

    pub fn available_at(&self) -> u64 {
        self.at + 16 * u64::from(self.size)
    }

    pub fn used_at(&self) -> u64 {
        (self.available_at() + 6 + 2 * u64::from(self.size)).next_multiple_of(4)
    }

    pub fn addresses(&self) -> RingAddresses {
        RingAddresses {
            descriptors: USER + self.at,
            available: USER + self.available_at(),
            used: USER + self.used_at(),
        }
    }

    pub fn settings(&self, event_idx: bool, indirect: bool) -> QueueSettings {
        QueueSettings {
            size: self.size,
            addresses: self.addresses(),
            next_available: self.available,
            event_idx,
            indirect,
        }
    }

    /// The device's side of this ring, with everything negotiated.
    pub fn queue(&self, memory: &Arc<GuestMemory>) -> Queue {
        Queue::new(memory, &self.settings(true, true)).unwrap()
    }

    pub fn free(&self) -> u16 {
        self.free.len().try_into().unwrap()
    }

    /// Makes a buffer available, as a chain in the ring's own table.
    pub fn add(&mut self, guest: &Guest, parts: &[Part]) -> u16 {
        let taken = self.free.split_off(self.free.len() - parts.len());
        for (index, part) in parts.iter().enumerate() {
            let at = self.at + 16 * u64::from(taken[index]);
            let next = taken.get(index + 1).copied();
            let flags =
                if part.writable { WRITE } else { 0 } | if next.is_some() { NEXT } else { 0 };
            guest.descriptor(at, (GUEST + part.at, part.bytes, flags, next.unwrap_or(0xffff)));
        }
        let head = taken[0];
        self.in_flight.insert(head, taken);
        self.offer(guest, head);
        head
    }

    /// Makes a buffer available, as an indirect table at `table`.
    pub fn add_indirect(&mut self, guest: &Guest, parts: &[Part], table: u64) -> u16 {
        for (index, part) in (0u16..).zip(parts) {
            let has_next = usize::from(index) + 1 < parts.len();
            let flags = if part.writable { WRITE } else { 0 } | if has_next { NEXT } else { 0 };
            let at = table + 16 * u64::from(index);
            guest.descriptor(at, (GUEST + part.at, part.bytes, flags, index + 1));
        }
        let head = self.free.pop().unwrap();
        let bytes = u32::try_from(16 * parts.len()).unwrap();
        guest.descriptor(self.at + 16 * u64::from(head), (GUEST + table, bytes, INDIRECT, 0));
        self.in_flight.insert(head, vec![head]);
        self.offer(guest, head);
        head
    }

    /// Puts a head into the available ring and advances its index.
    pub fn offer(&mut self, guest: &Guest, head: u16) {
        let slot = u64::from(self.available % self.size);
        guest.set_u16(self.available_at() + 4 + 2 * slot, head);
        self.available = self.available.wrapping_add(1);
        guest.set_u16(self.available_at() + 2, self.available);
    }

    /// What the device has given back since: heads and written bytes.
    pub fn reclaim(&mut self, guest: &Guest) -> Vec<(u16, u32)> {
        let index = guest.u16(self.used_at() + 2);
        let mut reclaimed = Vec::new();
        while self.used != index {
            let at = self.used_at() + 4 + 8 * u64::from(self.used % self.size);
            let element = guest.read(at, 8);
            let head = u32::from_le_bytes(element[..4].try_into().unwrap());
            let head = u16::try_from(head).expect("heads have 16 bits");
            let freed = self.in_flight.remove(&head).expect("the device gives back what it got");
            self.free.extend(freed);
            reclaimed.push((head, u32::from_le_bytes(element[4..].try_into().unwrap())));
            self.used = self.used.wrapping_add(1);
        }
        reclaimed
    }

    pub fn set_used_event(&self, guest: &Guest, event: u16) {
        guest.set_u16(self.available_at() + 4 + 2 * u64::from(self.size), event);
    }

    pub fn available_event(&self, guest: &Guest) -> u16 {
        guest.u16(self.used_at() + 4 + 8 * u64::from(self.size))
    }

    pub fn set_flags(&self, guest: &Guest, flags: u16) {
        guest.set_u16(self.available_at(), flags);
    }

    pub fn used_flags(&self, guest: &Guest) -> u16 {
        guest.u16(self.used_at())
    }
}

/// Splits a buffer at `at` into parts of these sizes in turn, the last one taking the rest.
pub fn split(
    at: u64,
    bytes: usize,
    sizes: &[usize],
    max_parts: usize,
    writable: bool,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = 0;
    for size in sizes.iter().take(max_parts - 1) {
        let size = (*size).min(bytes - start);
        parts.push((start, size));
        start += size;
    }
    parts.push((start, bytes - start));
    parts
        .into_iter()
        .map(|(start, bytes)| Part {
            at: at + start as u64,
            bytes: u32::try_from(bytes).unwrap(),
            writable,
        })
        .collect()
}
