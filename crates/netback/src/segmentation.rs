//! Merged segments, divided again: a sender may leave that to the device (TSO, USO), and the kernel
//! merges what arrives (GRO).
//!
//! Sources: Virtual I/O Device (VIRTIO) Version 1.2, section 5.1.6; RFC 9293; what Linux makes of the
//! frames in `tests/data/segments.txt`.

use crate::{
    checksum::{complement, sum},
    frame::NetHeader,
    staging::MAX_FRAME_BYTES,
    vlan,
};

/// The longest merged frame: an IP packet's length has 16 bits; an Ethernet header, two tags.
pub const MAX_MERGED_BYTES: usize = 14 + 2 * vlan::TAG_BYTES + u16::MAX as usize;

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
/// Of TCP, at byte 13.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// How a merged frame is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Where the IP header begins, and what follows it.
    ip: usize,
    transport: usize,
    headers: usize,
    /// Bytes of payload of each segment but the last.
    size: usize,
    payload: usize,
    is_ipv4: bool,
    protocol: u8,
    /// Sum of the pseudo header, without its length; None: of the addresses in the IP header.
    pseudo: Option<u64>,
}

impl Division {
    /// How this frame is to be divided; None: it is not what its header says, or there is no telling.
    #[must_use]
    pub fn of(frame: &[u8], header: NetHeader) -> Option<Self> {
        let (ip, kind) = vlan::payload(frame)?;
        let is_ipv4 = kind == IPV4;
        let Transport { at: transport, protocol, is_routed } = match kind {
            IPV4 => behind_ipv4(frame, ip)?,
            IPV6 => behind_ipv6(frame, ip)?,
            _ => return None,
        };
        let fits = match header.segments() {
            NetHeader::TCP_IPV4 => is_ipv4 && protocol == TCP,
            NetHeader::TCP_IPV6 => !is_ipv4 && protocol == TCP,
            NetHeader::UDP_SEGMENTS => protocol == UDP,
            _ => false,
        };
        // A tunnel's inner headers are not looked for.
        let is_there = !header.needs_checksum() || usize::from(header.csum_start) == transport;
        if !fits || !is_there {
            return None;
        }
        let bytes = if protocol == TCP {
            usize::from(*frame.get(transport + 12)? >> 4) * 4
        } else {
            UDP_BYTES
        };
        let (headers, size) = (transport + bytes, usize::from(header.gso_size));
        let payload = frame.len().checked_sub(headers)?;
        let is_short = protocol == TCP && bytes < 20;
        if is_short || payload == 0 || size == 0 || headers + size.min(payload) > MAX_FRAME_BYTES {
            return None;
        }
        let pseudo = if is_routed { Some(told_sum(frame, header, transport)?) } else { None };
        Some(Self { ip, transport, headers, size, payload, is_ipv4, protocol, pseudo })
    }

    /// How many segments there are, at least one.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Bytes of the longest segment's IP packet.
    pub(crate) fn packet_bytes(&self) -> usize {
        self.headers + self.size.min(self.payload) - self.ip
    }

    /// Writes a segment of the frame, the same as before, to the start of a buffer of [`MAX_FRAME_BYTES`]
    /// bytes; returns its bytes.
    #[must_use]
    pub fn write(&self, number: usize, frame: &[u8], segment: &mut [u8]) -> usize {
        let from = number * self.size;
        let payload = self.size.min(self.payload - from);
        let bytes = self.headers + payload;
        segment[..self.headers].copy_from_slice(&frame[..self.headers]);
        segment[self.headers..bytes].copy_from_slice(&frame[self.headers + from..][..payload]);
        let segment = &mut segment[..bytes];
        self.number_ip(number, segment);
        if self.protocol == TCP {
            self.number_tcp(number, segment);
        } else {
            put(segment, self.transport + 4, bytes - self.transport);
        }
        self.sum_up(segment);
        bytes
    }

    fn number_ip(&self, number: usize, segment: &mut [u8]) {
        let bytes = segment.len() - self.ip;
        if !self.is_ipv4 {
            put(segment, self.ip + 4, bytes - IPV6_BYTES);
            return;
        }
        put(segment, self.ip + 2, bytes);
        let first = usize::from(u16::from_be_bytes([segment[self.ip + 4], segment[self.ip + 5]]));
        put(segment, self.ip + 4, (first + number) & 0xffff);
        put(segment, self.ip + 10, 0);
        let header = complement(sum(&segment[self.ip..self.transport]));
        put(segment, self.ip + 10, header.into());
    }

    fn number_tcp(&self, number: usize, segment: &mut [u8]) {
        let at = self.transport + 4;
        let first =
            u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]]);
        // Sequence numbers wrap around, and a frame is shorter than 4 GiB.
        #[expect(clippy::cast_possible_truncation, reason = "shorter than 64 KiB")]
        let sequence = first.wrapping_add((number * self.size) as u32);
        segment[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
        if number > 0 {
            segment[self.transport + 13] &= !CWR;
        }
        if number + 1 < self.segments() {
            segment[self.transport + 13] &= !(FIN | PSH);
        }
    }

    /// Writes the checksum of the segment and of its pseudo header (RFC 9293, 3.1; RFC 8200, 8.1).
    fn sum_up(&self, segment: &mut [u8]) {
        let addresses = if self.is_ipv4 { 12..20 } else { 8..40 };
        let at = self.transport + if self.protocol == TCP { 16 } else { 6 };
        put(segment, at, 0);
        let of_addresses = || sum(&segment[self.ip..][addresses]) + u64::from(self.protocol);
        let pseudo =
            self.pseudo.unwrap_or_else(of_addresses) + (segment.len() - self.transport) as u64;
        let written = complement(pseudo + sum(&segment[self.transport..]));
        let none = self.protocol == UDP && written == 0;
        put(segment, at, if none { 0xffff } else { written.into() });
    }
}

fn put(segment: &mut [u8], at: usize, number: usize) {
    let number = u16::try_from(number).expect("a segment is shorter than 64 KiB");
    segment[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// What is behind an IP header and its extensions.
struct Transport {
    /// Where it begins.
    at: usize,
    protocol: u8,
    /// The packet goes to further addresses on its way, so that the last one is not in the IP header.
    is_routed: bool,
}

/// Sum of the pseudo header without its length, as the sender left it where the checksum is to be: it
/// knows the address that the packet goes to at last, of which RFC 8200, 8.1 takes the sum.
fn told_sum(frame: &[u8], header: NetHeader, transport: usize) -> Option<u64> {
    let at = transport + usize::from(header.csum_offset);
    let told = frame.get(at..at + 2).filter(|_| header.needs_checksum())?;
    let bytes = u16::try_from(frame.len() - transport).ok()?;
    // In ones' complement this takes the length away.
    Some(u64::from(u16::from_be_bytes([told[0], told[1]])) + u64::from(!bytes))
}

/// The header of TCP or UDP; fragments have none.
fn behind_ipv4(frame: &[u8], ip: usize) -> Option<Transport> {
    let header = frame.get(ip..ip + 20)?;
    let bytes = usize::from(header[0] & 0xf) * 4;
    let is_fragment = header[6] & 0x3f != 0 || header[7] != 0;
    (header[0] >> 4 == 4 && bytes >= 20 && !is_fragment).then_some(Transport {
        at: ip + bytes,
        protocol: header[9],
        is_routed: false,
    })
}

fn behind_ipv6(frame: &[u8], ip: usize) -> Option<Transport> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const DESTINATION: u8 = 60;
    let header = frame.get(ip..ip + IPV6_BYTES)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (mut at, mut kind, mut is_routed) = (ip + IPV6_BYTES, header[6], false);
    while matches!(kind, HOP_BY_HOP | ROUTING | DESTINATION) {
        let extension = frame.get(at..at + 4)?;
        is_routed |= kind == ROUTING && extension[3] > 0; // segments left
        kind = extension[0];
        at += 8 + usize::from(extension[1]) * 8;
    }
    Some(Transport { at, protocol: kind, is_routed })
}

/// A merged frame whose segments are sent one after the other.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    frame: Vec<u8>,
    bytes: usize,
    division: Option<Division>,
    next: usize,
}

impl Merged {
    /// Takes the frame at the start of a buffer, and leaves another buffer as long for it. Nothing may
    /// be left of the one before.
    pub(crate) fn begin(&mut self, frame: &mut Vec<u8>, bytes: usize, division: Division) {
        debug_assert!(self.left() == 0, "whoever takes frames takes what is left first");
        self.frame.resize(frame.len(), 0);
        std::mem::swap(&mut self.frame, frame);
        (self.bytes, self.division, self.next) = (bytes, Some(division), 0);
    }

    /// Segments that are left.
    pub(crate) fn left(&self) -> usize {
        self.division.map_or(0, |division| division.segments() - self.next)
    }

    /// Writes the next segment to the start of a buffer that holds any frame, and returns its bytes.
    pub(crate) fn next(&mut self, segment: &mut [u8]) -> Option<usize> {
        let division = self.division?;
        let bytes = division.write(self.next, &self.frame[..self.bytes], segment);
        self.next += 1;
        if self.left() == 0 {
            self.division = None;
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
