//! The protocol's state for one NIC.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use crate::{
    chain::Chain,
    error::CutOff,
    frame::{FrameFormat, FrameWriter, NET_HEADER_BYTES, Offloads},
    memory::GuestMemory,
    message::{MAX_CONFIG_BYTES, MemoryRegion, Message, Reply, ReplyPayload, Request},
    notification::{Call, Kick},
    queue::check_size,
    ring::{RingFeatures, RingState, Shared},
    rings::{Ring, Rings},
};

/// Virtio features, as bits.
pub mod feature {
    /// The guest may leave checksums to the device.
    pub const CSUM: u64 = 1 << 0;
    /// The device may leave checksums to the guest.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// The configuration holds an MTU.
    pub const MTU: u64 = 1 << 3;
    /// The configuration holds a MAC address.
    pub const MAC: u64 = 1 << 5;
    /// The device may leave the segmentation of TCP over IPv4 to the guest: it takes merged segments.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// The same of TCP over IPv6.
    pub const GUEST_TSO6: u64 = 1 << 8;
    /// The guest may leave the segmentation of TCP over IPv4 to the device.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// The same of TCP over IPv6.
    pub const HOST_TSO6: u64 = 1 << 12;
    /// A received frame may lie in several buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// A descriptor may name a table of descriptors.
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// Both sides say at which index they want to be woken.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// Not of virtio, but of vhost-user: protocol features can be negotiated.
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    /// The device is of virtio 1.0 or later.
    pub const VERSION_1: u64 = 1 << 32;
    /// What is offered to all. Never several queue pairs, a control queue, packed rings.
    pub const OFFERED: u64 =
        MTU | MAC | MRG_RXBUF | INDIRECT_DESC | EVENT_IDX | PROTOCOL_FEATURES | VERSION_1;
    /// What is offered where offloads are.
    pub const OFFLOADS: u64 = CSUM | GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | HOST_TSO4 | HOST_TSO6;
}

/// Features of the protocol, as bits.
pub mod protocol_feature {
    /// The front-end may ask for an acknowledgement of any request.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// The front-end hands over a channel for requests of the back-end.
    pub const BACKEND_REQ: u64 = 1 << 5;
    /// The back-end has the device's configuration.
    pub const CONFIG: u64 = 1 << 9;
    /// What is offered.
    pub const OFFERED: u64 = REPLY_ACK | BACKEND_REQ | CONFIG;
}

/// Index of the ring with the guest's receive buffers, which we write.
pub const RECEIVE: usize = 0;
/// Index of the ring with the frames that the guest transmits, which we read.
pub const TRANSMIT: usize = 1;
const RINGS: usize = 2;
const LAST_RING: u32 = 1;
/// The smallest MTU of IPv4 (RFC 791); the guest's front-end may not set less.
const MIN_MTU: u16 = 68;

/// What a guest is told about its NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicSettings {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The largest IP packet, bytes.
    pub mtu: u16,
    /// Whether checksums and segmentation may be left to the other side.
    pub offloads: bool,
}

/// One NIC of a guest, from the front-end's first message to its disconnection.
#[derive(Debug)]
pub struct Session {
    settings: NicSettings,
    memory: Option<Arc<GuestMemory>>,
    rings: [RingState; RINGS],
    /// None: not set yet.
    features: Option<u64>,
    /// How frames lie in buffers, as the features say: each frame asks for it.
    format: FrameFormat,
    protocol_features: u64,
    status: u8,
    /// Kept open and never used: a User-Mode Linux guest whose channel is closed loses its NICs.
    backend_requests: Option<OwnedFd>,
    writer: FrameWriter,
    chain: Chain,
}

/// Whether an acknowledgement is due, or the request has a reply of its own.
enum Outcome {
    Done,
    Refused,
    Answer(ReplyPayload),
}

impl Session {
    /// A NIC whose front-end has said nothing yet.
    #[must_use]
    pub fn new(settings: NicSettings) -> Self {
        Self {
            settings,
            memory: None,
            rings: Default::default(),
            features: None,
            format: format(0),
            protocol_features: 0,
            status: 0,
            backend_requests: None,
            writer: FrameWriter::new(),
            chain: Chain::new(),
        }
    }

    /// Carries out a message that came with these descriptors; what to answer. After an error
    /// nothing but dropping the session makes sense.
    pub fn handle(&mut self, message: Message, fds: Vec<OwnedFd>) -> Result<Option<Reply>, CutOff> {
        let Message { code, need_reply, .. } = message;
        // Descriptors that the request has no use for are closed on the way out.
        let acknowledgement = match self.carry_out(message, fds)? {
            Outcome::Answer(payload) => return Ok(Some(Reply { code, payload })),
            Outcome::Done => 0,
            Outcome::Refused => 1,
        };
        let wanted = need_reply && self.protocol_features & protocol_feature::REPLY_ACK != 0;
        let payload = ReplyPayload::Number(acknowledgement);
        Ok(wanted.then_some(Reply { code, payload }))
    }

    /// Its rings, as far as they run, for one round of work. One that has just started is to be looked at
    /// without waiting for a kick.
    pub fn rings(&mut self) -> Rings<'_> {
        let format = self.format;
        let [receive, transmit] = &mut self.rings;
        Rings {
            memory: self.memory.as_ref(),
            receive: Ring::of(receive),
            transmit: Ring::of(transmit),
            format,
            writer: &mut self.writer,
            chain: &mut self.chain,
        }
    }

    /// The descriptor to poll for kicks of a ring; None: the front-end gave none, so the ring has
    /// to be looked at from time to time. It may change with each message. Kicks of a ring that does
    /// not run have to be taken too.
    #[must_use]
    pub fn kick(&self, ring: usize) -> Option<&Kick> {
        self.rings.get(ring)?.kick.as_ref()
    }

    /// The features that this NIC offers.
    fn offered(&self) -> u64 {
        feature::OFFERED | if self.settings.offloads { feature::OFFLOADS } else { 0 }
    }

    fn carry_out(&mut self, message: Message, fds: Vec<OwnedFd>) -> Result<Outcome, CutOff> {
        let code = message.code;
        match message.request {
            Request::GetFeatures => return Ok(number(self.offered())),
            Request::GetProtocolFeatures => return Ok(number(protocol_feature::OFFERED)),
            // Counts pairs of rings.
            Request::GetQueueNum => return Ok(number(1)),
            Request::GetStatus => return Ok(number(u64::from(self.status))),
            Request::GetConfig { offset, bytes, flags } => {
                return Ok(self.config(offset, bytes, flags));
            }
            Request::GetVringBase { index } => {
                let base = u32::from(self.ring(index)?.stop());
                return Ok(Outcome::Answer(ReplyPayload::RingBase { index, base }));
            }
            Request::SetConfig => return Ok(Outcome::Refused),
            Request::NetSetMtu { mtu } => {
                let accepted = u64::from(MIN_MTU)..=u64::from(self.settings.mtu);
                return Ok(if accepted.contains(&mtu) { Outcome::Done } else { Outcome::Refused });
            }
            // The guest announces itself; nothing here depends on where it is.
            Request::SetOwner | Request::SendRarp { .. } => {}
            Request::ResetOwner | Request::ResetDevice => self.reset(),
            Request::SetStatus { status } => self.set_status(status),
            Request::SetFeatures { features } => {
                offered(features, self.offered())?;
                self.features = Some(features);
                self.format = format(features);
                self.refresh()?;
            }
            Request::SetProtocolFeatures { features } => {
                offered(features, protocol_feature::OFFERED)?;
                self.protocol_features = features;
            }
            Request::SetMemTable { regions } => self.set_memory(code, &regions, &fds)?,
            Request::SetBackendReqFd => self.backend_requests = Some(one(code, fds)?),
            ref request => self.change_ring(code, request, fds)?,
        }
        Ok(Outcome::Done)
    }

    /// The requests that concern one ring.
    fn change_ring(
        &mut self,
        code: u32,
        request: &Request,
        fds: Vec<OwnedFd>,
    ) -> Result<(), CutOff> {
        match *request {
            Request::SetVringNum { index, size } => {
                self.halted_ring(code, index)?.set_size(check_size(size)?);
            }
            Request::SetVringBase { index, base } => {
                let accepted = u16::try_from(base).map_err(|_| CutOff::RingBase { base })?;
                self.halted_ring(code, index)?.set_base(accepted);
            }
            Request::SetVringAddr { index, flags, addresses } => {
                if flags != 0 {
                    return Err(CutOff::RingFlags { flags });
                }
                self.ring(index)?.set_addresses(addresses);
            }
            Request::SetVringEnable { index, enabled } => self.ring(index)?.set_enabled(enabled),
            Request::SetVringKick { index, has_descriptor } => {
                self.ring(index)?.start(optional(code, has_descriptor, fds)?)?;
            }
            Request::SetVringCall { index, has_descriptor } => {
                let fd = optional(code, has_descriptor, fds)?;
                self.ring(index)?.call = fd.map(Call::new).transpose()?;
                return Ok(());
            }
            // Errors end the connection, so nobody is told through this descriptor; it is closed.
            Request::SetVringErr { index, .. } => return self.ring(index).map(drop),
            _ => unreachable!("all other requests are carried out by the caller"),
        }
        self.refresh()
    }

    fn set_memory(
        &mut self,
        request: u32,
        regions: &[MemoryRegion],
        fds: &[OwnedFd],
    ) -> Result<(), CutOff> {
        if fds.len() < regions.len() {
            let (fds, accepted) = (fds.len(), regions.len());
            return Err(CutOff::MissingDescriptor { request, fds, accepted });
        }
        let files = regions.iter().copied().zip(fds.iter().map(AsFd::as_fd)).collect::<Vec<_>>();
        self.memory = Some(Arc::new(GuestMemory::map(&files)?));
        // They would keep the old memory mapped.
        self.writer = FrameWriter::new();
        self.chain.clear();
        self.refresh()
    }

    fn set_status(&mut self, status: u64) {
        // The guest's driver has let go of the device.
        if status == 0 {
            self.reset();
        }
        self.status = (status & 0xff) as u8;
    }

    /// Back to before `SET_FEATURES`; memory, protocol features and the channel stay.
    fn reset(&mut self) {
        for ring in &mut self.rings {
            ring.stop();
        }
        self.rings = Default::default();
        self.features = None;
        self.format = format(0);
        self.status = 0;
    }

    fn config(&self, offset: u32, bytes: u32, flags: u32) -> Outcome {
        let mut config = [0; MAX_CONFIG_BYTES];
        config[..6].copy_from_slice(&self.settings.mac);
        // The link is up, and there is one pair of rings.
        config[6..8].copy_from_slice(&1u16.to_le_bytes());
        config[8..10].copy_from_slice(&1u16.to_le_bytes());
        config[10..12].copy_from_slice(&self.settings.mtu.to_le_bytes());
        let end = offset.saturating_add(bytes) as usize;
        // The request's size was checked; an empty answer means that it cannot be served.
        let bytes = config.get(offset as usize..end).unwrap_or_default().to_vec();
        Outcome::Answer(ReplyPayload::Config { offset, flags, bytes })
    }

    fn ring(&mut self, index: u32) -> Result<&mut RingState, CutOff> {
        self.rings.get_mut(index as usize).ok_or(CutOff::NoSuchRing { index, last: LAST_RING })
    }

    /// A ring that does not run.
    fn halted_ring(&mut self, request: u32, index: u32) -> Result<&mut RingState, CutOff> {
        let ring = self.ring(index)?;
        if ring.queue.is_some() {
            return Err(CutOff::RingRuns { request, index: index as usize });
        }
        Ok(ring)
    }

    fn refresh(&mut self) -> Result<(), CutOff> {
        let shared = Shared {
            memory: self.memory.as_ref(),
            settings: self.features.map(|features| RingFeatures {
                event_idx: features & feature::EVENT_IDX != 0,
                indirect: features & feature::INDIRECT_DESC != 0,
                start_enabled: features & feature::PROTOCOL_FEATURES == 0,
            }),
        };
        self.rings.iter_mut().try_for_each(|ring| ring.refresh(&shared))
    }
}

/// How frames lie in buffers with these features.
fn format(features: u64) -> FrameFormat {
    let mergeable = features & feature::MRG_RXBUF != 0;
    let has_buffers = mergeable || features & feature::VERSION_1 != 0;
    let offloads = |checksum, tcp_ipv4, tcp_ipv6| Offloads {
        checksum: features & checksum != 0,
        tcp_ipv4: features & tcp_ipv4 != 0,
        tcp_ipv6: features & tcp_ipv6 != 0,
    };
    FrameFormat {
        header_bytes: if has_buffers { NET_HEADER_BYTES } else { NET_HEADER_BYTES - 2 },
        mergeable,
        transmit: offloads(feature::CSUM, feature::HOST_TSO4, feature::HOST_TSO6),
        receive: offloads(feature::GUEST_CSUM, feature::GUEST_TSO4, feature::GUEST_TSO6),
    }
}

fn number(value: u64) -> Outcome {
    Outcome::Answer(ReplyPayload::Number(value))
}

fn offered(features: u64, offered: u64) -> Result<(), CutOff> {
    match features & !offered {
        0 => Ok(()),
        features => Err(CutOff::NotOffered { features, offered }),
    }
}

/// The only descriptor of a message that needs one.
fn one(request: u32, fds: Vec<OwnedFd>) -> Result<OwnedFd, CutOff> {
    fds.into_iter().next().ok_or(CutOff::MissingDescriptor { request, fds: 0, accepted: 1 })
}

/// The descriptor of a message that says whether there is one.
fn optional(
    request: u32,
    has_descriptor: bool,
    fds: Vec<OwnedFd>,
) -> Result<Option<OwnedFd>, CutOff> {
    has_descriptor.then(|| one(request, fds)).transpose()
}
