//! The traffic receiver: one program on any number of interfaces.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    ptr,
};

use isolane_histogram::{BUCKETS, COARSE_BUCKETS, Coarse};

use crate::{
    Error, Histogram, Result,
    load::{Family, Loaded, present},
    mapped::MappedArray,
    netns, series,
    skeletons::receive::{ReceiveSkel, ReceiveSkelBuilder, types},
    stream::MAX_STREAMS,
    xdp,
};

const FAMILY: Family =
    Family { program: "receive", feature: "XDP and memory-mapped BPF arrays (Linux 5.5 or later)" };
/// Flows that the table holds at most (16 bytes each).
const MAX_FLOW_SLOTS: u32 = 1 << 24;

/// These numbers are those of `bpf/include/intf.h`, or this does not compile.
const _: fn(types::bss) -> [types::isl_rx_stream; MAX_STREAMS] = |bss| bss.streams;

/// An interface to receive on.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its namespace; None: the caller's.
    pub netns: Option<PathBuf>,
    /// Its index there.
    pub ifindex: u32,
}

/// What to receive, and where.
#[derive(Clone, Debug)]
pub struct ReceiverSpec {
    /// Where.
    pub interfaces: Vec<Interface>,
    /// The run's mark; None takes any run's frames.
    pub cookie: Option<u16>,
    /// Flows of each stream, in the order of the generator's streams.
    pub flows: Vec<u32>,
    /// How long a trial's time series lasts, ns; 0: no series.
    pub series_ns: u64,
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
    /// Frames of the window that arrived before they were sent: the clocks differ. They are not among
    /// the delays.
    pub negative: u64,
    /// Longest one-way delay since departure in the window, ns.
    pub delay_max_ns: u64,
    /// Sum of these delays, ns.
    pub delay_sum_ns: u64,
    /// The same since the frames were due.
    pub due_max_ns: u64,
    /// Sum of these delays, ns.
    pub due_sum_ns: u64,
}

/// One stream's arrivals over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSeries {
    /// Frames that arrived, by bin.
    pub received: Vec<u64>,
    /// The 99th percentile of their delays, ns, within 6.3 %; None for an empty bin.
    pub delay_p99_ns: Vec<Option<u64>>,
}

/// A loaded and attached receiver; dropping it detaches.
pub struct Receiver {
    skel: Loaded<ReceiveSkel<'static>>,
    delays: MappedArray<u64>,
    due_delays: MappedArray<u64>,
    flows: MappedArray<[u64; 2]>,
    series: MappedArray<types::isl_rx_bin>,
    gaps: MappedArray<types::isl_rx_gaps>,
    series_ns: u64,
    bin_ns: u64,
    flow_slots: usize,
    /// By announced stream: its part of the table of flows.
    ranges: Vec<Range<usize>>,
    native: Vec<bool>,
    links: Vec<OwnedFd>,
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
        let slots = slots.max(1);
        let streams = u32::try_from(spec.flows.len().max(1)).unwrap_or(u32::MAX);
        let bin_ns = series::bin_ns(spec.series_ns, spec.flows.len());
        let bins = series::entries(bin_ns, spec.series_ns, spec.flows.len());
        let mut skel = Loaded::load(FAMILY, ReceiveSkelBuilder::default(), |open| {
            let sizes =
                [(&mut open.maps.isl_rx_series, bins), (&mut open.maps.isl_rx_gaps, streams)];
            for (map, entries) in sizes {
                map.set_max_entries(entries).map_err(|error| FAMILY.refused(&error))?;
            }
            let settings = &mut present(open.maps.rodata_data.as_deref_mut())?.settings;
            settings.cookie = spec.cookie.unwrap_or(0);
            settings.any_cookie = u32::from(spec.cookie.is_none());
            settings.flow_slots = slots;
            settings.streams = streams;
            open.maps.isl_rx_flows.set_max_entries(slots).map_err(|error| FAMILY.refused(&error))
        })?;
        let bss = present(skel.maps.bss_data.as_deref_mut())?;
        let ranges = divide_flows(&mut bss.flow_base, &spec.flows);
        let mapping = |source: io::Error| FAMILY.refused_because(source.to_string());
        let flow_slots = slots as usize;
        let delays_in = |map: BorrowedFd| MappedArray::new(map, MAX_STREAMS * BUCKETS);
        let mut receiver = Self {
            delays: delays_in(skel.maps.isl_rx_delays.as_fd()).map_err(mapping)?,
            due_delays: delays_in(skel.maps.isl_rx_due.as_fd()).map_err(mapping)?,
            flows: MappedArray::new(skel.maps.isl_rx_flows.as_fd(), flow_slots).map_err(mapping)?,
            series: MappedArray::new(skel.maps.isl_rx_series.as_fd(), bins as usize)
                .map_err(mapping)?,
            gaps: MappedArray::new(skel.maps.isl_rx_gaps.as_fd(), streams as usize)
                .map_err(mapping)?,
            series_ns: spec.series_ns,
            bin_ns,
            flow_slots,
            ranges,
            skel,
            native: Vec::new(),
            links: Vec::new(),
        };
        receiver.attach_all(&spec.interfaces)?;
        Ok(receiver)
    }

    fn attach_all(&mut self, interfaces: &[Interface]) -> Result<()> {
        for Interface { netns: path, ifindex } in interfaces {
            let program = self.skel.progs.isl_receive.as_fd().as_raw_fd();
            let (link, native) = netns::within(path.as_deref(), || {
                Ok((xdp::attach_link(program, *ifindex)?, xdp::is_native(*ifindex)))
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

    /// By interface: whether the program is still on it. An interface that goes takes the program
    /// with it; the link then tells no interface.
    #[must_use]
    pub fn attached(&self) -> Vec<bool> {
        self.links.iter().map(|link| xdp::linked_to(link.as_raw_fd()) != Some(0)).collect()
    }

    /// Forgets everything received; call when no frames are under way.
    pub fn reset(&mut self) -> Result<()> {
        let bss = present(self.skel.maps.bss_data.as_deref_mut())?;
        bss.streams.fill(types::isl_rx_stream::default());
        bss.other_frames = 0;
        bss.series = types::isl_series::default();
        self.series.clear(self.series.len());
        self.gaps.clear(self.gaps.len());
        self.flows.clear(self.flow_slots);
        self.delays.clear(self.ranges.len().max(1) * BUCKETS);
        self.due_delays.clear(self.ranges.len().max(1) * BUCKETS);
        Ok(())
    }

    /// Begins the time series of a trial whose schedule begins at `start_ns` on `CLOCK_MONOTONIC`.
    pub fn begin(&mut self, start_ns: u64) -> Result<()> {
        let bss = present(self.skel.maps.bss_data.as_deref_mut())?;
        bss.series = series::arm(start_ns, self.series_ns, self.bin_ns);
        Ok(())
    }

    /// Width of a bin of the time series, ns.
    #[must_use]
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// A stream's arrivals by bin since [`Self::begin`].
    pub fn series(&self, stream: usize) -> Result<StreamSeries> {
        if stream >= self.ranges.len() {
            return Err(self.no_such_stream(stream));
        }
        let mut found = StreamSeries::default();
        if self.series_ns == 0 {
            return Ok(found);
        }
        for entry in (stream..self.series.len()).step_by(self.ranges.len()) {
            let bins = self.series.read(entry..entry + 1).unwrap_or_default();
            let counts = bins.first().map_or([0; COARSE_BUCKETS], |bin| bin.frames);
            let bin = Coarse::from_counts(counts);
            found.received.push(bin.count());
            found.delay_p99_ns.push(bin.quantile_ns(9_900));
        }
        Ok(found)
    }

    /// Times between arrivals of a stream's frames of the window, by bucket of
    /// [`isolane_histogram::bounds_ns`].
    pub fn gaps(&self, stream: usize) -> Result<Vec<u32>> {
        let gaps = self.gaps.read(stream..stream + 1).filter(|_| stream < self.ranges.len());
        let gaps = gaps.ok_or_else(|| self.no_such_stream(stream))?;
        Ok(gaps.iter().flat_map(|of_stream| of_stream.gaps).collect())
    }

    /// The counts of the announced streams so far.
    pub fn counts(&self) -> Result<Vec<StreamCount>> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        // SAFETY: mapped memory that the program adds to: a volatile copy is a snapshot.
        let streams = unsafe { ptr::read_volatile(&raw const bss.streams) };
        let mut counts: Vec<_> =
            streams[..self.ranges.len()].iter().map(StreamCount::from).collect();
        for (index, count) in counts.iter_mut().enumerate() {
            count.received_window += delay_counts(&self.delays, index)?.iter().sum::<u64>();
        }
        Ok(counts)
    }

    /// Frames of a stream that its sequence numbers promise: from the first to the highest seen
    /// in each flow. What is missing of them was lost on the way.
    pub fn expected(&self, stream: usize) -> Result<u64> {
        let found = self.ranges.get(stream);
        let range = found.ok_or_else(|| self.no_such_stream(stream))?;
        let flows = self.flows.read(range.clone());
        let flows = flows.ok_or(Error::State("the table of flows is too short"))?;
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
    pub fn other_frames(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.other_frames)
    }

    fn no_such_stream(&self, stream: usize) -> Error {
        Error::Spec {
            key: "stream",
            value: stream.to_string(),
            accepted: format!("fewer than {}", self.ranges.len()),
        }
    }

    /// One-way delays of one stream's frames of the window, since their departure.
    pub fn delays(&self, stream: usize) -> Result<Histogram> {
        let counts = delay_counts(&self.delays, stream)?;
        Ok(Histogram::from_counts(counts, self.count_of(stream)?.delay_max_ns))
    }

    /// The same since the frames were due.
    pub fn due_delays(&self, stream: usize) -> Result<Histogram> {
        let counts = delay_counts(&self.due_delays, stream)?;
        Ok(Histogram::from_counts(counts, self.count_of(stream)?.due_max_ns))
    }

    fn count_of(&self, stream: usize) -> Result<StreamCount> {
        self.counts()?.get(stream).copied().ok_or_else(|| self.no_such_stream(stream))
    }
}

impl From<&types::isl_rx_stream> for StreamCount {
    fn from(stream: &types::isl_rx_stream) -> Self {
        Self {
            received: stream.received,
            // The program counts them in the histogram and nowhere else, which `counts` adds.
            received_window: stream.negative,
            received_window_bytes: stream.received_window_bytes,
            reordered: stream.reordered,
            duplicated: stream.duplicated,
            untracked: stream.untracked,
            delay_max_ns: stream.delay_max_ns,
            delay_sum_ns: stream.delay_sum_ns,
            negative: stream.negative,
            due_max_ns: stream.due_max_ns,
            due_sum_ns: stream.due_sum_ns,
        }
    }
}

/// Frames of a stream by their delay's bucket.
fn delay_counts(delays: &MappedArray<u64>, stream: usize) -> Result<Vec<u64>> {
    let counts = delays.read(stream * BUCKETS..(stream + 1) * BUCKETS);
    counts.ok_or(Error::State("the table of delays is too short"))
}

/// Gives each announced stream its part of the table of flows; the others get one beyond its end.
fn divide_flows(bases: &mut [u32; MAX_STREAMS], flows: &[u32]) -> Vec<Range<usize>> {
    let mut base = 0;
    let mut ranges = Vec::with_capacity(flows.len());
    bases.fill(u32::MAX >> 1);
    for (to, flows) in bases.iter_mut().zip(flows) {
        *to = base;
        ranges.push(base as usize..(base + flows) as usize);
        base += flows;
    }
    ranges
}

#[cfg(test)]
mod tests;
