//! The wire format of vhost-user, as pure functions on bytes.
//!
//! Source: QEMU's `docs/interop/vhost-user.rst`. Numbers are in the host's byte order, because both
//! ends are on one host.

use crate::error::CutOff;

/// Size of a message's header.
pub const HEADER_BYTES: usize = 12;
/// The largest payload that is accepted.
pub const MAX_PAYLOAD_BYTES: usize = 4096;
/// How many descriptors a message may have.
pub const MAX_DESCRIPTORS: usize = 8;
/// How many memory regions a guest may have: each comes with a descriptor.
pub const MAX_REGIONS: usize = MAX_DESCRIPTORS;
/// Size of the device configuration that a front-end may read.
pub const MAX_CONFIG_BYTES: usize = 256;

const VERSION: u32 = 0x1;
const FLAG_REPLY: u32 = 0x4;
const FLAG_NEED_REPLY: u32 = 0x8;
/// In the payload of the requests that set a descriptor: none comes with it.
const NO_DESCRIPTOR: u64 = 0x100;

/// The numbers of requests.
mod code {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const RESET_OWNER: u32 = 4;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_VRING_BASE: u32 = 11;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ERR: u32 = 14;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(super) const GET_QUEUE_NUM: u32 = 17;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const SEND_RARP: u32 = 19;
    pub(super) const NET_SET_MTU: u32 = 20;
    pub(super) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(super) const GET_CONFIG: u32 = 24;
    pub(super) const SET_CONFIG: u32 = 25;
    pub(super) const RESET_DEVICE: u32 = 34;
    pub(super) const SET_STATUS: u32 = 39;
    pub(super) const GET_STATUS: u32 = 40;
}

/// A message's header, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Number of the request, known or not.
    pub request: u32,
    /// The front-end waits for an acknowledgement, if that was negotiated.
    pub need_reply: bool,
    /// Size of the payload, at most [`MAX_PAYLOAD_BYTES`].
    pub payload_bytes: usize,
}

impl Header {
    /// Reads a header.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, CutOff> {
        let (request, flags, size) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 8));
        if flags & !FLAG_NEED_REPLY != VERSION {
            return Err(CutOff::Flags { request, flags });
        }
        let payload_bytes = usize::try_from(size).unwrap_or(usize::MAX);
        check_size(request, payload_bytes, 0, MAX_PAYLOAD_BYTES)?;
        Ok(Self { request, need_reply: flags & FLAG_NEED_REPLY != 0, payload_bytes })
    }
}

/// A part of a guest's memory that one file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Where the guest has it.
    pub guest_address: u64,
    /// Its size.
    pub bytes: u64,
    /// Where the front-end has it: ring addresses are of this kind.
    pub user_address: u64,
    /// Where it starts in its file.
    pub mmap_offset: u64,
}

/// Where a ring's three parts lie, as addresses of the front-end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingAddresses {
    /// The descriptor table.
    pub descriptors: u64,
    /// What the guest makes available.
    pub available: u64,
    /// What the device has used.
    pub used: u64,
}

/// A message of the front-end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it asks for.
    pub request: Request,
    /// Number of the request.
    pub code: u32,
    /// It asks for an acknowledgement.
    pub need_reply: bool,
}

/// What a front-end asks for. Rings are named by their index; each number is unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "names and fields are those of the protocol's document")]
pub enum Request {
    GetFeatures,
    SetFeatures { features: u64 },
    SetOwner,
    ResetOwner,
    SetMemTable { regions: Vec<MemoryRegion> },
    SetVringNum { index: u32, size: u32 },
    SetVringAddr { index: u32, flags: u32, addresses: RingAddresses },
    SetVringBase { index: u32, base: u32 },
    GetVringBase { index: u32 },
    SetVringKick { index: u32, has_descriptor: bool },
    SetVringCall { index: u32, has_descriptor: bool },
    SetVringErr { index: u32, has_descriptor: bool },
    SetVringEnable { index: u32, enabled: bool },
    GetProtocolFeatures,
    SetProtocolFeatures { features: u64 },
    GetQueueNum,
    SendRarp { mac: u64 },
    NetSetMtu { mtu: u64 },
    SetBackendReqFd,
    GetConfig { offset: u32, bytes: u32, flags: u32 },
    SetConfig,
    ResetDevice,
    GetStatus,
    SetStatus { status: u64 },
}

impl Message {
    /// Reads a payload of as many bytes as the header says.
    pub fn parse(header: Header, payload: &[u8]) -> Result<Self, CutOff> {
        let Header { request: code, need_reply, .. } = header;
        Ok(Self { request: parse_request(code, payload)?, code, need_reply })
    }

    /// How many descriptors belong to it.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        match &self.request {
            Request::SetMemTable { regions } => regions.len(),
            Request::SetVringKick { has_descriptor, .. }
            | Request::SetVringCall { has_descriptor, .. }
            | Request::SetVringErr { has_descriptor, .. } => usize::from(*has_descriptor),
            Request::SetBackendReqFd => 1,
            _ => 0,
        }
    }
}

fn parse_request(code: u32, payload: &[u8]) -> Result<Request, CutOff> {
    let empty = |request| exactly(code, payload, 0).map(|()| request);
    let number = || exactly(code, payload, 8).map(|()| u64_at(payload, 0));
    let state = || exactly(code, payload, 8).map(|()| (u32_at(payload, 0), u32_at(payload, 4)));
    let descriptor = || {
        let value = number()?;
        // Bits 0 to 7 are the ring's index, and 8 bits fit.
        Ok::<_, CutOff>(((value & 0xff) as u32, value & NO_DESCRIPTOR == 0))
    };
    Ok(match code {
        code::GET_FEATURES => empty(Request::GetFeatures)?,
        code::SET_FEATURES => Request::SetFeatures { features: number()? },
        code::SET_OWNER => empty(Request::SetOwner)?,
        code::RESET_OWNER => empty(Request::ResetOwner)?,
        code::SET_MEM_TABLE => parse_mem_table(payload)?,
        code::SET_VRING_NUM => {
            let (index, size) = state()?;
            Request::SetVringNum { index, size }
        }
        code::SET_VRING_ADDR => parse_ring_addresses(payload)?,
        code::SET_VRING_BASE => {
            let (index, base) = state()?;
            Request::SetVringBase { index, base }
        }
        code::GET_VRING_BASE => Request::GetVringBase { index: state()?.0 },
        code::SET_VRING_KICK => {
            let (index, has_descriptor) = descriptor()?;
            Request::SetVringKick { index, has_descriptor }
        }
        code::SET_VRING_CALL => {
            let (index, has_descriptor) = descriptor()?;
            Request::SetVringCall { index, has_descriptor }
        }
        code::SET_VRING_ERR => {
            let (index, has_descriptor) = descriptor()?;
            Request::SetVringErr { index, has_descriptor }
        }
        code::SET_VRING_ENABLE => {
            let (index, enabled) = state()?;
            Request::SetVringEnable { index, enabled: enabled != 0 }
        }
        code::GET_PROTOCOL_FEATURES => empty(Request::GetProtocolFeatures)?,
        code::SET_PROTOCOL_FEATURES => Request::SetProtocolFeatures { features: number()? },
        code::GET_QUEUE_NUM => empty(Request::GetQueueNum)?,
        code::SEND_RARP => Request::SendRarp { mac: number()? },
        code::NET_SET_MTU => Request::NetSetMtu { mtu: number()? },
        code::SET_BACKEND_REQ_FD => empty(Request::SetBackendReqFd)?,
        code::GET_CONFIG | code::SET_CONFIG => parse_config(code, payload)?,
        code::RESET_DEVICE => empty(Request::ResetDevice)?,
        code::GET_STATUS => empty(Request::GetStatus)?,
        code::SET_STATUS => Request::SetStatus { status: number()? },
        request => return Err(CutOff::UnknownRequest { request }),
    })
}

/// Bytes after the last region are skipped: User-Mode Linux always sends space for two regions.
fn parse_mem_table(payload: &[u8]) -> Result<Request, CutOff> {
    const REGION_BYTES: usize = 32;
    check_size(code::SET_MEM_TABLE, payload.len(), 8, MAX_PAYLOAD_BYTES)?;
    let announced = u32_at(payload, 0);
    let count = usize::try_from(announced).unwrap_or(usize::MAX);
    if count == 0 || count > MAX_REGIONS {
        return Err(CutOff::Regions { regions: announced, limit: MAX_REGIONS });
    }
    let needed_bytes = 8 + count * REGION_BYTES;
    check_size(code::SET_MEM_TABLE, payload.len(), needed_bytes, MAX_PAYLOAD_BYTES)?;
    let regions = payload[8..needed_bytes]
        .chunks_exact(REGION_BYTES)
        .map(|region| MemoryRegion {
            guest_address: u64_at(region, 0),
            bytes: u64_at(region, 8),
            user_address: u64_at(region, 16),
            mmap_offset: u64_at(region, 24),
        })
        .collect();
    Ok(Request::SetMemTable { regions })
}

fn parse_ring_addresses(payload: &[u8]) -> Result<Request, CutOff> {
    exactly(code::SET_VRING_ADDR, payload, 40)?;
    Ok(Request::SetVringAddr {
        index: u32_at(payload, 0),
        flags: u32_at(payload, 4),
        addresses: RingAddresses {
            descriptors: u64_at(payload, 8),
            used: u64_at(payload, 16),
            available: u64_at(payload, 24),
        },
    })
}

fn parse_config(code: u32, payload: &[u8]) -> Result<Request, CutOff> {
    const CONFIG_HEADER_BYTES: usize = 12;
    let max_bytes = CONFIG_HEADER_BYTES + MAX_CONFIG_BYTES;
    check_size(code, payload.len(), CONFIG_HEADER_BYTES, max_bytes)?;
    let (offset, bytes, flags) = (u32_at(payload, 0), u32_at(payload, 4), u32_at(payload, 8));
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    let end = usize::try_from(offset).unwrap_or(usize::MAX).saturating_add(size);
    if size != payload.len() - CONFIG_HEADER_BYTES || end > MAX_CONFIG_BYTES {
        return Err(CutOff::PayloadSize {
            request: code,
            bytes: end.saturating_add(CONFIG_HEADER_BYTES),
            min_bytes: CONFIG_HEADER_BYTES,
            max_bytes,
        });
    }
    if code == code::SET_CONFIG {
        return Ok(Request::SetConfig);
    }
    Ok(Request::GetConfig { offset, bytes, flags })
}

/// An answer to the front-end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Number of the request that it answers.
    pub code: u32,
    /// What it says.
    pub payload: ReplyPayload,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyPayload {
    /// A number; of an acknowledgement, 0 if the request was carried out.
    Number(u64),
    /// Where a ring was stopped.
    RingBase {
        /// The ring.
        index: u32,
        /// The next chain it would have taken.
        base: u32,
    },
    /// Part of the device's configuration.
    Config {
        /// Where it starts.
        offset: u32,
        /// As the request had them.
        flags: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

impl Reply {
    /// Appends it in wire format.
    pub fn write_to(&self, wire: &mut Vec<u8>) {
        let payload_bytes = match &self.payload {
            ReplyPayload::Number(_) | ReplyPayload::RingBase { .. } => 8,
            ReplyPayload::Config { bytes, .. } => 12 + config_size(bytes),
        };
        wire.extend_from_slice(&self.code.to_ne_bytes());
        wire.extend_from_slice(&(VERSION | FLAG_REPLY).to_ne_bytes());
        wire.extend_from_slice(&payload_bytes.to_ne_bytes());
        match &self.payload {
            ReplyPayload::Number(number) => wire.extend_from_slice(&number.to_ne_bytes()),
            ReplyPayload::RingBase { index, base } => {
                wire.extend_from_slice(&index.to_ne_bytes());
                wire.extend_from_slice(&base.to_ne_bytes());
            }
            ReplyPayload::Config { offset, flags, bytes } => {
                wire.extend_from_slice(&offset.to_ne_bytes());
                wire.extend_from_slice(&config_size(bytes).to_ne_bytes());
                wire.extend_from_slice(&flags.to_ne_bytes());
                wire.extend_from_slice(bytes);
            }
        }
    }
}

fn config_size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("at most 256 bytes, checked when the request was read")
}

fn check_size(
    request: u32,
    bytes: usize,
    min_bytes: usize,
    max_bytes: usize,
) -> Result<(), CutOff> {
    if (min_bytes..=max_bytes).contains(&bytes) {
        Ok(())
    } else {
        Err(CutOff::PayloadSize { request, bytes, min_bytes, max_bytes })
    }
}

fn exactly(request: u32, payload: &[u8], bytes: usize) -> Result<(), CutOff> {
    check_size(request, payload.len(), bytes, bytes)
}

/// The caller has checked the size.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// As [`u32_at`].
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
