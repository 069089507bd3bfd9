//! The traffic generator: one thread, one `BPF_PROG_TEST_RUN` call for the whole trial.

use std::{
    os::fd::{AsFd, AsRawFd},
    path::PathBuf,
};

use isolane_histogram::BUCKETS;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::{
    Error, Histogram, Result, kernel,
    live_frames::{Done, Run, Sender},
    load::{Family, Loaded, present},
    mapped::MappedArray,
    monotonic_ns, netns, series,
    skeletons::generate::{GenerateSkel, GenerateSkelBuilder, types},
    stream::{FCS_BYTES, MAX_STREAMS, StreamSpec, interval_q16_ns, poisson_intervals},
    xdp,
};

const FAMILY: Family = Family {
    program: "generate",
    feature: "XDP and BPF_PROG_TEST_RUN with live frames (Linux 5.18 or later)",
};
/// Frames the kernel prepares at a time, by the highest offered load, thousandths of a frame a
/// second: written frames leave at the end of a batch, and what is not due costs some 80 ns of it; a
/// large batch keeps more of the recycled pages.
const BATCHES: [(u64, u32); 3] = [(300_000_000, 16), (700_000_000, 64), (u64::MAX, 256)];

/// A stream that is later than this takes turns with the others that are.
const TURNS_NS: u64 = 250_000;
/// A frame that is later than this never leaves, and counts as missed; its stamp has room for twice as
/// much.
const MAX_LATE_NS: u64 = 1_000_000;

/// From Linux 6.5 on softirqs run although `ksoftirqd` waits for the core, as it would beside a thread
/// in real time.
const NO_KSOFTIRQD_FIRST: (u32, u32) = (6, 5);

/// Everything a trial needs to be sent.
#[derive(Clone, Debug)]
pub struct GeneratorSpec {
    /// Namespace that the streams' interfaces are in; None: the caller's.
    pub netns: Option<PathBuf>,
    /// Core to run on.
    pub core: usize,
    /// Marks the frames of this run.
    pub cookie: u16,
    /// What to send.
    pub streams: Vec<StreamSpec>,
    /// Begin of the measuring window, since the start, ns.
    pub window_start_ns: u64,
    /// End of the measuring window, since the start, ns.
    pub window_end_ns: u64,
    /// The end of sending, since the start, ns.
    pub end_ns: u64,
    /// The highest load of the trials that are compared with this one, thousandths of a frame a second:
    /// the kernel's batch is chosen by it, and frames wait for the end of their batch. 0: this load.
    pub peak_rate_millipps: u64,
    /// Width of a bin of the time series, ns; 0: no series.
    pub bin_ns: u64,
}

/// What one stream did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Frames sent.
    pub sent: u64,
    /// Of these, those scheduled inside the window.
    pub sent_window: u64,
    /// Their bytes, with the frame check sequence.
    pub sent_window_bytes: u64,
    /// Frames scheduled but not sent: more than `MAX_LATE_NS` late, or not before the end.
    pub missed: u64,
    /// Of these, those scheduled inside the window.
    pub missed_window: u64,
}

/// The generator's audit of itself.
#[derive(Clone, Debug)]
pub struct GeneratorReport {
    /// By stream, in the order of the specification.
    pub streams: Vec<StreamReport>,
    /// Actual minus scheduled departure of the frames in the window, by stream; without those missed.
    pub lateness: Vec<Histogram>,
    /// Iterations in the window.
    pub iterations: u64,
    /// Those of them that sent a frame.
    pub iterations_sent: u64,
    /// Frames that could not be built.
    pub failed: u64,
    /// Kernel calls that the trial took: more than one means gaps.
    pub calls: u64,
}

impl GeneratorReport {
    /// The lateness of all streams together.
    #[must_use]
    pub fn departure_error(&self) -> Histogram {
        let mut all = Histogram::default();
        self.lateness.iter().for_each(|stream| all.merge(stream));
        all
    }
}

/// A loaded generator.
pub struct Generator {
    // Dropped before the program that its thread runs.
    sender: Option<Sender>,
    skel: Loaded<GenerateSkel<'static>>,
    series: MappedArray<u64>,
    spec: GeneratorSpec,
    frame_bytes: u16,
    calls: u64,
}

impl Generator {
    /// Checks the number of streams and loads the program.
    pub fn load(spec: GeneratorSpec) -> Result<Self> {
        Self::load_with(spec, TURNS_NS, MAX_LATE_NS)
    }

    fn load_with(spec: GeneratorSpec, turns_ns: u64, max_late_ns: u64) -> Result<Self> {
        let possible = (1..=MAX_STREAMS).contains(&spec.streams.len());
        let n_streams = u32::try_from(spec.streams.len()).ok().filter(|_| possible);
        let n_streams = n_streams.ok_or_else(|| Error::Spec {
            key: "streams",
            value: spec.streams.len().to_string(),
            accepted: format!("1 to {MAX_STREAMS}"),
        })?;
        let frame_bytes = frame_bytes(&spec);
        let entries = series::entries(spec.bin_ns, spec.end_ns, spec.streams.len());
        let skel = Loaded::load(FAMILY, GenerateSkelBuilder::default(), |open| {
            let settings = &mut present(open.maps.rodata_data.as_deref_mut())?.settings;
            settings.n_streams = n_streams;
            settings.frame_bytes = frame_bytes;
            settings.cookie = spec.cookie;
            settings.turns_ns = turns_ns;
            settings.max_late_ns = max_late_ns;
            present(open.maps.rodata_data.as_deref_mut())?.poisson_intervals = poisson_intervals();
            let map = &mut open.maps.isl_tx_series;
            map.set_max_entries(entries).map_err(|error| FAMILY.refused(&error))
        })?;
        let series = MappedArray::new(skel.maps.isl_tx_series.as_fd(), entries as usize)
            .map_err(|source| FAMILY.refused_because(source.to_string()))?;
        Ok(Self { sender: None, skel, series, spec, frame_bytes, calls: 0 })
    }

    /// Takes another specification, where the loaded program can carry it out: false where not.
    ///
    /// Loading takes some 50 ms, most of it in the kernel's verifier. [`Self::start`] clears what the
    /// trial before has left.
    pub fn reuse(&mut self, spec: GeneratorSpec) -> Result<bool> {
        if self.sender.is_some() {
            return Err(Error::State("the generator is running"));
        }
        let bins = series::entries(spec.bin_ns, spec.end_ns, spec.streams.len());
        let fits = spec.streams.len() == self.spec.streams.len()
            && spec.cookie == self.spec.cookie
            && frame_bytes(&spec) == self.frame_bytes
            && bins as usize <= self.series.len();
        if fits {
            self.spec = spec;
            self.calls = 0;
        }
        Ok(fits)
    }

    /// Starts sending; the schedule's zero is `start_ns` on `CLOCK_MONOTONIC`.
    ///
    /// `first` puts its thread before all ordinary ones of the core, where that is safe: the trial is
    /// short, and the kernel does not need a thread for softirqs that take long.
    pub fn start(&mut self, start_ns: u64, first: bool) -> Result<()> {
        if self.sender.is_some() {
            return Err(Error::State("the generator is running already"));
        }
        let batch = self.batch();
        self.check_interfaces()?;
        self.arm(start_ns, batch)?;
        self.sender = Some(Sender::start(Run {
            program: self.skel.progs.isl_generate.as_fd().as_raw_fd(),
            frame_bytes: self.frame_bytes,
            batch,
            netns: self.spec.netns.clone(),
            core: self.spec.core,
            first_until_ns: (first && self.may_go_first(start_ns)).then(|| self.over_ns(start_ns)),
            done: self.done()?,
        })?);
        Ok(())
    }

    /// Writes streams, window and interfaces into the program's variables and maps.
    fn arm(&mut self, start_ns: u64, batch: u32) -> Result<()> {
        let bss = present(self.skel.maps.bss_data.as_deref_mut())?;
        let count = self.spec.streams.len() as u64;
        for (index, (stream, entry)) in self.spec.streams.iter().zip(&mut bss.streams).enumerate() {
            // Streams of one rate must not leave in bursts of one each.
            let rate_millipps =
                stream.segments.first().map_or(0, |first| first.start_rate_millipps);
            let interval_ns = interval_q16_ns(rate_millipps) >> 16;
            let phase_ns = interval_ns.min(1_000_000_000) * index as u64 / count;
            stream.fill(entry, phase_ns)?;
        }
        fill_heap(&mut bss.due_heap, &bss.streams[..self.spec.streams.len()]);
        bss.trial.start_ns = start_ns;
        bss.trial.window_start_ns = self.spec.window_start_ns;
        bss.trial.window_end_ns = self.spec.window_end_ns;
        bss.trial.end_ns = self.spec.end_ns;
        bss.progress = types::isl_progress::default();
        bss.progress.batch = batch;
        let bin_ns = self.spec.bin_ns;
        bss.progress.bin_ns = bin_ns;
        bss.progress.bin_end_ns = if bin_ns == 0 { u64::MAX } else { bin_ns };
        self.series.clear(self.series.len());
        bss.lateness[..self.spec.streams.len() * BUCKETS].fill(0);
        self.set_interfaces()
    }

    /// Tells the program which interface each stream leaves by; they are in the spec's namespace.
    fn set_interfaces(&self) -> Result<()> {
        let map = &self.skel.maps.isl_tx_devmap;
        let map = MapHandle::try_from(map).map_err(|error| Error::table(map, &error))?;
        let interfaces: Vec<u32> = self.spec.streams.iter().map(|s| s.ifindex).collect();
        netns::within(self.spec.netns.as_deref(), || {
            for (index, ifindex) in (0u32..).zip(interfaces) {
                map.update(&index.to_ne_bytes(), &ifindex.to_ne_bytes(), MapFlags::ANY)
                    .map_err(|_| takes_no_frames(ifindex))?;
            }
            Ok(())
        })
    }

    /// Refuses interfaces that would refuse the frames: those would count as sent.
    fn check_interfaces(&self) -> Result<()> {
        let sending = self.spec.streams.iter().filter(|stream| stream.peak_rate_millipps() > 0);
        let interfaces: Vec<u32> = sending.map(|stream| stream.ifindex).collect();
        netns::within(self.spec.netns.as_deref(), || {
            let refusing = interfaces.into_iter().find(|&ifindex| !xdp::takes_redirects(ifindex));
            refusing.map_or(Ok(()), |ifindex| Err(takes_no_frames(ifindex)))
        })
    }

    fn batch(&self) -> u32 {
        let sum_millipps: u64 = self.spec.streams.iter().map(StreamSpec::peak_rate_millipps).sum();
        let peak_millipps = sum_millipps.max(self.spec.peak_rate_millipps);
        let fits = BATCHES.iter().find(|(limit_millipps, _)| peak_millipps <= *limit_millipps);
        fits.map_or(1, |(_, batch)| *batch)
    }

    /// Tells whether the thread would not be stopped for others before it is over.
    fn may_go_first(&self, start_ns: u64) -> bool {
        let takes_ns = self.over_ns(start_ns).saturating_sub(monotonic_ns());
        takes_ns < netns::RESERVE_AFTER_NS && kernel::at_least(NO_KSOFTIRQD_FIRST)
    }

    /// When each frame has been sent or missed, if nothing holds the thread up.
    fn over_ns(&self, start_ns: u64) -> u64 {
        start_ns + self.spec.end_ns + 2 * MAX_LATE_NS
    }

    fn done(&self) -> Result<Done> {
        let bss = self.skel.maps.bss_data.as_deref();
        bss.map(|bss| Done(&raw const bss.progress.done)).ok_or(Error::State("no variables"))
    }

    /// True when every scheduled frame is sent or counted as missed, or the thread has ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        let done = self.done().is_ok_and(|done| done.is_set());
        done || self.sender.as_ref().is_none_or(Sender::ended)
    }

    /// Ends the kernel's call and waits for its thread.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(sender) = self.sender.take() {
            self.calls = sender.stop()?;
        }
        Ok(())
    }

    /// By stream: frames that departed in each bin of `bin_ns` since the start, up to the last frame;
    /// empty without a series.
    pub fn series(&self) -> Result<Vec<Vec<u64>>> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        let streams = self.spec.streams.len();
        if self.spec.bin_ns == 0 {
            return Ok(vec![Vec::new(); streams]);
        }
        let ended = (bss.progress.bin_at as usize).min(self.series.len());
        let totals = self.series.read(0..ended).unwrap_or_default();
        let of = |stream: usize| {
            let at_ends = totals.iter().skip(stream).step_by(streams).copied();
            let mut before = 0;
            // The last bin may not have ended when the trial did.
            let counts = at_ends.chain([bss.streams[stream].sent]).map(|total| {
                let count = total - before;
                before = total;
                count
            });
            counts.collect()
        };
        Ok((0..streams).map(of).collect())
    }

    /// The counts so far; final after [`Self::stop`].
    pub fn report(&self) -> Result<GeneratorReport> {
        let bss = present(self.skel.maps.bss_data.as_deref())?;
        let streams = &bss.streams[..self.spec.streams.len()];
        Ok(GeneratorReport {
            streams: streams.iter().map(StreamReport::from).collect(),
            lateness: streams.iter().zip(bss.lateness.chunks(BUCKETS)).map(lateness_of).collect(),
            iterations: bss.progress.window_iterations,
            iterations_sent: bss.progress.window_sent,
            failed: bss.progress.failed,
            calls: self.calls,
        })
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // An error here has no one to go to; the thread has ended in any case.
        let _ = self.stop();
    }
}

impl From<&types::isl_stream> for StreamReport {
    fn from(stream: &types::isl_stream) -> Self {
        Self {
            sent: stream.sent,
            sent_window: stream.sent_window,
            sent_window_bytes: stream.sent_window_bytes,
            missed: stream.missed,
            missed_window: stream.missed_window,
        }
    }
}

/// Length of the buffer for a frame, bytes: that of the longest one.
fn frame_bytes(spec: &GeneratorSpec) -> u16 {
    let longest = spec.streams.iter().flat_map(|stream| &stream.sizes).max();
    longest.copied().unwrap_or(64) - FCS_BYTES
}

/// Sorts the streams by their first departure; what is in order is a heap.
fn fill_heap(heap: &mut [types::isl_due], streams: &[types::isl_stream]) {
    for (index, (entry, stream)) in (0u32..).zip(heap.iter_mut().zip(streams)) {
        *entry = types::isl_due { at_q16_ns: stream.next_q16_ns, stream: index, pad0: 0 };
    }
    heap[..streams.len()].sort_unstable_by_key(|entry| (entry.at_q16_ns, entry.stream));
}

fn lateness_of((stream, counts): (&types::isl_stream, &[u64])) -> Histogram {
    Histogram::from_counts(counts.to_vec(), stream.late_max_ns)
}

fn takes_no_frames(ifindex: u32) -> Error {
    Error::Spec {
        key: "interface",
        value: netns::interface_name(ifindex),
        accepted: "one that takes redirected XDP frames (of a veth, the peer needs GRO on or a \
                   program attached: ethtool -K PEER gro on)"
            .into(),
    }
}

#[cfg(test)]
mod tests;
