//! The traffic receiver: one program on any number of interfaces.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::PathBuf,
    ptr,
};

use libbpf_rs::{
    OpenObject,
    skel::{OpenSkel, SkelBuilder},
};

use crate::{
    Error, Result,
    error::one_line,
    histogram::{BUCKETS, Histogram},
    mapped::MappedArray,
    netns,
    skeletons::receive::{ReceiveSkel, ReceiveSkelBuilder, types},
};

/// Streams that one receiver can tell apart.
pub const MAX_STREAMS: usize = 256;
/// Flows that the table holds at most (16 bytes each).
const MAX_FLOW_SLOTS: u32 = 1 << 24;

/// What to receive, and where.
#[derive(Clone, Debug)]
pub struct ReceiverSpec {
    /// Namespace (None: the caller's) and index of each interface.
    pub interfaces: Vec<(Option<PathBuf>, u32)>,
    /// The run's mark; None takes any run's frames.
    pub cookie: Option<u16>,
    /// Flows of each stream, in the order of the generator's streams.
    pub flows: Vec<u32>,
}

/// What has arrived of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCount {
    /// Frames.
    pub received: u64,
    /// Of these, those scheduled inside the window.
    pub received_window: u64,
    /// Their bytes, with the frame check sequence.
    pub received_window_bytes: u64,
    /// RFC 4737.
    pub reordered: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames whose flow is beyond the table: not checked for order.
    pub untracked: u64,
    /// Greatest one-way delay in the window, ns.
    pub delay_max_ns: u64,
    /// Sum of the one-way delays in the window, ns.
    pub delay_sum_ns: u64,
}

/// A loaded and attached receiver; dropping it detaches.
pub struct Receiver {
    skel: ReceiveSkel<'static>,
    delays: MappedArray<u64>,
    flows: MappedArray<[u64; 2]>,
    flow_slots: usize,
    ranges: Vec<(usize, usize)>,
    streams: usize,
    native: Vec<bool>,
    links: Vec<OwnedFd>,
    // Declared last: dropped after the skeleton that borrows it.
    _object: Box<MaybeUninit<OpenObject>>,
}

impl Receiver {
    /// Loads the program and puts it on the interfaces.
    pub fn attach(spec: &ReceiverSpec) -> Result<Self> {
        let slots: u64 = spec.flows.iter().map(|&flows| u64::from(flows)).sum();
        let slots = u32::try_from(slots).ok().filter(|&slots| slots <= MAX_FLOW_SLOTS);
        let slots = slots.ok_or_else(|| Error::Spec {
            key: "flows",
            value: format!("{} streams' flows", spec.flows.len()),
            accepted: format!("{MAX_FLOW_SLOTS} flows in all"),
        })?;
        let mut object = Box::new(MaybeUninit::uninit());
        let mut skel = Self::open(&mut object, spec, slots.max(1))?;
        let mut base = 0;
        let mut ranges = Vec::with_capacity(spec.flows.len());
        if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
            for (to, flows) in bss.flow_base.iter_mut().zip(&spec.flows) {
                *to = base;
                ranges.push((base as usize, *flows as usize));
                base += flows;
            }
            // Streams that nobody announced have no place in the table.
            for to in bss.flow_base.iter_mut().skip(spec.flows.len()) {
                *to = u32::MAX >> 1;
            }
        }
        let mapping = |source: io::Error| Error::Load {
            program: "receive",
            feature: "memory-mapped BPF arrays (Linux 5.5 or later)",
            reason: source.to_string(),
        };
        let flow_slots = slots.max(1) as usize;
        let mut receiver = Self {
            delays: MappedArray::new(skel.maps.delays.as_fd(), MAX_STREAMS * BUCKETS)
                .map_err(mapping)?,
            flows: MappedArray::new(skel.maps.flows.as_fd(), flow_slots).map_err(mapping)?,
            flow_slots,
            ranges,
            skel,
            streams: spec.flows.len(),
            native: Vec::new(),
            links: Vec::new(),
            _object: object,
        };
        receiver.attach_all(spec)?;
        Ok(receiver)
    }

    fn open(
        object: &mut Box<MaybeUninit<OpenObject>>,
        spec: &ReceiverSpec,
        slots: u32,
    ) -> Result<ReceiveSkel<'static>> {
        let refuse = |error: libbpf_rs::Error| Error::Load {
            program: "receive",
            feature: "XDP and memory-mapped BPF arrays (Linux 5.5 or later)",
            reason: one_line(&error),
        };
        // SAFETY: the box is kept in `Receiver` behind the skeleton and never moves its content.
        let object: &'static mut MaybeUninit<OpenObject> =
            unsafe { &mut *ptr::from_mut(object.as_mut()) };
        let mut open = ReceiveSkelBuilder::default().open(object).map_err(refuse)?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let settings = &mut rodata.ok_or(Error::State("the program has no settings"))?.settings;
        settings.cookie = spec.cookie.unwrap_or(0);
        settings.any_cookie = u32::from(spec.cookie.is_none());
        settings.flow_slots = slots;
        open.maps.flows.set_max_entries(slots).map_err(refuse)?;
        open.load().map_err(refuse)
    }

    fn attach_all(&mut self, spec: &ReceiverSpec) -> Result<()> {
        for (path, ifindex) in &spec.interfaces {
            let program = self.skel.progs.isl_receive.as_fd().as_raw_fd();
            let (link, native) = netns::within(path.as_deref(), || {
                Ok((attach_link(program, *ifindex)?, is_native(*ifindex)))
            })?;
            self.links.push(link);
            self.native.push(native);
        }
        Ok(())
    }

    /// By interface: whether the driver runs the program (true) or the generic hook (false).
    #[must_use]
    pub fn native(&self) -> &[bool] {
        &self.native
    }

    /// Forgets everything received; call when no frames are under way.
    pub fn reset(&mut self) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref_mut();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        bss.streams = [types::isl_rx_stream::default(); MAX_STREAMS];
        bss.foreign = 0;
        self.flows.clear(self.flow_slots);
        self.delays.clear(self.streams.max(1) * BUCKETS);
        Ok(())
    }

    /// The counts of the announced streams so far.
    pub fn counts(&self) -> Result<Vec<StreamCount>> {
        let bss = self.skel.maps.bss_data.as_deref();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        // SAFETY: mapped memory that the program adds to: a volatile copy is a snapshot.
        let streams = unsafe { ptr::read_volatile(&raw const bss.streams) };
        Ok(streams[..self.streams]
            .iter()
            .map(|stream| StreamCount {
                received: stream.received,
                received_window: stream.received_window,
                received_window_bytes: stream.received_window_bytes,
                reordered: stream.reordered,
                duplicated: stream.duplicated,
                untracked: stream.untracked,
                delay_max_ns: stream.delay_max_ns,
                delay_sum_ns: stream.delay_sum_ns,
            })
            .collect())
    }

    /// Frames of a stream that its sequence numbers promise: from the first to the greatest seen
    /// in each flow. What is missing of them was lost on the way.
    pub fn expected(&self, stream: usize) -> Result<u64> {
        let no_such = Error::State("no such stream");
        let &(from, count) = self.ranges.get(stream).ok_or(no_such)?;
        let flows = self.flows.read(from..from + count).ok_or(Error::State("no such flows"))?;
        Ok(flows
            .iter()
            .map(|&[numbers, _seen]| {
                let (max, first1) = (numbers & 0xffff_ffff, numbers >> 32);
                if first1 == 0 { 0 } else { (max + 2).saturating_sub(first1) }
            })
            .sum())
    }

    /// The mark of the run that the latest frame was of, when any run's frames are taken.
    #[must_use]
    pub fn seen_cookie(&self) -> u16 {
        let cookie = self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.seen_cookie);
        u16::try_from(cookie).unwrap_or(0)
    }

    /// Frames that were not of this run; they went on to the kernel.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.foreign)
    }

    /// One-way delays of one stream in the window.
    pub fn delays(&self, stream: usize) -> Result<Histogram> {
        let range = stream * BUCKETS..(stream + 1) * BUCKETS;
        self.delays.read(range).map(Histogram::new).ok_or(Error::State("no such stream"))
    }
}

/// Puts the program on an interface of the calling thread's namespace until the link is closed.
fn attach_link(program: RawFd, ifindex: u32) -> Result<OwnedFd> {
    let index = i32::try_from(ifindex).unwrap_or(-1);
    // SAFETY: no options; the descriptor is an open program's.
    let link =
        unsafe { libbpf_sys::bpf_link_create(program, index, libbpf_sys::BPF_XDP, ptr::null()) };
    if link >= 0 {
        // SAFETY: the call has just given us this descriptor.
        return Ok(unsafe { OwnedFd::from_raw_fd(link) });
    }
    let error = io::Error::from_raw_os_error(-link);
    let reason = match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            "another XDP program is there; remove it first (ip link set dev ... xdp off)".into()
        }
        Some(libc::ENODEV | libc::EINVAL) if index <= 0 => "there is no such interface".into(),
        _ => error.to_string(),
    };
    Err(Error::Attach { interface: netns::interface_name(ifindex), reason })
}

/// Whether the interface's driver runs the program itself.
fn is_native(ifindex: u32) -> bool {
    // SAFETY: zero is a valid value of every field.
    let mut query: libbpf_sys::bpf_xdp_query_opts = unsafe { std::mem::zeroed() };
    query.sz = size_of_val(&query) as libbpf_sys::size_t;
    let index = i32::try_from(ifindex).unwrap_or(-1);
    // SAFETY: the structure lives through the call and tells its size.
    let failed = unsafe { libbpf_sys::bpf_xdp_query(index, 0, &raw mut query) };
    failed == 0 && u32::from(query.attach_mode) == libbpf_sys::XDP_ATTACHED_DRV
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run::packet_through;

    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    const COOKIE: u16 = 0x1234;

    fn receiver(cookie: Option<u16>) -> Receiver {
        Receiver::attach(&ReceiverSpec { interfaces: Vec::new(), cookie, flows: vec![4, 4] })
            .expect("loads")
    }

    /// A minimal frame as a generator sends it, sent `age_ns` ago.
    fn frame(flow: u32, seq: u32, age_ns: u64) -> Vec<u8> {
        let mut bytes = vec![0u8; 60];
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[14] = 0x45;
        bytes[23] = 17;
        bytes[42..50].copy_from_slice(&(crate::monotonic_ns() - age_ns).to_le_bytes());
        bytes[50..54].copy_from_slice(&flow.to_le_bytes());
        bytes[54..58].copy_from_slice(&seq.to_le_bytes());
        bytes[58..60].copy_from_slice(&COOKIE.to_le_bytes());
        bytes
    }

    #[test]
    fn order_is_judged_as_in_rfc_4737() {
        // (sequence numbers as they arrive, reordered, duplicated)
        let table: [(&[u32], u64, u64); 7] = [
            (&[0, 1, 2, 3], 0, 0),
            (&[0, 2, 1, 3], 1, 0),
            (&[0, 1, 1, 2], 0, 1),
            (&[5, 4, 4, 6], 1, 1),
            (&[0, 100, 1, 101], 1, 0),
            (&[u32::MAX - 1, u32::MAX, 0, 1], 0, 0),
            (&[0, 63, 0, 64, 0], 1, 1),
        ];
        for (sequence, reordered, duplicated) in table {
            let receiver = receiver(Some(COOKIE));
            for &seq in sequence {
                let packet = frame(1, seq, 0);
                assert_eq!(packet_through(&receiver.skel.progs.isl_receive, &packet).0, XDP_DROP);
            }
            let count = receiver.counts().expect("counts")[0];
            assert_eq!(count.received, sequence.len() as u64);
            if !sequence.contains(&u32::MAX) {
                let span = u64::from(sequence.iter().max().expect("some") + 1 - sequence[0]);
                assert_eq!(receiver.expected(0).expect("known"), span);
            }
            assert_eq!(
                (count.reordered, count.duplicated),
                (reordered, duplicated),
                "{sequence:?}"
            );
        }
    }

    #[test]
    fn what_is_not_ours_goes_on_to_the_kernel() {
        let good = frame(0, 0, 0);
        let with = |at: usize, bytes: &[u8]| {
            let mut packet = good.clone();
            packet[at..at + bytes.len()].copy_from_slice(bytes);
            packet
        };
        let table = [
            ("another cookie", with(58, &[0, 0])),
            ("ARP", with(12, &[0x08, 0x06])),
            ("TCP", with(23, &[6])),
            ("IPv4 options", with(14, &[0x46])),
            ("a fragment", with(20, &[0x20, 0])),
            ("cut short", good[..59].to_vec()),
            ("Ethernet alone", good[..14].to_vec()),
        ];
        let receiver = receiver(Some(COOKIE));
        for (name, packet) in &table {
            let (verdict, out) = packet_through(&receiver.skel.progs.isl_receive, packet);
            assert_eq!((verdict, &out), (XDP_PASS, packet), "{name}");
        }
        assert_eq!(receiver.foreign(), table.len() as u64);
        assert_eq!(receiver.counts().expect("counts")[0], StreamCount::default());
    }

    #[test]
    fn a_vlan_tag_is_looked_through() {
        let receiver = receiver(None);
        let mut packet = frame(0, 0, 0);
        packet.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
        assert_eq!(packet_through(&receiver.skel.progs.isl_receive, &packet).0, XDP_DROP);
    }

    #[test]
    fn windows_streams_and_delays_are_kept_apart() {
        let mut receiver = receiver(Some(COOKIE));
        let in_window = 1u32 << 23;
        for seq in 0..10 {
            packet_through(&receiver.skel.progs.isl_receive, &frame(in_window, seq, 1_000_000));
            packet_through(&receiver.skel.progs.isl_receive, &frame(1 << 24, seq, 0));
        }
        packet_through(&receiver.skel.progs.isl_receive, &frame(1 << 24 | 9, 0, 0));
        let counts = receiver.counts().expect("counts");
        assert_eq!((counts[0].received, counts[0].received_window), (10, 10));
        assert_eq!(counts[0].received_window_bytes, 640);
        assert_eq!((counts[1].received, counts[1].received_window), (11, 0));
        assert_eq!(counts[1].untracked, 1, "flow 9 of 4");
        let delays = receiver.delays(0).expect("delays");
        assert_eq!(delays.count(), 10);
        let median = delays.quantile_ns(0.5).expect("not empty");
        assert!(median >= 990_000.0, "sent 1 ms ago: {median}");
        assert_eq!(receiver.delays(1).expect("delays").count(), 0);
        receiver.reset().expect("resets");
        assert_eq!(receiver.counts().expect("counts")[0], StreamCount::default());
        assert_eq!(receiver.delays(0).expect("delays").count(), 0);
    }
}
