use std::collections::BTreeMap;

use etherparse::{NetHeaders, PacketHeaders, TransportHeader};

use super::*;
use crate::{
    monotonic_ns,
    stream::{HOP_LIMIT, Segment, Timing},
    test_run::packet_through,
};

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
        hop_limit: HOP_LIMIT,
        fragments: false,
        icmp: false,
        first_sport: 1024,
        first_dport: 9,
        flows,
        sizes: sizes.to_vec(),
        segments: vec![Segment {
            duration_ns: 3_600_000_000_000,
            start_rate_millipps: 1_000_000_000,
            end_rate_millipps: 1_000_000_000,
        }],
        timing: Timing::Even,
    }
}

const HOUR_NS: u64 = 3_600_000_000_000;

fn spec(streams: Vec<StreamSpec>) -> GeneratorSpec {
    GeneratorSpec {
        netns: None,
        core: 0,
        cookie: 0x1234,
        streams,
        window_start_ns: 0,
        window_end_ns: HOUR_NS,
        end_ns: HOUR_NS,
        peak_rate_millipps: 0,
        bin_ns: 0,
    }
}

fn armed(streams: Vec<StreamSpec>) -> Generator {
    let mut generator = Generator::load(spec(streams)).expect("loads");
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
fn headers_are_as_asked_for() {
    let dying = StreamSpec { hop_limit: 1, ..stream(true, &[84], 1) };
    let first = StreamSpec { fragments: true, hop_limit: 3, ..stream(false, &[64, 512], 1) };
    let (_, frame) = next_frame(&armed(vec![dying]));
    assert_valid(&frame, 84);
    assert_eq!(frame[21], 1);
    let generator = armed(vec![first]);
    for size in [64, 512] {
        let (_, frame) = next_frame(&generator);
        let ip = etherparse::Ipv4HeaderSlice::from_slice(&frame[14..]).expect("IPv4");
        assert!(ip.more_fragments() && !ip.dont_fragment());
        assert_eq!((ip.fragments_offset().value(), ip.ttl()), (0, 3));
        assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        assert_eq!(frame.len(), size - 4);
    }
}

#[test]
fn echo_requests_are_valid_and_number_each_flow() {
    for (v6, sizes) in [(false, vec![64, 65, 1518]), (true, vec![84, 128, 1518])] {
        let asking = StreamSpec { icmp: true, ..stream(v6, &sizes, 7) };
        let generator = armed(vec![asking]);
        let mut numbers = BTreeMap::<u16, Vec<u16>>::new();
        for round in 0..30 {
            let (verdict, frame) = next_frame(&generator);
            assert_eq!((verdict, frame.len()), (XDP_REDIRECT, usize::from(sizes[round % 3] - 4)));
            let (id, seq) = echo_request(&frame);
            numbers.entry(id).or_default().push(seq);
        }
        assert_eq!(numbers.keys().copied().collect::<Vec<_>>(), (1024..1031).collect::<Vec<_>>());
        assert!(numbers.values().all(|of| of.windows(2).all(|pair| pair[1] == pair[0] + 1)));
    }
}

/// Identifier and number of an ICMP echo request, after a look at its checksums and its padding.
fn echo_request(frame: &[u8]) -> (u16, u16) {
    let headers = PacketHeaders::from_ethernet_slice(frame).expect("parses");
    let payload = headers.payload.slice();
    assert!(payload[18..].iter().all(|&byte| byte == 0), "old bytes in the padding");
    match (headers.net.as_ref(), headers.transport) {
        (Some(NetHeaders::Ipv4(ip, _)), Some(TransportHeader::Icmpv4(icmp))) => {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload));
            let etherparse::Icmpv4Type::EchoRequest(echo) = icmp.icmp_type else {
                panic!("{icmp:?}")
            };
            (echo.id, echo.seq)
        }
        (Some(NetHeaders::Ipv6(ip, _)), Some(TransportHeader::Icmpv6(icmp))) => {
            let sum = icmp.icmp_type.calc_checksum(ip.source, ip.destination, payload);
            assert_eq!(icmp.checksum, sum.expect("short enough"));
            let etherparse::Icmpv6Type::EchoRequest(echo) = icmp.icmp_type else {
                panic!("{icmp:?}")
            };
            (echo.id, echo.seq)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn ipv6_has_its_fragments_elsewhere() {
    let wrong = StreamSpec { fragments: true, ..stream(true, &[84], 1) };
    let fragments_of_none = StreamSpec { fragments: true, icmp: true, ..stream(false, &[64], 1) };
    for refused in [wrong, fragments_of_none] {
        let mut generator = Generator::load(spec(vec![refused])).expect("loads");
        let told = generator.arm(monotonic_ns(), 1).expect_err("no fragments");
        assert!(told.to_string().contains("fragments"), "{told}");
    }
}

/// When the next frames of the only stream are due, ns.
fn schedule(timing: Timing, rate_millipps: u64, frames: usize) -> Vec<u64> {
    let mut only = of_rates(&[rate_millipps]).remove(0);
    only.timing = timing;
    let mut generator = Generator::load_with(spec(vec![only]), HOUR_NS, HOUR_NS).expect("loads");
    generator.arm(monotonic_ns() - 60_000_000_000, 1).expect("arms");
    let due = (0..frames).map(|_| {
        let bss = generator.skel.maps.bss_data.as_deref().expect("variables");
        let due_ns = bss.streams[0].next_q16_ns >> 16;
        // However late it is, it catches up at twice the rate only.
        while next_frame(&generator).0 != XDP_REDIRECT {}
        due_ns
    });
    due.collect()
}

#[test]
fn bursts_come_at_equal_intervals_and_have_the_mean_rate() {
    // Four times the rate for a quarter of the time; then less than a frame in each burst.
    for (rate_millipps, on_ns, period_ns) in
        [(100_000_000, 1_000_000, 4_000_000), (300_000, 200_000, 1_000_000)]
    {
        let due = schedule(Timing::Bursts { on_ns, period_ns }, rate_millipps, 1_200);
        assert!(due.iter().all(|due_ns| due_ns % period_ns < on_ns), "{on_ns}");
        assert!(due.windows(2).all(|pair| pair[0] < pair[1]));
        let mean_ns = 1_000_000_000_000 / rate_millipps;
        for (index, due_ns) in due.iter().enumerate() {
            assert!(due_ns.abs_diff(index as u64 * mean_ns) <= period_ns, "{index}: {due_ns}");
        }
    }
}

#[test]
fn bursts_that_are_missed_are_counted_to_the_frame() {
    let mut only = of_rates(&[100_000_000]).remove(0);
    only.timing = Timing::Bursts { on_ns: 1_000_000, period_ns: 4_000_000 };
    let trial = GeneratorSpec { end_ns: 99_000_000, window_end_ns: 40_000_000, ..spec(vec![only]) };
    let mut generator = Generator::load(trial).expect("loads");
    generator.arm(monotonic_ns() - 1_000_000_000, 1).expect("arms");
    for _ in 0..1_000 {
        if generator.done().expect("variables").is_set() {
            break;
        }
        assert_eq!(next_frame(&generator).0, XDP_DROP);
    }
    let stream = generator.report().expect("report").streams[0];
    // 25 bursts of 400 frames, ten of them in the window.
    assert_eq!((stream.sent, stream.missed, stream.missed_window), (0, 10_000, 4_000));
}

#[test]
fn a_poisson_process_has_the_mean_rate_and_its_spread() {
    let due = schedule(Timing::Poisson { seed: 7 }, 100_000_000, 4_000);
    let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 10_000.0).collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let spread = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
    // Six standard errors.
    assert!((mean - 1.0).abs() < 0.1 && (spread - 1.0).abs() < 0.15, "{mean} {spread}");
    assert_ne!(due, schedule(Timing::Poisson { seed: 8 }, 100_000_000, 4_000));
    assert_eq!(due, schedule(Timing::Poisson { seed: 7 }, 100_000_000, 4_000));
}

#[test]
fn a_timing_needs_one_rate() {
    let mut rising = of_rates(&[1_000_000]).remove(0);
    rising.segments[0].end_rate_millipps *= 2;
    let constant = of_rates(&[1_000_000]).remove(0);
    let bursts = |on_ns, period_ns| Timing::Bursts { on_ns, period_ns };
    for (only, timing, word) in [
        (&rising, Timing::Poisson { seed: 1 }, "timing"),
        (&rising, bursts(1, 2), "timing"),
        (&constant, Timing::Poisson { seed: 0 }, "seed"),
        (&constant, bursts(5, 5), "on_ns"),
        (&constant, bursts(0, 5), "on_ns"),
    ] {
        let only = StreamSpec { timing, ..only.clone() };
        let mut generator = Generator::load(spec(vec![only])).expect("loads");
        let refused = generator.arm(monotonic_ns(), 1).expect_err("it cannot be sent");
        assert!(refused.to_string().contains(word), "{refused}");
    }
}

#[test]
fn a_loaded_program_takes_another_trial_that_fits() {
    let mut generator = armed(vec![stream(false, &[64], 5), stream(false, &[128], 2)]);
    for _ in 0..7 {
        next_frame(&generator);
    }
    assert!(generator.report().expect("report").streams[0].sent > 0);
    let mut other = spec(vec![stream(true, &[128], 3), stream(false, &[64], 1)]);
    other.window_start_ns = 1;
    assert!(generator.reuse(other).expect("does not run"));
    generator.arm(monotonic_ns() - 1_000_000_000, 1).expect("arms");
    let before = generator.report().expect("report");
    assert!(before.streams.iter().all(|stream| *stream == StreamReport::default()));
    assert_eq!((before.iterations, before.failed, before.calls), (0, 0, 0));
    let mut lengths = vec![next_frame(&generator).1.len(), next_frame(&generator).1.len()];
    lengths.sort_unstable();
    assert_eq!(lengths, [60, 124], "the new streams' frames, from the first one on");
    for misfit in [
        spec(vec![stream(false, &[128], 1)]),
        spec(vec![stream(false, &[64], 1), stream(false, &[256], 1)]),
        GeneratorSpec {
            cookie: 1,
            ..spec(vec![stream(false, &[64], 1), stream(false, &[128], 1)])
        },
        GeneratorSpec {
            bin_ns: 1_000_000_000,
            ..spec(vec![stream(false, &[64], 1), stream(false, &[128], 1)])
        },
    ] {
        assert!(!generator.reuse(misfit).expect("does not run"));
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
    slow.segments[0].start_rate_millipps = 250_000_000;
    slow.segments[0].end_rate_millipps = 250_000_000;
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
fn slow_ones_among_20(late_ns: u64, turns_ns: u64, max_late_ns: u64) -> usize {
    let at = |rate_millipps| {
        let mut spec = stream(false, &[64], 1);
        spec.segments[0].start_rate_millipps = rate_millipps;
        spec.segments[0].end_rate_millipps = rate_millipps;
        spec
    };
    let streams = spec(vec![at(100_000_000), at(25_000_000)]);
    let mut generator = Generator::load_with(streams, turns_ns, max_late_ns).expect("loads");
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
    // In the first 160 us 16 frames of the fast stream are due, and 4 of the slow one. However late
    // the machine makes this test, nobody takes turns and nothing is given up.
    assert_eq!(slow_ones_among_20(400_000, HOUR_NS, HOUR_NS), 4);
}

#[test]
fn a_generator_that_is_much_too_late_takes_turns() {
    // Catching up is limited to bursts of 64 frames, which 20 are within.
    assert_eq!(slow_ones_among_20(1_000_000_000, TURNS_NS, MAX_LATE_NS), 10);
}

/// How late the frame left, ns, by its stamp.
fn lateness_of(frame: &[u8]) -> u64 {
    u64::from_le_bytes(frame[42..50].try_into().expect("8 bytes")) >> 43
}

#[test]
fn what_is_over_a_millisecond_late_never_leaves_and_counts_as_missed() {
    let mut rates = of_rates(&[100_000_000]);
    // Each frame of a ramp is skipped by itself, four a call; those of the last part are at once,
    // so that the generator catches up with a machine that stops for longer than the ramp.
    let part = |duration_ns, start_rate_millipps, end_rate_millipps| Segment {
        duration_ns,
        start_rate_millipps,
        end_rate_millipps,
    };
    rates[0].segments = vec![
        part(2_000_000, 100_000_000, 100_000_000),
        part(1_000_000, 0, 0),
        part(1_000_000, 100_000_000, 110_000_000),
        part(HOUR_NS, 100_000_000, 100_000_000),
    ];
    let mut generator = Generator::load(spec(rates)).expect("loads");
    let start_ns = monotonic_ns() - 5_000_000;
    generator.arm(start_ns, 1).expect("arms");
    let frames: Vec<_> = (0..100).map(|_| next_frame(&generator)).collect();
    let late_ns: Vec<u64> = frames
        .iter()
        .filter(|(verdict, _)| *verdict == XDP_REDIRECT)
        .map(|(_, frame)| lateness_of(frame))
        .collect();
    assert!(late_ns.iter().all(|&ns| ns <= MAX_LATE_NS), "{late_ns:?}");
    // 27 calls only skip; after that the limit of bursts lets 64 frames out however fast calls are.
    assert!(late_ns.len() >= 64, "{late_ns:?}");
    let stream = generator.report().expect("report").streams[0];
    assert_eq!(stream.sent, late_ns.len() as u64);
    // 201 from 0 to 2 ms, both included, and the ramp's 105; more when this test is slow.
    let latest = (monotonic_ns() - start_ns) / 10_000;
    assert!((306..=latest).contains(&stream.missed), "{stream:?} of {latest}");
}

fn of_rates(rates_millipps: &[u64]) -> Vec<StreamSpec> {
    let streams = rates_millipps.iter().map(|&rate_millipps| {
        let mut spec = stream(false, &[64], 1);
        spec.segments[0].start_rate_millipps = rate_millipps;
        spec.segments[0].end_rate_millipps = rate_millipps;
        spec
    });
    streams.collect()
}

/// The stream of each of the next frames.
fn departures(generator: &Generator, frames: usize) -> Vec<usize> {
    let sent = (0..frames).map(|_| {
        let (verdict, frame) = next_frame(generator);
        assert_eq!(verdict, XDP_REDIRECT);
        usize::from(frame[53])
    });
    sent.collect()
}

/// The same by sorting the departures of the whole schedule.
fn by_schedule(rates_millipps: &[u64], frames: usize) -> Vec<usize> {
    let count = rates_millipps.len() as u64;
    let mut due = Vec::new();
    for (index, &rate_millipps) in rates_millipps.iter().enumerate() {
        let interval = interval_q16_ns(rate_millipps);
        let phase = ((interval >> 16) * index as u64 / count) << 16;
        due.extend((0..frames as u64).map(|n| (phase + n * interval, index)));
    }
    due.sort_unstable();
    due.into_iter().take(frames).map(|(_, index)| index).collect()
}

#[test]
fn any_number_of_streams_keeps_the_order_of_the_schedule() {
    for count in [1usize, 2, 4, 5, 8, 64, 256] {
        // Rates that differ up to five times; nobody sends more than a burst of 64.
        let rates: Vec<u64> =
            (0..count).map(|index| 60_000_000 + index as u64 * 79_190_017 % 255_000_000).collect();
        // However late the machine makes this test, nobody takes turns.
        let mut generator =
            Generator::load_with(spec(of_rates(&rates)), HOUR_NS, HOUR_NS).expect("loads");
        generator.arm(monotonic_ns() - 1_000_000_000, 1).expect("arms");
        let frames = 20 * count;
        assert_eq!(departures(&generator, frames), by_schedule(&rates, frames), "{count} streams");
    }
}

#[test]
fn under_overload_slow_streams_get_all_and_fast_ones_share_the_rest() {
    for count in [8usize, 64] {
        // Two streams want a frame in 10 ms; each other one wants more than a core can send.
        let slow = [2, count - 2];
        let rates: Vec<u64> = (0..count)
            .map(|index| if slow.contains(&index) { 100_000 } else { 16_000_000_000 })
            .collect();
        let streams = spec(of_rates(&rates));
        let mut generator = Generator::load_with(streams, TURNS_NS, HOUR_NS).expect("loads");
        let start_ns = monotonic_ns() - 100_000_000;
        generator.arm(start_ns, 1).expect("arms");
        let sent = departures(&generator, 100 * count);
        let due = (monotonic_ns() - start_ns) / 10_000_000 + 1;
        let of = |stream| sent.iter().filter(|&&found| found == stream).count();
        for stream in slow {
            assert!((9..=due).contains(&(of(stream) as u64)), "{stream}: {} of {due}", of(stream));
        }
        let fast: Vec<usize> = (0..count).filter(|stream| !slow.contains(stream)).map(of).collect();
        let (min, max) = (fast.iter().min().expect("some"), fast.iter().max().expect("some"));
        assert!(max - min <= 1, "{fast:?}");
    }
}

#[test]
fn a_silent_stretch_sends_nothing_and_a_ramp_its_area() {
    let mut shape = stream(false, &[64], 1);
    let part = |duration_ns, start_rate_millipps, end_rate_millipps| Segment {
        duration_ns,
        start_rate_millipps,
        end_rate_millipps,
    };
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
fn every_frame_is_in_the_bin_of_its_departure() {
    let rates = [10_000_000, 40_000_000];
    let mut spec = spec(of_rates(&rates));
    (spec.end_ns, spec.bin_ns) = (600_000_000_000, 2_000_000);
    let mut generator = Generator::load(spec).expect("loads");
    let start_ns = monotonic_ns();
    generator.arm(start_ns, 1).expect("arms");
    // By bin, however long this takes.
    let mut expected = vec![BTreeMap::<usize, u64>::new(); 2];
    for _ in 0..1_000 {
        let (verdict, frame) = next_frame(&generator);
        if verdict == XDP_REDIRECT {
            let stamp = u64::from_le_bytes(frame[42..50].try_into().expect("8 bytes"));
            let since_ns = stamp.wrapping_sub(start_ns) & ((1 << 43) - 1);
            let bin = usize::try_from(since_ns / 2_000_000).expect("small");
            *expected[usize::from(frame[53])].entry(bin).or_default() += 1;
        }
    }
    let found = generator.series().expect("series");
    for (found, expected) in found.iter().zip(&expected) {
        let filled = found.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        assert_eq!(&filled.collect::<BTreeMap<_, _>>(), expected);
    }
    let bins = expected.iter().map(BTreeMap::len).max();
    assert!(bins > Some(1), "frames of several bins");
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_limits() {
    for (bad, key) in [
        (stream(true, &[64], 1), "frame_size"),
        (stream(false, &[1519], 1), "frame_size"),
        (stream(false, &[64], 0), "flows"),
    ] {
        let mut generator = Generator::load(spec(vec![bad])).expect("loads");
        let error = generator.arm(0, 1).expect_err("refused").to_string();
        assert!(error.contains(key) && error.contains("accepted"), "{error}");
    }
}
