//! A NIC of a synthetic guest: the front-end's side of vhost-user, and its two rings.

use std::{io, rc::Rc, sync::atomic::Ordering};

use vhost::{
    VhostBackend as _, VhostUserMemoryRegionInfo,
    vhost_user::{
        Frontend, VhostUserFrontend as _, VhostUserProtocolFeatures, message::VhostUserHeaderFlag,
    },
};

use super::{
    Failure, Result,
    memory::{GUEST, Memory},
    ring::{BUFFER_BYTES, Direction, HEADER_BYTES, RING_BYTES, Ring, SIZE},
};

/// Features that are taken where they are offered.
const WANTED: u64 = MAC | EVENT_IDX | PROTOCOL_FEATURES | VERSION_1;
const MAC: u64 = 1 << 5;
const EVENT_IDX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;

/// A length of no frame: below it, and above it, frames are refused.
const FRAME_BYTES: std::ops::RangeInclusive<u16> = 14..=1522;
/// For local experiments (IEEE 802).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

pub type Address = [u8; 6];

/// An attached NIC. Dropping it hangs up first, and then unmaps its memory.
pub struct Nic {
    frontend: Frontend,
    memory: Rc<Memory>,
    pub receive: Ring,
    pub transmit: Ring,
}

impl Nic {
    /// Attaches to a socket. All receive buffers are available to the device then.
    pub fn attach(socket: &str) -> Result<Self> {
        let failed = |error: vhost::Error| Failure::new(format!("{socket}: {error}"));
        let mut frontend = Frontend::connect(socket, 2).map_err(failed)?;
        let features = negotiate(&mut frontend).map_err(failed)?;
        if features & VERSION_1 == 0 {
            return Err(Failure::new(format!("{socket}: it is older than virtio 1.0")));
        }
        let memory = Rc::new(Memory::new(2 * RING_BYTES)?);
        let event_idx = features & EVENT_IDX != 0;
        let receive = Ring::new(&memory, 0, Direction::Receive, event_idx)?;
        let transmit = Ring::new(&memory, RING_BYTES, Direction::Transmit, event_idx)?;
        let mut nic = Self { frontend, memory, receive, transmit };
        nic.share().map_err(failed)?;
        (0..SIZE).for_each(|head| nic.receive.offer(head));
        nic.receive.publish();
        Ok(nic)
    }

    fn share(&mut self) -> vhost::Result<()> {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: self.memory.bytes(),
            userspace_addr: self.memory.user_address(),
            mmap_offset: 0,
            mmap_handle: self.memory.descriptor(),
        };
        let _ = self.frontend.set_mem_table(&[region])?;
        for (index, ring) in [&self.receive, &self.transmit].into_iter().enumerate() {
            self.frontend.set_vring_num(index, SIZE)?;
            self.frontend.set_vring_base(index, 0)?;
            self.frontend.set_vring_addr(index, &ring.addresses())?;
            self.frontend.set_vring_call(index, ring.call_descriptor())?;
            self.frontend.set_vring_kick(index, ring.kick_descriptor())?;
        }
        (0..2).try_for_each(|index| self.frontend.set_vring_enable(index, true))
    }

    /// Fails if the back-end has hung up.
    pub fn check(&self) -> Result<()> {
        let gone = |error| Failure::new(format!("the back-end has cut a guest off: {error}"));
        self.frontend.get_features().map(drop).map_err(gone)
    }

    /// Writes the frame that a transmit buffer holds from now on; its length is set on its own.
    pub fn fill(&self, to: Address, from: Address) {
        let header = [&to[..], &from[..], &ETHER_TYPE[..]].concat();
        for head in 0..SIZE {
            self.memory.write(self.transmit.buffer(head) + usize::from(HEADER_BYTES), &header);
        }
    }

    /// Transmits a frame from a free descriptor; the device sees it after [`Ring::publish`].
    #[inline]
    pub fn send(&mut self, head: u16, frame_bytes: u16) {
        self.transmit.set_bytes(head, HEADER_BYTES + frame_bytes);
        self.send_again(head);
    }

    /// Transmits a frame as long as the descriptor's last one.
    #[inline]
    pub fn send_again(&mut self, head: u16) {
        self.transmit.clear_header(head);
        self.transmit.offer(head);
    }

    /// Takes what has arrived, once that is `batch` frames at least, and makes the buffers available
    /// again. Returns the frames.
    #[inline]
    pub fn drain(&mut self, batch: u16) -> u64 {
        let arrived = self.receive.returned();
        if arrived < batch {
            return 0;
        }
        for _ in 0..arrived {
            let head = self.receive.take();
            self.receive.offer(head);
        }
        self.receive.publish();
        arrived.into()
    }

    /// Takes one frame that has arrived, and makes its buffer available again with the next
    /// [`Ring::publish`]: the last two octets of its sender's address, and its bytes.
    pub fn take_one(&mut self) -> Option<(u16, u16)> {
        if self.receive.returned() == 0 {
            return None;
        }
        let bytes = self.receive.next_bytes();
        let head = self.receive.take();
        let octets = self.receive.buffer(head) + usize::from(HEADER_BYTES) + 10;
        let sender = u16::from_be(self.memory.word(octets).load(Ordering::Relaxed));
        self.receive.offer(head);
        Some((sender, bytes - HEADER_BYTES))
    }
}

/// A length that both the back-end and a buffer take, bytes without the check sequence.
pub fn checked_bytes(text: &str) -> Result<u16> {
    const { assert!(*FRAME_BYTES.end() + HEADER_BYTES <= BUFFER_BYTES) }
    match text.parse() {
        Ok(bytes) if FRAME_BYTES.contains(&bytes) => Ok(bytes),
        _ => Err(Failure::new(format!("{text} is no frame's length; accepted: 14 to 1522"))),
    }
}

/// Agrees on features; returns those of virtio.
fn negotiate(frontend: &mut Frontend) -> vhost::Result<u64> {
    let features = frontend.get_features()? & WANTED;
    if features & PROTOCOL_FEATURES == 0 {
        let error = io::Error::other("it has no protocol features");
        return Err(vhost::Error::IOError(error));
    }
    let acknowledged = VhostUserProtocolFeatures::REPLY_ACK;
    let protocol = frontend.get_protocol_features()? & acknowledged;
    frontend.set_protocol_features(protocol)?;
    if protocol == acknowledged {
        // From now on each request has been carried out when its function returns.
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    frontend.set_owner()?;
    frontend.set_features(features)?;
    Ok(features)
}
