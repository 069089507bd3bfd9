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
/// `1 << ISL_INTERVAL_BITS`.
const POISSON_INTERVALS: usize = 1 << 12;
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

/// When the frames of a rate are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// At equal intervals.
    #[default]
    Even,
    /// As a Poisson process.
    Poisson {
        /// Of its random numbers; not 0.
        seed: u32,
    },
    /// In bursts that come at equal intervals; evenly within each.
    Bursts {
        /// How long one lasts, ns.
        on_ns: u64,
        /// From the beginning of one to that of the next, ns.
        period_ns: u64,
    },
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
    /// Whether they are ICMP echo requests in place of UDP datagrams: then the source port is their
    /// identifier, and there is no destination port.
    pub icmp: bool,
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
    /// When frames are sent; but for `Even`, the schedule has one segment of a constant rate.
    pub timing: Timing,
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

/// The rate within bursts, thousandths of a frame a second.
fn within_burst(rate_millipps: u64, on_ns: u64, period_ns: u64) -> u64 {
    let rate = u128::from(rate_millipps) * u128::from(period_ns) / u128::from(on_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The quantiles of the exponential distribution with mean 1 that a Poisson process draws from, << 16.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "quantiles of this distribution are above 0, and of so many parts below 10"
)]
pub(crate) fn poisson_intervals() -> [u32; POISSON_INTERVALS] {
    let quantile = |index: usize| -(1.0 - (index as f64 + 0.5) / POISSON_INTERVALS as f64).ln();
    let mean = (0..POISSON_INTERVALS).map(quantile).sum::<f64>() / POISSON_INTERVALS as f64;
    // The middles of equally likely parts have a mean a little below 1.
    std::array::from_fn(|index| (quantile(index) / mean * 65_536.0).round() as u32)
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
        let peak = peaks.max().unwrap_or(0);
        match self.timing {
            Timing::Bursts { on_ns, period_ns } => within_burst(peak, on_ns, period_ns),
            _ => peak,
        }
    }

    fn check(&self) -> Result<()> {
        let min = min_frame_bytes(self.dst);
        if self.src.is_ipv4() != self.dst.is_ipv4() {
            return refuse("src", &self.src, "an address of the same family as dst");
        }
        if self.fragments && !self.dst.is_ipv4() {
            return refuse("fragments", &self.dst, "an IPv4 address");
        }
        if self.fragments && self.icmp {
            return refuse("fragments", &"icmp", "fragments of UDP datagrams");
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
        let one_rate = matches!(&self.segments[..], [only]
            if only.start_rate_millipps == only.end_rate_millipps);
        match self.timing {
            Timing::Even => {}
            _ if !one_rate => return refuse("timing", &"segments", "one segment of one rate"),
            Timing::Poisson { seed: 0 } => return refuse("seed", &0, "1 or more"),
            Timing::Bursts { on_ns, period_ns } if on_ns == 0 || on_ns >= period_ns => {
                return refuse("on_ns", &on_ns, "above 0 and below period_ns");
            }
            _ => {}
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
        entry.icmp = self.icmp.into();
        entry.ip_version = if self.dst.is_ipv4() { 4 } else { 6 };
        entry.n_sizes = u8::try_from(self.sizes.len()).expect("checked above");
        for (to, size) in entry.sizes.iter_mut().zip(&self.sizes) {
            *to = size - FCS_BYTES;
        }
        entry.header = self.header();
        (entry.ip_sum, entry.pseudo_sum) = self.sums(&entry.header);
        self.fill_segments(entry);
        let first = entry.segments[..self.segments.len()]
            .iter()
            .find(|segment| segment.interval_q16_ns != 0)
            .map_or(u64::MAX >> 16, |segment| segment.start_ns);
        entry.next_q16_ns = first.saturating_add(phase_ns).min(u64::MAX >> 16) << 16;
        self.fill_timing(entry);
        Ok(())
    }

    fn fill_timing(&self, entry: &mut types::isl_stream) {
        match self.timing {
            Timing::Even => {}
            Timing::Poisson { seed } => entry.random = seed,
            Timing::Bursts { on_ns, period_ns } => {
                (entry.on_q16_ns, entry.off_q16_ns) = (on_ns << 16, (period_ns - on_ns) << 16);
                let rate = self.segments[0].start_rate_millipps;
                entry.segments[0].interval_q16_ns =
                    interval_q16_ns(within_burst(rate, on_ns, period_ns));
                // As `isl_skip_pauses()` has it: what is due after the first burst comes in a later one.
                let bursts = entry.next_q16_ns / entry.on_q16_ns;
                entry.next_q16_ns += bursts * entry.off_q16_ns;
                entry.on_end_q16_ns = entry.on_q16_ns + bursts * (period_ns << 16);
            }
        }
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

    /// What follows the IP header, by its assigned number: UDP, ICMP or `ICMPv6`.
    fn protocol(&self) -> u8 {
        match (self.icmp, self.dst.is_ipv4()) {
            (false, _) => 17,
            (true, true) => 1,
            (true, false) => 58,
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
                bytes[23] = self.protocol();
                bytes[26..30].copy_from_slice(&src.octets());
                bytes[30..34].copy_from_slice(&dst.octets());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                bytes[12..14].copy_from_slice(&0x86ddu16.to_be_bytes());
                bytes[14] = 0x60;
                bytes[20] = self.protocol();
                bytes[21] = self.hop_limit;
                bytes[22..38].copy_from_slice(&src.octets());
                bytes[38..54].copy_from_slice(&dst.octets());
            }
            _ => unreachable!("check() refused mixed families"),
        }
        bytes
    }

    /// One's complement sums of what stays the same, in memory order: (IPv4 header, pseudo header).
    fn sums(&self, header: &[u8; 64]) -> (u32, u64) {
        let sum = |bytes: &[u8]| -> u32 {
            bytes
                .chunks_exact(2)
                .map(|pair| u32::from(u16::from_ne_bytes([pair[0], pair[1]])))
                .sum()
        };
        let upper = u64::from(u16::from(self.protocol()).to_be());
        if self.dst.is_ipv4() {
            let ip = sum(&header[14..28]) + sum(&header[30..34]);
            (ip, upper + u64::from(sum(&header[26..28]) + sum(&header[30..34])))
        } else {
            (0, upper + u64::from(sum(&header[22..36]) + sum(&header[38..54])))
        }
    }
}
