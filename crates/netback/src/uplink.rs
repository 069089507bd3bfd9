//! An uplink: an interface of the host, through a packet socket whose rings are shared with it.
//!
//! Two rings of fixed slots (`TPACKET_V2`): the kernel fills one, this side the other. A slot that
//! was filled to be sent comes back when the interface has freed the frame, so a full ring is the
//! interface's own back-pressure. Frames from the kernel have a `virtio_net_hdr` in front, which tells of
//! checksums that are still to be computed; the tag of a VLAN stands beside them and is put back in.

#![expect(clippy::cast_possible_truncation, reason = "sizes of structures, kernel constants")]
#![expect(clippy::cast_ptr_alignment, reason = "slots are aligned to their size")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{checksum, staging::MAX_FRAME_BYTES};

/// Slots of each ring.
pub const SLOTS: u32 = 1024;
/// Bytes of a slot: what the kernel writes in front, the frame, some to spare.
const SLOT_BYTES: u32 = 2048;
const BLOCK_BYTES: u32 = 1 << 16;
/// Frames taken or offered at once.
const BATCH: u32 = 64;
/// `struct virtio_net_hdr` without the number of buffers, as packet sockets have it.
const VNET_BYTES: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
/// Where what is to be sent begins in a slot: behind the header, without the address.
const SEND_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
const ADDRESSES_BYTES: usize = 12;
/// Of a VLAN: what stands between addresses and type.
const TAG_BYTES: usize = 4;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// What became of the frames of an uplink, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UplinkCounters {
    /// Frames that arrived and were given on.
    pub received: u64,
    /// Frames that the kernel had no free slot for.
    pub ring_full: u64,
    /// Frames longer than a slot takes, or segments that were merged and not divided again.
    pub too_long: u64,
    /// Frames handed to the interface.
    pub sent: u64,
    /// Frames that the interface refused for their form.
    pub refused: u64,
}

/// An open uplink.
#[derive(Debug)]
pub struct Uplink {
    socket: OwnedFd,
    rings: *mut u8,
    receive_slot: u32,
    send_slot: u32,
    unsent: u32,
    /// The interface takes nothing now, for another reason than a full queue.
    stuck: bool,
    counters: UplinkCounters,
}

// SAFETY: the mapping belongs to this value alone, and its other user is the kernel.
unsafe impl Send for Uplink {}

impl Uplink {
    /// Opens the interface with this index in the calling thread's network namespace.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        // Without a protocol nothing arrives before the rings are there.
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(&socket, libc::PACKET_VERSION, &version)?;
        set(&socket, PACKET_IGNORE_OUTGOING, &1)?;
        set(&socket, libc::PACKET_VNET_HDR, &1)?;
        let ring = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES,
            tp_block_nr: SLOTS * SLOT_BYTES / BLOCK_BYTES,
            tp_frame_size: SLOT_BYTES,
            tp_frame_nr: SLOTS,
        };
        set(&socket, libc::PACKET_RX_RING, &ring)?;
        set(&socket, libc::PACKET_TX_RING, &ring)?;
        let rings = map(&socket)?;
        let uplink = Self {
            socket,
            rings,
            receive_slot: 0,
            send_slot: 0,
            unsent: 0,
            stuck: false,
            counters: UplinkCounters::default(),
        };
        let index = i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
        let all = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&uplink.socket, libc::PACKET_ADD_MEMBERSHIP, &all)?;
        bind(&uplink.socket, index)?;
        Ok(uplink)
    }

    /// Gives on frames that have arrived, [`BATCH`] at most; returns how many there were.
    pub fn receive(&mut self, mut take: impl FnMut(&mut [u8])) -> u32 {
        for taken in 0..BATCH {
            let slot = self.slot(self.receive_slot);
            let status = status(slot).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return taken;
            }
            // SAFETY: a slot begins with this header, and until its status is given back the kernel
            // leaves it alone.
            let header = unsafe { ptr::read(slot.cast::<libc::tpacket2_hdr>()) };
            match frame_of(slot, &header) {
                Some(frame) => {
                    self.counters.received += 1;
                    take(frame);
                }
                None => self.counters.too_long += 1,
            }
            self::status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.receive_slot = (self.receive_slot + 1) % SLOTS;
        }
        BATCH
    }

    /// Whether a frame can be handed over: the interface is done with the next slot.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        let status = status(self.slot(SLOTS + self.send_slot)).load(Ordering::Acquire);
        status == libc::TP_STATUS_AVAILABLE || status & libc::TP_STATUS_WRONG_FORMAT != 0
    }

    /// Writes a frame into the next slot; without room for it the frame is refused, and counted.
    pub fn push(&mut self, frame: &[u8]) {
        if !self.has_free_slot() || frame.len() > MAX_FRAME_BYTES {
            self.counters.refused += 1;
            return;
        }
        let slot = self.slot(SLOTS + self.send_slot);
        if status(slot).load(Ordering::Relaxed) & libc::TP_STATUS_WRONG_FORMAT != 0 {
            self.counters.refused += 1;
            self.counters.sent -= 1;
        }
        // SAFETY: the slot is this side's, and has the headers and a frame's bytes; it begins with the
        // header whose `tp_len` is this side's to write.
        unsafe {
            ptr::write_bytes(slot.add(SEND_AT), 0, VNET_BYTES);
            let target = slot.add(SEND_AT + VNET_BYTES);
            ptr::copy_nonoverlapping(frame.as_ptr(), target, frame.len());
            let header = slot.cast::<libc::tpacket2_hdr>();
            (&raw mut (*header).tp_len).write((frame.len() + VNET_BYTES) as u32);
        }
        status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.send_slot = (self.send_slot + 1) % SLOTS;
        self.unsent += 1;
        self.counters.sent += 1;
        if self.unsent >= BATCH {
            self.flush();
        }
    }

    /// Has the interface take what was pushed. What it does not take now it takes with the next call.
    pub fn flush(&mut self) {
        self.stuck = false;
        while self.unsent > 0 {
            // SAFETY: without a buffer: the frames are in the ring.
            let sent =
                unsafe { libc::send(self.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT) };
            if sent >= 0 {
                self.unsent = 0;
            } else if io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS) {
                self.unsent -= 1; // the interface dropped one, counted that, and left off there
            } else {
                self.stuck = true; // it is down, or the kernel has no memory
                return;
            }
        }
    }

    /// Whether the interface takes nothing for now. The poller would not tell when it does again.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Takes note of an error of the interface's, such as that it went down: until then the poller
    /// tells of it again and again.
    pub fn take_error(&self) {
        let mut error: libc::c_int = 0;
        let mut length = size_of_val(&error) as libc::socklen_t;
        // SAFETY: both pointers are to live values, and the length says how long the first is.
        unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut length,
            )
        };
    }

    /// What became of its frames so far.
    pub fn counters(&mut self) -> UplinkCounters {
        let mut told = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&told) as libc::socklen_t;
        // SAFETY: both pointers are to live values, and the length says how long the first is.
        let failed = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut told).cast(),
                &raw mut length,
            )
        };
        if failed == 0 {
            self.counters.ring_full += u64::from(told.tp_drops); // counted anew after each question
        }
        self.counters
    }

    /// The descriptor that can be read when frames have arrived.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.socket.as_fd()
    }

    /// A slot: the receiving ring's come first, then those of the sending ring.
    fn slot(&self, number: u32) -> *mut u8 {
        // SAFETY: the rings were mapped with so many slots.
        unsafe { self.rings.add(number as usize * SLOT_BYTES as usize) }
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        // SAFETY: mapped by open(), with this length, and used by nobody else.
        unsafe { libc::munmap(self.rings.cast(), MAPPED_BYTES) };
    }
}

const MAPPED_BYTES: usize = 2 * SLOTS as usize * SLOT_BYTES as usize;

/// The frame in a slot that the kernel has filled, its checksum complete; None if it is not whole.
fn frame_of<'a>(slot: *mut u8, header: &libc::tpacket2_hdr) -> Option<&'a mut [u8]> {
    let at = usize::from(header.tp_mac);
    let whole = header.tp_len == header.tp_snaplen;
    let length = header.tp_snaplen as usize;
    if !whole || at < VNET_BYTES || length > MAX_FRAME_BYTES || at + length > SLOT_BYTES as usize {
        return None;
    }
    // SAFETY: within the slot, as was just checked; the kernel leaves it alone for now.
    let (vnet, frame) = unsafe {
        let vnet: [u8; VNET_BYTES] = ptr::read(slot.add(at - VNET_BYTES).cast());
        (vnet, std::slice::from_raw_parts_mut(slot.add(at), length))
    };
    let number = |i: usize| usize::from(u16::from_ne_bytes([vnet[i], vnet[i + 1]]));
    if vnet[1] != 0 {
        return None; // merged segments
    }
    if vnet[0] & NEEDS_CHECKSUM != 0 {
        checksum::complete(frame, number(6), number(8))?;
    }
    if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return Some(frame);
    }
    // The kernel has taken a VLAN's tag out; the header before the frame has been read, and makes space.
    if length + TAG_BYTES > MAX_FRAME_BYTES || length < ADDRESSES_BYTES {
        return None;
    }
    // SAFETY: `at` leaves more space before the frame than a tag takes, and all of it is the slot's.
    let tagged =
        unsafe { std::slice::from_raw_parts_mut(slot.add(at - TAG_BYTES), length + TAG_BYTES) };
    tagged.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
    let tpid = if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        libc::ETH_P_8021Q as u16
    } else {
        header.tp_vlan_tpid
    };
    tagged[ADDRESSES_BYTES..][..2].copy_from_slice(&tpid.to_be_bytes());
    tagged[ADDRESSES_BYTES + 2..][..2].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
    Some(tagged)
}

fn status<'a>(slot: *mut u8) -> &'a AtomicU32 {
    // SAFETY: a slot is aligned to 16 bytes and begins with its status, which both sides change.
    unsafe { AtomicU32::from_ptr(slot.cast()) }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of that length.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn map(socket: &OwnedFd) -> io::Result<*mut u8> {
    // SAFETY: a new mapping, wherever the kernel likes.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            MAPPED_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            socket.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

fn bind(socket: &OwnedFd, ifindex: i32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer is to a live address of that length.
    let failed = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
