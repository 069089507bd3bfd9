//! What a stream of frames looks like, and its translation into what the generator program reads.

use std::net::IpAddr;

use isolane_histogram::BUCKETS;

use crate::{Error, Result, skeletons::generate::types};

/// Ethernet's frame check sequence: counted in frame sizes, not handed to drivers.
pub const FCS_BYTES: u16 = 4;
/// Bytes that the signature takes (`struct isl_signature`).
const SIGNATURE_BYTES: u16 = 18;
const ETHERNET_BYTES: u16 = 14;
const MAX_FRAME_BYTES: u16 = 1518;
/// Streams that one generator sends and one receiver tells apart: `ISL_MAX_STREAMS`.
pub const MAX_STREAMS: usize = 256;
/// `ISL_MAX_SIZES`.
const MAX_SIZES: usize = 16;
/// `ISL_MAX_SEGMENTS`.
const MAX_SEGMENTS: usize = 64;
/// What `ISL_FLOW_MASK` has room for.
const MAX_FLOWS: u32 = 1 << 23;
/// `ISL_FROM_RATES`: the program works the interval out from the rates.
const FROM_RATES: u64 = u64::MAX;

/// Flags of an IPv4 header, in the byte that they share with the fragment's offset.
const DO_NOT_FRAGMENT: u8 = 0x40;
const MORE_FRAGMENTS: u8 = 0x20;
/// What hosts set, as Linux does.
pub const HOP_LIMIT: u8 = 64;

/// The numbers above are those of `bpf/include/intf.h`, or this does not compile.
const _: fn(types::isl_stream) -> ([u16; MAX_SIZES], [types::isl_segment; MAX_SEGMENTS]) =
    |stream| (stream.sizes, stream.segments);
const _: fn(types::bss) -> ([types::isl_stream; MAX_STREAMS], [u64; MAX_STREAMS * BUCKETS]) =
    |bss| (bss.streams, bss.lateness);

/// A stretch of a schedule; the rate goes linearly from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// How long, ns.
    pub duration_ns: u64,
    /// Rate at the start, thousandths of a frame a second.
    pub start_rate_millipps: u64,
    /// Rate at the end, thousandths of a frame a second.
    pub end_rate_millipps: u64,
}

/// One stream: frames to one interface at a scheduled rate, in round robin over its flows.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    /// Interface in the generator's namespace.
    pub ifindex: u32,
    /// Source MAC.
    pub src_mac: [u8; 6],
    /// Destination MAC: the router's (or the first hop's).
    pub dst_mac: [u8; 6],
    /// First source address.
    pub src: IpAddr,
    /// How many consecutive source addresses the flows are spread over.
    pub src_count: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Whether each frame is the first fragment of a datagram; IPv4 only.
    pub fragments: bool,
    /// First UDP source port; flows use up to 50,000 of them before the next destination port.
    pub first_sport: u16,
    /// First UDP destination port.
    pub first_dport: u16,
    /// Number of flows.
    pub flows: u32,
    /// Frame sizes in the order of sending, with the frame check sequence.
    pub sizes: Vec<u16>,
    /// The schedule.
    pub segments: Vec<Segment>,
}

/// The shortest frame that holds the headers and the signature.
#[must_use]
pub fn min_frame_bytes(dst: IpAddr) -> u16 {
    let ip = if dst.is_ipv4() { 20 } else { 40 };
    (ETHERNET_BYTES + ip + 8 + SIGNATURE_BYTES + FCS_BYTES).max(64)
}

/// Time between two frames at a constant rate, ns << 16; 0 for no frames.
#[must_use]
pub fn interval_q16_ns(rate_millipps: u64) -> u64 {
    if rate_millipps == 0 {
        return 0;
    }
    u64::try_from((1_000_000_000_000u128 << 16) / u128::from(rate_millipps)).unwrap_or(u64::MAX - 1)
}

fn refuse<T>(key: &'static str, value: &impl ToString, accepted: &str) -> Result<T> {
    Err(Error::Spec { key, value: value.to_string(), accepted: accepted.to_string() })
}

impl StreamSpec {
    /// The highest rate of the schedule, thousandths of a frame a second.
    pub(crate) fn peak_rate_millipps(&self) -> u64 {
        let peaks = self
            .segments
            .iter()
            .map(|segment| segment.start_rate_millipps.max(segment.end_rate_millipps));
        peaks.max().unwrap_or(0)
    }

    fn check(&self) -> Result<()> {
        let min = min_frame_bytes(self.dst);
        if self.src.is_ipv4() != self.dst.is_ipv4() {
            return refuse("src", &self.src, "an address of the same family as dst");
        }
        if self.fragments && !self.dst.is_ipv4() {
            return refuse("fragments", &self.dst, "an IPv4 address");
        }
        for &size in &self.sizes {
            if !(min..=MAX_FRAME_BYTES).contains(&size) {
                return refuse("frame_size", &size, &format!("{min} to {MAX_FRAME_BYTES} bytes"));
            }
        }
        if self.sizes.is_empty() || self.sizes.len() > MAX_SIZES {
            return refuse("sizes", &self.sizes.len(), &format!("1 to {MAX_SIZES} sizes"));
        }
        if self.segments.is_empty() || self.segments.len() > MAX_SEGMENTS {
            return refuse(
                "segments",
                &self.segments.len(),
                &format!("1 to {MAX_SEGMENTS} segments"),
            );
        }
        if self.flows == 0 || self.flows > MAX_FLOWS {
            return refuse("flows", &self.flows, &format!("1 to {MAX_FLOWS}"));
        }
        if self.src_count == 0 {
            return refuse("src_count", &self.src_count, "1 or more");
        }
        Ok(())
    }

    /// Fills the program's entry for this stream; its schedule begins `phase_ns` after the start.
    pub(crate) fn fill(&self, entry: &mut types::isl_stream, phase_ns: u64) -> Result<()> {
        self.check()?;
        *entry = types::isl_stream::default();
        entry.flows = self.flows;
        entry.first_sport = self.first_sport;
        entry.first_dport = self.first_dport;
        entry.sport_count = u16::try_from(self.flows.min(50_000)).expect("at most 50,000");
        entry.src_count = self.src_count;
        entry.ip_version = if self.dst.is_ipv4() { 4 } else { 6 };
        entry.n_sizes = u8::try_from(self.sizes.len()).expect("checked above");
        for (to, size) in entry.sizes.iter_mut().zip(&self.sizes) {
            *to = size - FCS_BYTES;
        }
        entry.header = self.header();
        (entry.ip_sum, entry.udp_sum) = self.sums(&entry.header);
        self.fill_segments(entry);
        let first = entry.segments[..self.segments.len()]
            .iter()
            .find(|segment| segment.interval_q16_ns != 0)
            .map_or(u64::MAX >> 16, |segment| segment.start_ns);
        entry.next_q16_ns = first.saturating_add(phase_ns).min(u64::MAX >> 16) << 16;
        Ok(())
    }

    fn fill_segments(&self, entry: &mut types::isl_stream) {
        entry.n_segments = u16::try_from(self.segments.len()).expect("checked above");
        let mut at_ns = 0;
        for (to, segment) in entry.segments.iter_mut().zip(&self.segments) {
            to.start_ns = at_ns;
            at_ns = at_ns.saturating_add(segment.duration_ns);
            to.end_ns = at_ns;
            to.start_rate_millipps = segment.start_rate_millipps;
            to.end_rate_millipps = segment.end_rate_millipps;
            to.interval_q16_ns = if segment.start_rate_millipps == segment.end_rate_millipps {
                interval_q16_ns(segment.start_rate_millipps)
            } else {
                FROM_RATES
            };
        }
    }

    /// Ethernet and IP headers, with zeros where the program writes.
    fn header(&self) -> [u8; 64] {
        let mut bytes = [0u8; 64];
        bytes[0..6].copy_from_slice(&self.dst_mac);
        bytes[6..12].copy_from_slice(&self.src_mac);
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                bytes[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
                bytes[14] = 0x45;
                bytes[20] = if self.fragments { MORE_FRAGMENTS } else { DO_NOT_FRAGMENT };
                bytes[22] = self.hop_limit;
                bytes[23] = 17; // UDP
                bytes[26..30].copy_from_slice(&src.octets());
                bytes[30..34].copy_from_slice(&dst.octets());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                bytes[12..14].copy_from_slice(&0x86ddu16.to_be_bytes());
                bytes[14] = 0x60;
                bytes[20] = 17; // UDP
                bytes[21] = self.hop_limit;
                bytes[22..38].copy_from_slice(&src.octets());
                bytes[38..54].copy_from_slice(&dst.octets());
            }
            _ => unreachable!("check() refused mixed families"),
        }
        bytes
    }

    /// One's complement sums of what stays the same, in memory order: (IPv4 header, UDP).
    fn sums(&self, header: &[u8; 64]) -> (u32, u64) {
        let sum = |bytes: &[u8]| -> u32 {
            bytes
                .chunks_exact(2)
                .map(|pair| u32::from(u16::from_ne_bytes([pair[0], pair[1]])))
                .sum()
        };
        let udp = u64::from(17u16.to_be());
        if self.dst.is_ipv4() {
            let ip = sum(&header[14..28]) + sum(&header[30..34]);
            (ip, udp + u64::from(sum(&header[26..28]) + sum(&header[30..34])))
        } else {
            (0, udp + u64::from(sum(&header[22..36]) + sum(&header[38..54])))
        }
    }
}
