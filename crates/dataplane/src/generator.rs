//! The traffic generator: one thread, one `BPF_PROG_TEST_RUN` call for the whole trial.

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, RawFd},
        unix::thread::JoinHandleExt,
    },
    path::{Path, PathBuf},
    ptr,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
    thread::JoinHandle,
};

use libbpf_rs::{
    OpenObject,
    skel::{OpenSkel, SkelBuilder},
};

use crate::{
    Error, Result,
    error::one_line,
    histogram::Histogram,
    netns,
    skeletons::generate::{GenerateSkel, GenerateSkelBuilder},
    stream::{FCS_BYTES, StreamSpec},
};

/// Streams that one generator can send.
pub const MAX_STREAMS: usize = 256;
/// Frames the kernel prepares at a time, by the offered load in thousandths of a frame a second:
/// written frames leave at the end of a batch, and what is not due costs some 80 ns of it; a large
/// batch keeps more of the recycled pages.
const BATCHES: [(u64, u32); 3] = [(300_000_000, 16), (700_000_000, 64), (u64::MAX, 256)];
/// The test-run's limit on iterations; at some 20 ns each this lasts longer than 80 s, and then a
/// new call goes on (which leaves a gap of some 20 ms, made up for afterwards).
const REPEAT: i32 = -1;

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
    /// Measuring window, since the start, ns.
    pub window_ns: (u64, u64),
    /// The end of sending, since the start, ns.
    pub end_ns: u64,
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
    /// Frames scheduled but not sent before the end.
    pub missed: u64,
    /// Of these, those scheduled inside the window.
    pub missed_window: u64,
}

/// The generator's audit of itself.
#[derive(Clone, Debug)]
pub struct GeneratorReport {
    /// By stream, in the order of the specification.
    pub streams: Vec<StreamReport>,
    /// Actual minus scheduled departure in the window.
    pub departure_error: Histogram,
    /// The greatest of them, ns.
    pub departure_error_max_ns: u64,
    /// Iterations in the window, and how many of them sent a frame.
    pub iterations: u64,
    /// Frames that were sent in the window.
    pub iterations_sent: u64,
    /// Frames that could not be built.
    pub failed: u64,
    /// Kernel calls that the trial took: more than one means gaps.
    pub calls: u64,
}

/// A loaded generator.
pub struct Generator {
    skel: GenerateSkel<'static>,
    spec: GeneratorSpec,
    frame_bytes: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64>>>,
    calls: u64,
    // Declared last: dropped after the skeleton that borrows it.
    _object: Box<MaybeUninit<OpenObject>>,
}

impl Generator {
    /// Checks the streams and loads the program.
    pub fn load(spec: GeneratorSpec) -> Result<Self> {
        if spec.streams.is_empty() || spec.streams.len() > MAX_STREAMS {
            return Err(Error::Spec {
                key: "streams",
                value: spec.streams.len().to_string(),
                accepted: format!("1 to {MAX_STREAMS}"),
            });
        }
        let longest = spec.streams.iter().flat_map(|stream| &stream.sizes).max();
        let frame_bytes = longest.copied().unwrap_or(64) - FCS_BYTES;
        let mut object = Box::new(MaybeUninit::uninit());
        let skel = Self::open(&mut object, &spec, frame_bytes)?;
        Ok(Self {
            skel,
            spec,
            frame_bytes,
            stop: Arc::new(AtomicBool::new(false)),
            thread: None,
            calls: 0,
            _object: object,
        })
    }

    fn open(
        object: &mut Box<MaybeUninit<OpenObject>>,
        spec: &GeneratorSpec,
        frame_bytes: u16,
    ) -> Result<GenerateSkel<'static>> {
        let refuse = |error: libbpf_rs::Error| Error::Load {
            program: "generate",
            feature: "XDP and BPF_PROG_TEST_RUN with live frames (Linux 5.18 or later)",
            reason: one_line(&error),
        };
        // SAFETY: the box is kept in `Generator` behind the skeleton and never moves its content.
        let object: &'static mut MaybeUninit<OpenObject> =
            unsafe { &mut *ptr::from_mut(object.as_mut()) };
        let mut open = GenerateSkelBuilder::default().open(object).map_err(refuse)?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let settings = &mut rodata.ok_or(Error::State("the program has no settings"))?.settings;
        settings.n_streams = u32::try_from(spec.streams.len()).expect("at most 256");
        settings.frame_bytes = frame_bytes;
        settings.cookie = spec.cookie;
        open.load().map_err(refuse)
    }

    /// Starts sending; the schedule's zero is `start_ns` on `CLOCK_MONOTONIC`.
    pub fn start(&mut self, start_ns: u64) -> Result<()> {
        if self.thread.is_some() {
            return Err(Error::State("the generator is running already"));
        }
        let batch = self.batch();
        self.check_wires()?;
        self.arm(start_ns, batch)?;
        install_handler();
        let call = TestRun {
            program: self.skel.progs.isl_generate.as_fd().as_raw_fd(),
            frame: vec![0; usize::from(self.frame_bytes)],
            batch,
        };
        let (stop, netns, core) = (self.stop.clone(), self.spec.netns.clone(), self.spec.core);
        let thread = std::thread::Builder::new()
            .name("isl-generate".into())
            .spawn(move || send_until_stopped(&call, &stop, netns.as_deref(), core))
            .map_err(|source| Error::Run { source })?;
        self.thread = Some(thread);
        Ok(())
    }

    fn arm(&mut self, start_ns: u64, batch: u32) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref_mut();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        let count = self.spec.streams.len() as u64;
        for (index, (stream, entry)) in self.spec.streams.iter().zip(&mut bss.streams).enumerate() {
            // Streams of one rate must not leave in bursts of one each.
            let rate = stream.segments.first().map_or(0, |segment| segment.rate0_mpps);
            let interval_ns = crate::stream::interval_q16(rate) >> 16;
            let phase_ns = interval_ns.min(1_000_000_000) * index as u64 / count;
            stream.fill(entry, phase_ns)?;
        }
        self.wire_up()?;
        let bss = self.skel.maps.bss_data.as_deref_mut();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        bss.trial.start_ns = start_ns;
        (bss.trial.window_start_ns, bss.trial.window_end_ns) = self.spec.window_ns;
        bss.trial.end_ns = self.spec.end_ns;
        #[expect(clippy::default_trait_access, reason = "the generated type has no name")]
        {
            bss.progress = Default::default();
        }
        bss.progress.batch = batch;
        bss.lateness.fill(0);
        Ok(())
    }

    /// Tells the program which interface each stream leaves by; they are in the spec's namespace.
    fn wire_up(&self) -> Result<()> {
        let wires = self.skel.maps.wires.as_fd().as_raw_fd();
        let interfaces: Vec<u32> = self.spec.streams.iter().map(|s| s.ifindex).collect();
        netns::within(self.spec.netns.as_deref(), || {
            for (index, ifindex) in (0u32..).zip(interfaces) {
                // SAFETY: key and value are 4 bytes each, as the map has it.
                let failed = unsafe {
                    libbpf_sys::bpf_map_update_elem(
                        wires,
                        (&raw const index).cast(),
                        (&raw const ifindex).cast(),
                        0,
                    )
                };
                if failed != 0 {
                    return Err(no_such_wire(ifindex));
                }
            }
            Ok(())
        })
    }

    /// Refuses interfaces that would refuse the frames: those would count as sent.
    fn check_wires(&self) -> Result<()> {
        let sends = |stream: &&StreamSpec| {
            stream.segments.iter().any(|segment| segment.rate0_mpps.max(segment.rate1_mpps) > 0)
        };
        let sending = self.spec.streams.iter().filter(sends);
        let interfaces: Vec<u32> = sending.map(|stream| stream.ifindex).collect();
        netns::within(self.spec.netns.as_deref(), || {
            let refusing = interfaces.into_iter().find(|&ifindex| !takes_redirects(ifindex));
            refusing.map_or(Ok(()), |ifindex| Err(no_such_wire(ifindex)))
        })
    }

    fn batch(&self) -> u32 {
        let fastest: u64 = self
            .spec
            .streams
            .iter()
            .filter_map(|s| s.segments.iter().map(|g| g.rate0_mpps.max(g.rate1_mpps)).max())
            .sum();
        let fits = BATCHES.iter().find(|(most, _)| fastest <= *most);
        fits.map_or(1, |(_, batch)| *batch)
    }

    /// True when every scheduled frame is sent or counted as missed, or the thread has ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let done = self.skel.maps.bss_data.as_deref().is_some_and(|bss| {
            // SAFETY: the pointer is to mapped memory; the program writes it, hence volatile.
            unsafe { ptr::read_volatile(&raw const bss.progress.done) != 0 }
        });
        ended || done
    }

    /// Ends the kernel's call by a signal to its thread and waits for the thread.
    pub fn stop(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.stop.store(true, Ordering::SeqCst);
        while !thread.is_finished() {
            // SAFETY: the thread has not been joined, so its handle is valid.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), stop_signal()) };
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        self.stop.store(false, Ordering::SeqCst);
        let ended = thread.join().map_err(|_| Error::State("the generator's thread panicked"))?;
        self.calls = ended?;
        Ok(())
    }

    /// The counts so far; final after [`Self::stop`].
    pub fn report(&self) -> Result<GeneratorReport> {
        let bss = self.skel.maps.bss_data.as_deref();
        let bss = bss.ok_or(Error::State("the program has no variables"))?;
        let streams = bss.streams[..self.spec.streams.len()].iter();
        Ok(GeneratorReport {
            streams: streams
                .map(|stream| StreamReport {
                    sent: stream.sent,
                    sent_window: stream.sent_window,
                    sent_window_bytes: stream.sent_window_bytes,
                    missed: stream.missed,
                    missed_window: stream.missed_window,
                })
                .collect(),
            departure_error: Histogram::new(bss.lateness.to_vec()),
            departure_error_max_ns: bss.progress.lateness_max_ns,
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

fn no_such_wire(ifindex: u32) -> Error {
    Error::Spec {
        key: "interface",
        value: netns::interface_name(ifindex),
        accepted: "one that takes redirected XDP frames (of a veth, the peer needs GRO on or a \
                   program attached: ethtool -K PEER gro on)"
            .into(),
    }
}

/// Whether the interface, of the calling thread's namespace, sends what XDP redirects to it; a frame
/// that it refuses would count as sent. Kernels before 6.3 do not tell: they get the benefit.
fn takes_redirects(ifindex: u32) -> bool {
    /// `NETDEV_XDP_ACT_NDO_XMIT`
    const NDO_XMIT: u64 = 4;
    // SAFETY: zero is a valid value of every field.
    let mut query: libbpf_sys::bpf_xdp_query_opts = unsafe { std::mem::zeroed() };
    query.sz = size_of_val(&query) as libbpf_sys::size_t;
    let index = i32::try_from(ifindex).unwrap_or(-1);
    // SAFETY: the structure lives through the call and tells its size.
    let failed = unsafe { libbpf_sys::bpf_xdp_query(index, 0, &raw mut query) };
    let told = failed == 0 && (query.feature_flags != 0 || kernel_tells_features());
    !told || query.feature_flags & NDO_XMIT != 0
}

/// Since Linux 6.3 an interface without a feature says so; before, silence means nothing.
fn kernel_tells_features() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 3)
}

struct TestRun {
    program: RawFd,
    frame: Vec<u8>,
    batch: u32,
}

/// The thread: one call, or more when the iterations run out, until told to stop. Gives the calls.
fn send_until_stopped(
    call: &TestRun,
    stop: &AtomicBool,
    netns: Option<&Path>,
    core: usize,
) -> Result<u64> {
    netns::enter(netns)?;
    netns::pin(core)?;
    netns::prefer();
    let mut calls = 0;
    while !stop.load(Ordering::SeqCst) {
        calls += 1;
        // SAFETY: zero is a valid value of every field.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = std::mem::size_of_val(&options) as libbpf_sys::size_t;
        options.data_in = call.frame.as_ptr().cast();
        options.data_size_in = u32::try_from(call.frame.len()).expect("at most 1514");
        options.repeat = REPEAT;
        options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
        options.batch_size = call.batch;
        // SAFETY: the program outlives this thread, which `stop` joins; the buffers live here.
        let ended = unsafe { libbpf_sys::bpf_prog_test_run_opts(call.program, &raw mut options) };
        let source = io::Error::from_raw_os_error(-ended);
        if ended != 0 && source.kind() != io::ErrorKind::Interrupted {
            return Err(Error::Run { source });
        }
    }
    Ok(calls)
}

/// A real-time signal that nothing else here uses; its only task is to interrupt the call.
fn stop_signal() -> i32 {
    libc::SIGRTMIN() + 5
}

extern "C" fn ignore(_signal: i32) {}

fn install_handler() {
    // SAFETY: zero is a valid sigaction: no flags (so that calls are interrupted), empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the structure lives through the call; the handler does nothing.
    unsafe { libc::sigaction(stop_signal(), &raw const action, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};

    use super::*;
    use crate::{monotonic_ns, stream::Segment, test_run::packet_through};

    const XDP_DROP: u32 = 1;
    const XDP_REDIRECT: u32 = 4;

    fn stream(v6: bool, sizes: &[u16], flows: u32) -> StreamSpec {
        let (src, dst) = if v6 {
            ("2001:2:0:1::fffe".parse(), "2001:2:0:2::2".parse())
        } else {
            ("198.18.1.250".parse(), "198.19.1.2".parse())
        };
        StreamSpec {
            ifindex: 1,
            src_mac: [2, 0x15, 0, 0, 0, 1],
            dst_mac: [2, 0x15, 0, 0, 0, 2],
            src: src.expect("an address"),
            src_count: 3,
            dst: dst.expect("an address"),
            first_sport: 1024,
            first_dport: 9,
            flows,
            sizes: sizes.to_vec(),
            segments: vec![Segment {
                duration_ns: 3_600_000_000_000,
                rate0_mpps: 1_000_000_000,
                rate1_mpps: 1_000_000_000,
            }],
        }
    }

    fn armed(streams: Vec<StreamSpec>) -> Generator {
        let hour = 3_600_000_000_000;
        let mut generator = Generator::load(GeneratorSpec {
            netns: None,
            core: 0,
            cookie: 0x1234,
            streams,
            window_ns: (0, hour),
            end_ns: hour,
        })
        .expect("loads");
        // A second late: every call finds a frame due.
        generator.arm(monotonic_ns() - 1_000_000_000, 1).expect("arms");
        generator
    }

    /// A frame out of a page full of somebody else's bytes.
    fn next_frame(generator: &Generator) -> (u32, Vec<u8>) {
        let page = vec![0xaa; usize::from(generator.frame_bytes)];
        packet_through(&generator.skel.progs.isl_generate, &page)
    }

    fn assert_valid(frame: &[u8], size: u16) {
        assert_eq!(frame.len(), usize::from(size - FCS_BYTES));
        let headers = PacketHeaders::from_ethernet_slice(frame).expect("parses");
        let payload = headers.payload.slice();
        let Some(TransportHeader::Udp(udp)) = &headers.transport else { panic!("no UDP") };
        let checksum = match headers.net.as_ref().expect("IP") {
            NetHeaders::Ipv4(ip, _) => {
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                udp.calc_checksum_ipv4(ip, payload)
            }
            NetHeaders::Ipv6(ip, _) => udp.calc_checksum_ipv6(ip, payload),
            NetHeaders::Arp(_) => panic!("no IP"),
        };
        assert_eq!(udp.checksum, checksum.expect("short enough"));
        assert_eq!(usize::from(udp.length), payload.len() + 8);
        assert!(payload[18..].iter().all(|&byte| byte == 0), "old bytes in the padding");
    }

    #[test]
    fn frames_are_valid_in_every_size_and_family() {
        for (v6, sizes) in [
            (false, vec![64]),
            (false, vec![65, 128, 1518]),
            (true, vec![84]),
            (true, vec![85, 512, 1518]),
        ] {
            let generator = armed(vec![stream(v6, &sizes, 7)]);
            for round in 0..30 {
                let (verdict, frame) = next_frame(&generator);
                assert_eq!(verdict, XDP_REDIRECT);
                assert_valid(&frame, sizes[round % sizes.len()]);
            }
            assert_eq!(generator.report().expect("report").failed, 0);
        }
    }

    #[test]
    fn flows_come_in_turn_and_their_numbers_count_up() {
        let generator = armed(vec![stream(false, &[64], 5)]);
        for sent in 0..20u32 {
            let (_, frame) = next_frame(&generator);
            let flow = u32::from_le_bytes(frame[50..54].try_into().expect("4 bytes"));
            let seq = u32::from_le_bytes(frame[54..58].try_into().expect("4 bytes"));
            let port = u16::from_be_bytes(frame[34..36].try_into().expect("2 bytes"));
            assert_eq!(flow, 1 << 23 | (sent % 5), "stream 0, in the window");
            assert_eq!(seq, sent / 5);
            assert_eq!(u32::from(port), 1024 + sent % 5);
            assert_eq!(u32::from(frame[29]), 250 + sent % 5 % 3);
        }
    }

    #[test]
    fn streams_share_by_their_rates() {
        let mut slow = stream(false, &[64], 1);
        slow.segments[0].rate0_mpps = 250_000_000;
        slow.segments[0].rate1_mpps = 250_000_000;
        let mut generator = armed(vec![stream(false, &[64], 1), slow]);
        // Half a millisecond of schedule: 500 and 125 frames, whatever the clock does meanwhile.
        generator.spec.end_ns = 500_000;
        generator.arm(monotonic_ns() - 1_000_000_000, 1).expect("arms");
        for _ in 0..100 {
            assert_eq!(next_frame(&generator).0, XDP_DROP, "after the end nothing leaves");
        }
        let streams = generator.report().expect("report").streams;
        assert_eq!((streams[0].missed, streams[1].missed), (500, 125));
    }

    /// Streams of 100,000 and 25,000 frames a second, and how many of the first 20 frames that
    /// leave are the slow one's, when the generator begins so late.
    fn slow_ones_among_20(late_ns: u64) -> usize {
        let at = |rate_mpps| {
            let mut spec = stream(false, &[64], 1);
            spec.segments[0].rate0_mpps = rate_mpps;
            spec.segments[0].rate1_mpps = rate_mpps;
            spec
        };
        let mut generator = armed(vec![at(100_000_000), at(25_000_000)]);
        generator.arm(monotonic_ns() - late_ns, 1).expect("arms");
        let streams = (0..20).map(|_| {
            let (verdict, frame) = next_frame(&generator);
            assert_eq!(verdict, XDP_REDIRECT);
            frame[53]
        });
        streams.filter(|&stream| stream == 1).count()
    }

    #[test]
    fn frames_leave_in_the_order_of_their_schedule() {
        let slow = slow_ones_among_20(400_000);
        assert!((3..=5).contains(&slow), "{slow} of 20, where 1 in 5 is the slow stream's");
    }

    #[test]
    fn a_generator_that_is_much_too_late_takes_turns() {
        // Catching up is limited to bursts of 64 frames, which 20 are within.
        assert_eq!(slow_ones_among_20(1_000_000_000), 10);
    }

    #[test]
    fn a_silent_stretch_sends_nothing_and_a_ramp_its_area() {
        let mut shape = stream(false, &[64], 1);
        let part =
            |duration_ns, rate0_mpps, rate1_mpps| Segment { duration_ns, rate0_mpps, rate1_mpps };
        shape.segments = vec![
            part(10_000_000, 0, 0),
            part(100_000_000, 100_000, 20_000_000),
            part(10_000_000, 0, 0),
            part(10_000_000, 1_000_000, 1_000_000),
        ];
        let mut generator = armed(vec![shape]);
        generator.spec.end_ns = 130_000_000;
        generator.arm(monotonic_ns() - 1_000_000_000, 1).expect("arms");
        for _ in 0..200 {
            next_frame(&generator);
        }
        let missed = generator.report().expect("report").streams[0].missed;
        // 100 ms from 0.1 to 20 kpps is 1,005 frames; then 10 of the last stretch.
        assert!((1000..=1020).contains(&missed), "{missed}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_limits() {
        for (bad, key) in [
            (stream(true, &[64], 1), "frame_size"),
            (stream(false, &[1519], 1), "frame_size"),
            (stream(false, &[64], 0), "flows"),
        ] {
            let mut generator = Generator::load(GeneratorSpec {
                netns: None,
                core: 0,
                cookie: 0,
                streams: vec![bad],
                window_ns: (0, 1),
                end_ns: 1,
            })
            .expect("loads");
            let error = generator.arm(0, 1).expect_err("refused").to_string();
            assert!(error.contains(key) && error.contains("accepted"), "{error}");
        }
    }
}
