//! An interface of the host, through a packet socket whose rings are shared with it.
//!
//! Two rings of fixed slots (`TPACKET_V2`): the kernel fills one, this side the other. A slot that
//! was filled to be sent comes back when the interface has freed the frame, so a full ring is the
//! interface's own back-pressure. Frames from the kernel have a `virtio_net_hdr` in front, which tells of
//! checksums that are still to be computed and of merged segments; the tag of a VLAN stands beside them and
//! is put back in. What is longer than a slot waits in the socket's queue (`PACKET_COPY_THRESH`).
//!
//! Frames may also come by [`XdpSocket`]s, beside the ring.

#![expect(clippy::cast_possible_truncation, reason = "sizes of structures, kernel constants")]
#![expect(clippy::cast_ptr_alignment, reason = "slots are aligned to their size")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    sync::atomic::Ordering,
};

use crate::{
    NetHeader,
    mapping::Mapping,
    packet_socket::{self, keep_more_waiting, set},
    segmentation::MAX_MERGED_BYTES,
    staging::{MAX_FRAME_BYTES, frames_of},
    vlan::TAG_BYTES,
    xdp_socket::XdpSocket,
};

mod slots;

pub use slots::Slots;
use slots::{Found, SLOT_BYTES, VNET_BYTES, frame_of, status, with_tag, work_of};

/// Slots of each ring of an uplink, and of an interface with one router behind it, of which there may be
/// hundreds; each has 2 KiB, and the kernel keeps them in memory.
pub(crate) const UPLINK_SLOTS: Slots = Slots { receive: 4096, send: 1024 };
pub(crate) const ROUTER_SLOTS: Slots = Slots { receive: 256, send: 256 };
const BLOCK_BYTES: u32 = 1 << 16;
/// Frames taken or offered at once.
const BATCH: u32 = 64;
/// Where what is to be sent begins in a slot: behind the header, without the address.
const SEND_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
/// The shortest frame on the wire, without its check sequence. What is shorter is filled up here: the kernel
/// refuses a frame that is shorter than the interface's header, of a VLAN's 18 bytes.
const SHORTEST_BYTES: usize = 60;
/// Of a frame that is sent, what the kernel copies at least, so that whoever looks at its headers there
/// (filters, capture points) finds them; of the rest it refers to the slot.
const LINEAR_BYTES: usize = 128;
/// Of merged segments that wait, bytes; the kernel takes twice as much for what it needs itself.
const MERGED_WAITING_BYTES: libc::c_int = 4 << 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// What became of the frames of an interface, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UplinkCounters {
    /// Frames that arrived and were given on, or dropped early, or are for nobody here; merged segments are one.
    pub received: u64,
    /// Frames that the kernel had no free slot or no memory for.
    pub ring_full: u64,
    /// Frames longer than any port takes, or merged segments that cannot be divided.
    pub too_long: u64,
    /// Frames handed to the interface.
    pub sent: u64,
    /// Frames that the interface refused for their form; of several that it is handed at once, as many as
    /// their bytes make at least.
    pub refused: u64,
    /// How often the interface had no space for a frame, which is offered again and not lost. The
    /// kernel counts each time as a frame that the interface dropped.
    pub retried: u64,
    /// Whether the interface is up and has a carrier; frames wait while it does not.
    pub carrier: bool,
}

/// How an interface took what it was offered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All of it.
    Ready,
    /// It left some: its queue is full, or as much is under way as the socket may have.
    Full,
    /// The same, and it has dropped the next frame, which is still here, and said so.
    Refusing,
    /// It takes nothing now, for another reason.
    Stuck,
}

/// An interface, or none: frames come and go once it is bound to one.
#[derive(Debug)]
pub struct Interface {
    socket: OwnedFd,
    ifindex: i32,
    /// Whether it is up and has a carrier, as far as is known.
    has_carrier: bool,
    rings: Mapping,
    slots: Slots,
    /// What hands over frames that never get to the ring.
    xdp: Vec<XdpSocket>,
    /// A frame that was longer than a slot, behind space for a tag.
    long: Vec<u8>,
    receive_slot: u32,
    send_slot: u32,
    unsent: u32,
    /// Bytes of what was pushed, without those that the kernel says it has taken; it does not say how many
    /// it took before it met with an error.
    untold_bytes: usize,
    told_all: bool,
    state: State,
    counters: UplinkCounters,
}

impl Interface {
    /// A socket in the calling thread's network namespace that is not bound yet.
    pub fn new(slots: Slots) -> io::Result<Self> {
        let socket = packet_socket::open()?;
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set(&socket, libc::PACKET_VERSION, &version)?;
        set(&socket, libc::PACKET_COPY_THRESH, &1)?;
        keep_more_waiting(&socket, MERGED_WAITING_BYTES)?;
        set(&socket, PACKET_IGNORE_OUTGOING, &1)?;
        set(&socket, libc::PACKET_VNET_HDR, &1)?;
        // Else the kernel would stop at the first frame that it does not like (`tpacket_snd()`).
        set(&socket, libc::PACKET_LOSS, &1)?;
        for (option, slots) in
            [(libc::PACKET_RX_RING, slots.receive), (libc::PACKET_TX_RING, slots.send)]
        {
            let ring = libc::tpacket_req {
                tp_block_size: BLOCK_BYTES,
                tp_block_nr: slots * SLOT_BYTES / BLOCK_BYTES,
                tp_frame_size: SLOT_BYTES,
                tp_frame_nr: slots,
            };
            set(&socket, option, &ring)?;
        }
        let rings = Mapping::new(slots.bytes(), Some((&socket, 0)))?;
        Ok(Self {
            socket,
            ifindex: 0,
            has_carrier: false,
            rings,
            slots,
            xdp: Vec::new(),
            long: vec![0; TAG_BYTES + MAX_MERGED_BYTES],
            receive_slot: 0,
            send_slot: 0,
            unsent: 0,
            untold_bytes: 0,
            told_all: true,
            state: State::Ready,
            counters: UplinkCounters::default(),
        })
    }

    /// Binds it to the interface with this index, of whose carrier it is to be told. It may have been
    /// bound to one that is gone by now.
    pub(crate) fn bind(&mut self, ifindex: u32) -> io::Result<()> {
        let index = i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
        (self.ifindex, self.has_carrier) = (index, false);
        packet_socket::bind(&self.socket, index)
    }

    /// Has a program decide what it takes, from now on.
    pub(crate) fn filter_by(&self, program: &OwnedFd) -> io::Result<()> {
        packet_socket::filter_by(&self.socket, program)
    }

    /// Has it take frames from these sockets, too.
    pub(crate) fn take_from(&mut self, sockets: Vec<XdpSocket>) {
        self.xdp = sockets;
    }

    /// The interface that it is, or was, bound to.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex.unsigned_abs()
    }

    /// Takes note of whether the interface is up and has a carrier. Without one it would drop what it is
    /// given, and not say so.
    pub(crate) fn set_carrier(&mut self, is_there: bool) {
        self.has_carrier = is_there;
    }

    pub(crate) fn has_carrier(&self) -> bool {
        self.has_carrier
    }

    /// Whether the interface that it was bound to is still there.
    pub(crate) fn is_bound(&self) -> bool {
        packet_socket::is_bound(&self.socket)
    }

    /// Whether an interface of this name is there and in service.
    pub(crate) fn is_up(&self, name: &CStr) -> bool {
        packet_socket::is_up(&self.socket, name)
    }

    /// Gives on frames that have arrived, [`BATCH`] of each ring at most, each with what is left to do for
    /// it; returns how many there were, with merged segments counted by their size. Whoever takes them says
    /// whether that can be done.
    pub fn receive(&mut self, mut take: impl FnMut(&mut [u8], NetHeader) -> bool) -> u32 {
        let mut taken = 0;
        while taken < BATCH
            && let Some(frames) = self.receive_one(&mut take)
        {
            taken += frames;
        }
        let Self { xdp, counters, .. } = self;
        for socket in xdp {
            taken += socket.receive(BATCH, |frame| {
                let given = take(frame, NetHeader::NONE);
                *(if given { &mut counters.received } else { &mut counters.too_long }) += 1;
            });
        }
        taken
    }

    /// The same with one frame; None: none has arrived.
    pub fn receive_one(&mut self, take: impl FnOnce(&mut [u8], NetHeader) -> bool) -> Option<u32> {
        let slot = self.slot(self.receive_slot);
        let status = status(slot).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: a slot begins with this header, and until its status is given back the kernel leaves
        // it alone.
        let header = unsafe { ptr::read(slot.cast::<libc::tpacket2_hdr>()) };
        let is_long = status & libc::TP_STATUS_COPY != 0;
        let found = if is_long { self.long(&header) } else { frame_of(slot, &header) };
        let given = found.is_some_and(|(frame, work)| take(frame, work));
        let counter = match given {
            true => &mut self.counters.received,
            false if !is_long && header.tp_len != header.tp_snaplen => &mut self.counters.ring_full,
            false => &mut self.counters.too_long,
        };
        *counter += 1;
        self::status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.receive_slot = (self.receive_slot + 1) % self.slots.receive;
        Some(frames_of(header.tp_len as usize))
    }

    /// The frame that a slot was too short for, from the socket's queue, where they wait in the same
    /// order.
    fn long(&mut self, slot: &libc::tpacket2_hdr) -> Option<Found<'_>> {
        let mut work = [0; VNET_BYTES];
        let frame = &mut self.long[TAG_BYTES..];
        let mut parts = [
            libc::iovec { iov_base: work.as_mut_ptr().cast(), iov_len: work.len() },
            libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
        ];
        // SAFETY: all zeros are a value of this plain structure.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
        // SAFETY: both buffers have the lengths that the message says.
        let received =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let bytes = usize::try_from(received).ok()?.checked_sub(VNET_BYTES)?;
        if message.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        with_tag(&mut self.long[..TAG_BYTES + bytes], work_of(&work), slot)
    }

    /// Whether a frame that is handed over now is sent: what is pushed without a carrier would wait here,
    /// and go at once, whatever the link's rate is, when it comes.
    pub(crate) fn takes_frames(&self) -> bool {
        self.has_carrier && self.has_free_slot()
    }

    /// Whether a frame can be handed over: the interface is done with the next slot.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        let status = status(self.sending(self.send_slot)).load(Ordering::Acquire);
        status == libc::TP_STATUS_AVAILABLE
    }

    /// How many slots are free at least, of those that are looked at.
    pub(crate) fn free_slots(&self) -> u32 {
        const LOOKED_AT: [u32; 4] = [127, 63, 15, 0];
        let is_free = |&ahead: &u32| {
            let slot = (self.send_slot + ahead) % self.slots.send;
            status(self.sending(slot)).load(Ordering::Acquire) == libc::TP_STATUS_AVAILABLE
        };
        LOOKED_AT.iter().find(|ahead| is_free(ahead)).map_or(0, |ahead| ahead + 1)
    }

    /// Writes a frame into the next slot, with what is left to the kernel; without space for it the frame is
    /// refused, and counted.
    pub fn push(&mut self, frame: &[u8], work: NetHeader) {
        let bytes = frame.len().max(SHORTEST_BYTES);
        // A guest may say what it likes, and the kernel refuses more than there is.
        let linear = usize::from(work.hdr_len).max(LINEAR_BYTES).min(bytes);
        let work = NetHeader { hdr_len: linear as u16, ..work };
        if !self.has_free_slot() || frame.len() > MAX_FRAME_BYTES {
            self.counters.refused += 1;
            return;
        }
        let slot = self.sending(self.send_slot);
        // SAFETY: the slot is this side's, and has the headers and a frame's bytes; it begins with the
        // header whose `tp_len` is this side's to write.
        unsafe {
            ptr::copy_nonoverlapping(work.to_bytes().as_ptr(), slot.add(SEND_AT), VNET_BYTES);
            let target = slot.add(SEND_AT + VNET_BYTES);
            ptr::copy_nonoverlapping(frame.as_ptr(), target, frame.len());
            ptr::write_bytes(target.add(frame.len()), 0, bytes - frame.len());
            let header = slot.cast::<libc::tpacket2_hdr>();
            (&raw mut (*header).tp_len).write((bytes + VNET_BYTES) as u32);
        }
        status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.send_slot = (self.send_slot + 1) % self.slots.send;
        self.unsent += 1;
        self.untold_bytes += bytes;
        self.counters.sent += 1;
        if self.unsent >= BATCH {
            self.flush();
        }
    }

    /// Has the interface take what was pushed. What it does not take now it takes with the next call, or
    /// with the first once it has a carrier.
    pub fn flush(&mut self) {
        let before = std::mem::replace(&mut self.state, State::Ready);
        if !self.has_carrier {
            return;
        }
        // A veth drops frames as its other end goes down, and says so, but no longer when linkwatch has
        // been there.
        if before == State::Refusing && !packet_socket::is_running(&self.socket, self.ifindex) {
            self.state = State::Refusing;
            return;
        }
        while self.unsent > 0 {
            // SAFETY: without a buffer: the frames are in the ring.
            let sent =
                unsafe { libc::send(self.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT) };
            if let Ok(bytes) = usize::try_from(sent) {
                self.untold_bytes = self.untold_bytes.saturating_sub(bytes);
                // It may have left off where as much was under way as the socket may have.
                if self.has_waiting() {
                    self.state = State::Full;
                    return;
                }
                self.count_refused();
                continue;
            }
            let error = io::Error::last_os_error().raw_os_error();
            self.told_all &= error == Some(libc::EAGAIN); // of which it took none
            self.state = match error {
                // The kernel leaves the frame in its slot, to begin with it (`tpacket_snd()`).
                Some(libc::ENOBUFS) => {
                    self.counters.retried += 1;
                    State::Refusing
                }
                Some(libc::EAGAIN) => State::Full, // as much is under way as the socket may have
                _ => State::Stuck,                 // it is down, or the kernel has no memory
            };
            return;
        }
    }

    /// Counts what the kernel has passed over. It marks such a slot like one that was sent, and tells how many
    /// bytes it took.
    fn count_refused(&mut self) {
        self.unsent = 0;
        let bytes = std::mem::take(&mut self.untold_bytes);
        if std::mem::replace(&mut self.told_all, true) {
            let frames = bytes.div_ceil(MAX_FRAME_BYTES) as u64;
            self.counters.refused += frames;
            self.counters.sent -= frames;
        }
    }

    /// Whether the kernel has yet to take the frame that was pushed last; it takes them in turn.
    fn has_waiting(&self) -> bool {
        let last = self.sending((self.send_slot + self.slots.send - 1) % self.slots.send);
        status(last).load(Ordering::Acquire) == libc::TP_STATUS_SEND_REQUEST
    }

    /// Whether the interface has no space now for what was pushed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.state, State::Full | State::Refusing)
    }

    /// Whether the interface takes nothing for now. The poller would not tell when it does again.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.state == State::Stuck
    }

    /// Takes note of an error of the interface's, such as that it went down.
    pub(crate) fn take_error(&self) {
        packet_socket::take_error(&self.socket);
    }

    /// What became of its frames so far.
    pub fn counters(&mut self) -> UplinkCounters {
        self.count_losses();
        UplinkCounters { carrier: self.has_carrier, ..self.counters }
    }

    /// Has it be as after the kernel left some of what it was offered.
    #[cfg(test)]
    pub(crate) fn become_full(&mut self) {
        self.state = State::Full;
    }

    /// What it has counted without a question to the kernel.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> UplinkCounters {
        self.counters
    }

    /// Asks the kernel what it had no space for. Its own counter has 32 bits, and begins anew each time.
    pub(crate) fn count_losses(&mut self) {
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
            self.counters.ring_full += u64::from(told.tp_drops);
        }
        self.counters.ring_full += self.xdp.iter_mut().map(XdpSocket::lost).sum::<u64>();
    }

    /// The descriptor that can be read when frames have arrived, but for those of other sockets.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The other sockets' descriptors.
    pub(crate) fn also_readable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.xdp.iter().map(AsFd::as_fd)
    }

    /// A slot of the sending ring.
    fn sending(&self, number: u32) -> *mut u8 {
        self.slot(self.slots.receive + number)
    }

    /// A slot: the receiving ring's come first, then those of the sending ring.
    fn slot(&self, number: u32) -> *mut u8 {
        // SAFETY: the rings were mapped with so many slots.
        unsafe { self.rings.start.add(number as usize * SLOT_BYTES as usize) }
    }
}

#[cfg(test)]
mod tests;
