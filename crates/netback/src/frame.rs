//! Ethernet frames in a guest's buffers, behind the header of virtio-net.
//!
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 5.1.6.

use crate::{
    chain::Chain, error::CutOff, queue::Queue, segmentation::MAX_MERGED_BYTES,
    staging::MAX_FRAME_BYTES, vlan,
};

/// Size of the largest header, `struct virtio_net_hdr_v1`.
pub const NET_HEADER_BYTES: usize = 12;
/// Size of an Ethernet header: no frame is shorter.
pub const MIN_FRAME_BYTES: usize = 14;

/// Descriptors that a received frame may lie in. Merged segments lie in 43 buffers of a Linux guest, each of
/// one descriptor; a guest whose buffers hold a few bytes each would cost others' time with every frame.
const MAX_FRAME_DESCRIPTORS: u32 = 256;

/// What stands before each frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are those of struct virtio_net_hdr_v1")]
pub struct NetHeader {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
    pub num_buffers: u16,
}

impl NetHeader {
    /// Reads a header.
    #[must_use]
    pub fn parse(bytes: &[u8; NET_HEADER_BYTES]) -> Self {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
            num_buffers: word(10),
        }
    }

    /// Its bytes. Without `VERSION_1` and `MRG_RXBUF` the last two are left out.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; NET_HEADER_BYTES] {
        let mut bytes = [0; NET_HEADER_BYTES];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words =
            [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset, self.num_buffers];
        for (target, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Nothing is left to do.
    pub const NONE: Self = Self {
        flags: 0,
        gso_type: 0,
        hdr_len: 0,
        gso_size: 0,
        csum_start: 0,
        csum_offset: 0,
        num_buffers: 0,
    };
    /// In `gso_type`: segments of TCP over IPv4.
    pub const TCP_IPV4: u8 = 1;
    /// In `gso_type`: segments of TCP over IPv6.
    pub const TCP_IPV6: u8 = 4;
    /// In `gso_type`: datagrams of UDP, each of which is a segment.
    pub const UDP_SEGMENTS: u8 = 5;

    /// The sender leaves work to the device: a checksum or segmentation.
    #[must_use]
    pub fn asks_for_offload(&self) -> bool {
        self.needs_checksum() || self.is_merged()
    }

    /// The sender leaves a checksum to the device.
    #[must_use]
    pub fn needs_checksum(&self) -> bool {
        const NEEDS_CSUM: u8 = 1;
        self.flags & NEEDS_CSUM != 0
    }

    /// Whether the checksum that is left to do begins behind this frame's addresses, tags and type, and lies
    /// within the frame: elsewhere it would change where the frame goes, or whom it is from.
    pub(crate) fn sums_up_payload(&self, frame: &[u8]) -> bool {
        let (start, offset) = (usize::from(self.csum_start), usize::from(self.csum_offset));
        vlan::payload(frame).is_some_and(|(at, _)| start >= at) && start + offset + 2 <= frame.len()
    }

    /// The frame is to be divided into segments.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        self.gso_type != 0
    }

    /// What its segments are: [`NetHeader::TCP_IPV4`] and so on, whether or not the first one is to
    /// tell of congestion (`VIRTIO_NET_HDR_GSO_ECN`).
    pub(crate) fn segments(&self) -> u8 {
        const ECN: u8 = 0x80;
        self.gso_type & !ECN
    }

    /// The header of the same frame when a tag was put in before the IP header.
    pub(crate) fn tagged(self) -> Self {
        let tag = u16::try_from(vlan::TAG_BYTES).expect("4");
        let moved = |at: u16| if at == 0 { 0 } else { at.saturating_add(tag) };
        Self { hdr_len: moved(self.hdr_len), csum_start: moved(self.csum_start), ..self }
    }

    /// The header of the same frame when a tag was taken out.
    pub(crate) fn untagged(self) -> Self {
        let tag = u16::try_from(vlan::TAG_BYTES).expect("4");
        let moved = |at: u16| at.saturating_sub(tag);
        Self { hdr_len: moved(self.hdr_len), csum_start: moved(self.csum_start), ..self }
    }
}

/// Work on a frame that its sender may leave to others, as negotiated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Checksums (`CSUM`, `GUEST_CSUM`).
    pub checksum: bool,
    /// Segmentation of TCP over IPv4 (`HOST_TSO4`, `GUEST_TSO4`).
    pub tcp_ipv4: bool,
    /// Segmentation of TCP over IPv6 (`HOST_TSO6`, `GUEST_TSO6`).
    pub tcp_ipv6: bool,
}

impl Offloads {
    /// Whether a frame with this header may be handed over as it is.
    #[must_use]
    pub fn cover(&self, header: &NetHeader) -> bool {
        let segments = match header.gso_type {
            0 => true,
            NetHeader::TCP_IPV4 => self.tcp_ipv4,
            NetHeader::TCP_IPV6 => self.tcp_ipv6,
            _ => false,
        };
        segments && (self.checksum || !header.needs_checksum())
    }
}

/// How frames lie in a guest's buffers, as negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFormat {
    /// Size of the header before each frame: 12, or 10 for a guest of before `VERSION_1`.
    pub header_bytes: usize,
    /// A received frame may continue in further buffers (`MRG_RXBUF`).
    pub mergeable: bool,
    /// What the guest may leave to the device.
    pub transmit: Offloads,
    /// What the device may leave to the guest.
    pub receive: Offloads,
}

impl FrameFormat {
    /// Without offloads.
    #[must_use]
    pub const fn new(header_bytes: usize, mergeable: bool) -> Self {
        const NONE: Offloads = Offloads { checksum: false, tcp_ipv4: false, tcp_ipv6: false };
        Self { header_bytes, mergeable, transmit: NONE, receive: NONE }
    }
}

/// A frame that a guest transmitted. All but `Frame` are drops, to be counted; the buffer is given
/// back in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transmitted {
    /// So many bytes were copied; the header says what is left to do, or nothing.
    Frame(usize, NetHeader),
    /// Shorter than an Ethernet header.
    TooShort {
        /// Size of the buffer, with the header.
        bytes: usize,
    },
    /// Longer than the caller's buffer.
    TooLong {
        /// Size of the frame.
        bytes: usize,
    },
    /// It needs an offload that was not offered.
    NeedsOffload,
}

/// What became of a frame for a guest. All but `Written` leave the guest's buffers available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It lies in so many buffers, which are pushed and not yet published.
    Written {
        /// How many.
        buffers: u16,
    },
    /// The guest has too few buffers available.
    Full,
    /// No buffers of this guest would hold it, or it would lie in too many.
    TooLong,
    /// The ring does not run.
    Stopped,
}

/// Copies the frame of a transmit chain, without its header, to the start of `frame`.
#[inline]
pub fn copy_out(
    chain: &Chain,
    format: FrameFormat,
    frame: &mut [u8],
) -> Result<Transmitted, CutOff> {
    let wrong = chain.writable_bytes();
    if wrong > 0 {
        return Err(CutOff::Direction { queue: "transmit", bytes: wrong });
    }
    let bytes = chain.readable_bytes();
    if bytes < format.header_bytes + MIN_FRAME_BYTES {
        return Ok(Transmitted::TooShort { bytes });
    }
    let frame_bytes = bytes - format.header_bytes;
    let whole = if format.header_bytes == NET_HEADER_BYTES { chain.read_first() } else { None };
    let header = NetHeader::parse(&whole.unwrap_or_else(|| {
        let mut header = [0; NET_HEADER_BYTES];
        chain.read(0, &mut header[..format.header_bytes]);
        header
    }));
    let (header, longest) = if header.asks_for_offload() {
        if !format.transmit.cover(&header) {
            return Ok(Transmitted::NeedsOffload);
        }
        (header, if header.is_merged() { MAX_MERGED_BYTES } else { MAX_FRAME_BYTES })
    } else {
        // What else it says is of no use to anybody.
        (NetHeader::NONE, MAX_FRAME_BYTES)
    };
    if frame_bytes > frame.len().min(longest) {
        return Ok(Transmitted::TooLong { bytes: frame_bytes });
    }
    Ok(Transmitted::Frame(chain.read(format.header_bytes, &mut frame[..frame_bytes]), header))
}

/// Writes frames into receive buffers. It keeps memory that would be allocated per frame otherwise.
#[derive(Debug, Default)]
pub struct FrameWriter {
    first: Chain,
    further: Chain,
    /// Heads of the buffers, and how much was written into each.
    filled: Vec<(u16, u32)>,
}

impl FrameWriter {
    /// A writer that holds no guest's memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a frame behind its header into one receive buffer or, where that was negotiated,
    /// several. The caller publishes, and has looked whether the guest does what the header leaves to
    /// it.
    pub fn deliver(
        &mut self,
        queue: &mut Queue,
        format: FrameFormat,
        frame: &[u8],
        header: NetHeader,
    ) -> Result<Delivered, CutOff> {
        let header_bytes = format.header_bytes;
        self.filled.clear();
        if queue.lacks(frame.len()) {
            return Ok(Delivered::Full);
        }
        if !queue.pop(&mut self.first)? {
            queue.note_lack(frame.len());
            return Ok(Delivered::Full);
        }
        let space = receive_bytes(&self.first, header_bytes)? - header_bytes;
        let (now, mut rest) = frame.split_at(space.min(frame.len()));
        let written = self.first.write(header_bytes, now);
        self.fill(self.first.head(), header_bytes + written);
        let (mut buffers, mut descriptors) = (1, self.first.descriptors);
        while !rest.is_empty() {
            // Nothing was pushed, so giving back what was popped leaves all as it was.
            let are_too_many = buffers >= queue.size() || descriptors > MAX_FRAME_DESCRIPTORS;
            if !format.mergeable || are_too_many {
                queue.unpop(buffers);
                return Ok(Delivered::TooLong);
            }
            if !queue.pop(&mut self.further)? {
                queue.note_lack(frame.len());
                queue.unpop(buffers);
                return Ok(Delivered::Full);
            }
            descriptors += self.further.descriptors;
            let space = receive_bytes(&self.further, header_bytes)?;
            let (now, later) = rest.split_at(space.min(rest.len()));
            let written = self.further.write(0, now);
            self.fill(self.further.head(), written);
            rest = later;
            buffers += 1;
        }
        let header = NetHeader { num_buffers: buffers, ..header }.to_bytes();
        if header_bytes < NET_HEADER_BYTES || !self.first.write_first(header) {
            let _ = self.first.write(0, &header[..header_bytes]);
        }
        for &(head, bytes) in &self.filled {
            queue.push_used(head, bytes);
        }
        Ok(Delivered::Written { buffers })
    }

    fn fill(&mut self, head: u16, bytes: usize) {
        let bytes = u32::try_from(bytes).expect("a frame is far shorter than 4 GiB");
        self.filled.push((head, bytes));
    }
}

/// How much a receive buffer holds: the header at least, even if it is not the frame's first one.
fn receive_bytes(chain: &Chain, header_bytes: usize) -> Result<usize, CutOff> {
    let wrong = chain.readable_bytes();
    if wrong > 0 {
        return Err(CutOff::Direction { queue: "receive", bytes: wrong });
    }
    let bytes = chain.writable_bytes();
    if bytes < header_bytes {
        return Err(CutOff::ReceiveBuffer { bytes, min_bytes: header_bytes });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_bytes_lie_where_the_specification_has_them() {
        let bytes = [1, 2, 3, 0, 4, 0, 5, 0, 6, 0, 7, 1];
        let header = NetHeader {
            flags: 1,
            gso_type: 2,
            hdr_len: 3,
            gso_size: 4,
            csum_start: 5,
            csum_offset: 6,
            num_buffers: 0x107,
        };
        assert_eq!(NetHeader::parse(&bytes), header);
        assert_eq!(header.to_bytes(), bytes);
    }

    #[test]
    fn what_was_negotiated_covers_what_it_says() {
        let header = |flags, gso_type| NetHeader { flags, gso_type, ..NetHeader::NONE };
        let none = Offloads::default();
        let checksum = Offloads { checksum: true, ..none };
        let ipv4 = Offloads { tcp_ipv4: true, ..checksum };
        let all = Offloads { tcp_ipv6: true, ..ipv4 };
        let covered = |flags, gso_type| {
            [none, checksum, ipv4, all].map(|one| one.cover(&header(flags, gso_type)))
        };
        assert_eq!(covered(0, 0), [true; 4]);
        assert_eq!(covered(1, 0), [false, true, true, true]);
        assert_eq!(covered(1, NetHeader::TCP_IPV4), [false, false, true, true]);
        assert_eq!(covered(1, NetHeader::TCP_IPV6), [false, false, false, true]);
        for unknown in [3, NetHeader::UDP_SEGMENTS, 0x81, 0x84] {
            assert_eq!(covered(1, unknown), [false; 4], "{unknown}");
        }
    }

    #[test]
    fn a_checksum_begins_behind_all_tags_and_ends_within_the_frame() {
        let sums = |csum_start, csum_offset, frame: &[u8]| {
            NetHeader { flags: 1, csum_start, csum_offset, ..NetHeader::NONE }
                .sums_up_payload(frame)
        };
        let plain = [&[0; 12][..], &[8, 0], &[0; 46]].concat();
        assert!(sums(14, 0, &plain) && sums(34, 16, &plain) && sums(14, 44, &plain));
        for (start, offset) in
            [(0, 14), (0, 10), (13, 16), (14, 45), (58, 1), (59, 0), (14, 0xffff)]
        {
            assert!(!sums(start, offset, &plain), "{start} {offset}");
        }
        let tagged = [&[0; 12][..], &[0x81, 0, 0, 7, 8, 0], &[0; 42]].concat();
        assert!(sums(18, 0, &tagged) && !sums(17, 0, &tagged) && !sums(14, 4, &tagged));
        assert!(!sums(14, 0, &tagged[..15]), "its tag is not whole");
    }

    #[test]
    fn a_tag_moves_the_offsets() {
        let header = NetHeader { hdr_len: 66, csum_start: 34, csum_offset: 16, ..NetHeader::NONE };
        let tagged = NetHeader { hdr_len: 70, csum_start: 38, ..header };
        assert_eq!((header.tagged(), tagged.untagged()), (tagged, header));
        assert_eq!(NetHeader::NONE.tagged(), NetHeader::NONE);
    }

    #[test]
    fn offloads_are_recognised() {
        assert!(!NetHeader::default().asks_for_offload());
        assert!(NetHeader { flags: 1, ..NetHeader::default() }.asks_for_offload());
        assert!(!NetHeader { flags: 2, ..NetHeader::default() }.asks_for_offload(), "checked");
        assert!(NetHeader { gso_type: 1, ..NetHeader::default() }.asks_for_offload());
    }
}
