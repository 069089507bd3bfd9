//! Frames of one receive queue of an interface, that its driver's program hands over before the kernel makes
//! packets of them (`AF_XDP`).
//!
//! Kernel and this side share memory for frames and two rings of descriptors: by one the kernel is told which
//! frames it may fill, by the other it tells which it has filled. Where the driver can, the NIC writes into
//! that memory itself; else the kernel copies.

#![expect(clippy::cast_possible_truncation, reason = "sizes of structures, kernel constants")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::mapping::Mapping;

/// Bytes of memory for a frame, of which the kernel leaves the first 256 to programs.
const FRAME_BYTES: u32 = 2048;
/// Descriptors of frames that were sent: none is, but the kernel asks for that ring, too.
const UNUSED_DESCRIPTORS: u32 = 64;

/// A ring of descriptors of type `T`, which one side writes and the other reads.
#[derive(Debug)]
struct Descriptors<T> {
    mapping: Mapping,
    at: libc::xdp_ring_offset,
    mask: u32,
    /// The next one of this side, whichever that is.
    next: u32,
    kind: std::marker::PhantomData<T>,
}

impl<T> Descriptors<T> {
    /// Has the kernel make a socket's ring of so many, a power of two, and maps it.
    fn make(socket: &OwnedFd, which: Which, count: u32) -> io::Result<Self> {
        set(socket, which.option(), &count)?;
        let all: libc::xdp_mmap_offsets = get(socket, libc::XDP_MMAP_OFFSETS)?;
        let (at, offset) = match which {
            Which::Fill => (all.fr, libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed()),
            Which::Received => (all.rx, libc::XDP_PGOFF_RX_RING),
        };
        let bytes = at.desc as usize + count as usize * size_of::<T>();
        let mapping = Mapping::new(bytes, Some((socket, offset)))?;
        Ok(Self { mapping, at, mask: count - 1, next: 0, kind: std::marker::PhantomData })
    }

    fn number(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel says that one lies there, within the mapping; both sides change it.
        unsafe { AtomicU32::from_ptr(self.mapping.start.add(offset as usize).cast()) }
    }

    /// Where the next descriptor of this side lies.
    fn slot(&self) -> *mut T {
        let at = self.at.desc as usize + (self.next & self.mask) as usize * size_of::<T>();
        // SAFETY: within the mapping, which was made for so many.
        unsafe { self.mapping.start.add(at).cast() }
    }
}

#[derive(Clone, Copy)]
enum Which {
    Fill,
    Received,
}

impl Which {
    fn option(self) -> libc::c_int {
        match self {
            Self::Fill => libc::XDP_UMEM_FILL_RING,
            Self::Received => libc::XDP_RX_RING,
        }
    }
}

/// A socket that takes frames of one receive queue of an interface.
#[derive(Debug)]
pub struct XdpSocket {
    // Closed first: until then the kernel may write into the memory.
    socket: OwnedFd,
    fill: Descriptors<u64>,
    received: Descriptors<libc::xdp_desc>,
    memory: Mapping,
    is_zero_copy: bool,
    /// Frames that it had no space for, as far as they were told.
    told_lost: u64,
}

impl XdpSocket {
    /// One for a queue of an interface in the calling thread's network namespace, with space for so many
    /// frames, a power of two. `InvalidInput`: there is no such queue.
    pub fn open(ifindex: u32, queue: u32, frames: u32) -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let memory = Mapping::new(frames as usize * FRAME_BYTES as usize, None)?;
        // SAFETY: all zeros are a value of this plain structure.
        let mut region: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        region.addr = memory.start as u64;
        region.len = memory.bytes as u64;
        region.chunk_size = FRAME_BYTES;
        set(&socket, libc::XDP_UMEM_REG, &region)?;
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &UNUSED_DESCRIPTORS)?;
        let mut fill = Descriptors::make(&socket, Which::Fill, frames)?;
        let received = Descriptors::make(&socket, Which::Received, frames)?;
        for number in 0..frames {
            give_back(&mut fill, u64::from(number * FRAME_BYTES));
        }
        fill.number(fill.at.producer).store(fill.next, Ordering::Release);
        bind(&socket, ifindex, queue)?;
        let options: libc::xdp_options = get(&socket, libc::XDP_OPTIONS)?;
        let is_zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(Self { socket, fill, received, memory, is_zero_copy, told_lost: 0 })
    }

    /// Whether the NIC writes frames where this side reads them; else the kernel copies them.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Gives on frames that have arrived, so many at most; returns how many there were.
    pub(crate) fn receive(&mut self, limit: u32, mut take: impl FnMut(&mut [u8])) -> u32 {
        let filled = self.received.number(self.received.at.producer).load(Ordering::Acquire);
        let count = filled.wrapping_sub(self.received.next).min(limit);
        for _ in 0..count {
            // SAFETY: the kernel has filled this descriptor, and leaves it alone until it is told otherwise.
            let found = unsafe { ptr::read(self.received.slot()) };
            self.received.next = self.received.next.wrapping_add(1);
            let (at, bytes) = (found.addr as usize, found.len as usize);
            if at.checked_add(bytes).is_some_and(|end| end <= self.memory.bytes) {
                // SAFETY: within the memory, and the kernel does not write there until it has it back.
                take(unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(at), bytes) });
            }
            give_back(&mut self.fill, found.addr & !u64::from(FRAME_BYTES - 1));
        }
        if count > 0 {
            let taken = self.received.number(self.received.at.consumer);
            taken.store(self.received.next, Ordering::Release);
            self.fill.number(self.fill.at.producer).store(self.fill.next, Ordering::Release);
            self.wake_driver();
        }
        count
    }

    /// Tells a driver that waits for it that there is space again.
    fn wake_driver(&self) {
        let flags = self.fill.number(self.fill.at.flags).load(Ordering::Relaxed);
        if flags & libc::XDP_RING_NEED_WAKEUP != 0 {
            let fd = self.socket.as_raw_fd();
            // SAFETY: no buffer.
            unsafe { libc::recv(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
        }
    }

    /// Frames that it had no space for since it was last asked.
    pub(crate) fn lost(&mut self) -> u64 {
        let Ok(told) = get::<libc::xdp_statistics>(&self.socket, libc::XDP_STATISTICS) else {
            return 0;
        };
        let lost = told.rx_dropped + told.rx_ring_full;
        lost - std::mem::replace(&mut self.told_lost, lost)
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Lets the kernel fill a frame, once it is told of it.
fn give_back(fill: &mut Descriptors<u64>, address: u64) {
    // SAFETY: there are as many descriptors as frames, so the kernel has read what was there.
    unsafe { fill.slot().write(address) };
    fill.next = fill.next.wrapping_add(1);
}

fn bind(socket: &OwnedFd, ifindex: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is to a live address of that length.
    let failed = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    let at = (&raw const *value).cast();
    // SAFETY: the pointer is to a live value of that length.
    let failed = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, bytes) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A structure of numbers that the kernel fills.
fn get<T>(socket: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: all zeros are a value of each of the structures that are asked for.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: both pointers are to live values, and the length says how long the first is.
    let failed =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, &raw mut bytes) };
    if failed == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
