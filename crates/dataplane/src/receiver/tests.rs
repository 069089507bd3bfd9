use super::*;
use crate::test_run::packet_through;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const COOKIE: u16 = 0x1234;

fn receiver(cookie: Option<u16>) -> Receiver {
    Receiver::attach(&ReceiverSpec {
        interfaces: Vec::new(),
        cookie,
        flows: vec![4, 4],
        series_ns: 50_000_000,
    })
    .expect("loads")
}

const TIME_MASK: u64 = (1 << 43) - 1;

/// A minimal frame as a generator sends it, sent `age_ns` ago.
fn frame(flow: u32, seq: u32, age_ns: u64) -> Vec<u8> {
    late_frame(flow, seq, age_ns, 0)
}

/// The same, sent `late_ns` after it was due.
fn late_frame(flow: u32, seq: u32, age_ns: u64, late_ns: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; 60];
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    bytes[14] = 0x45;
    bytes[23] = 17;
    bytes[42..50].copy_from_slice(
        &((crate::monotonic_ns() - age_ns) & TIME_MASK | (late_ns << 43)).to_le_bytes(),
    );
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
        assert_eq!((count.reordered, count.duplicated), (reordered, duplicated), "{sequence:?}");
    }
}

/// An ICMP message of a type, with the signature that an echo reply has.
fn icmp(v6: bool, kind: u8) -> Vec<u8> {
    let udp = frame(0, 0, 0);
    if !v6 {
        let mut bytes = udp;
        (bytes[23], bytes[34]) = (1, kind);
        return bytes;
    }
    let mut bytes = [&udp[..14], &[0; 40], &udp[34..]].concat();
    bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    (bytes[20], bytes[54]) = (58, kind);
    bytes
}

#[test]
fn echoes_count_and_errors_that_quote_frames_do_not() {
    const UNREACHABLE: [u8; 2] = [3, 1];
    for (v6, echoes) in [(false, [8, 0]), (true, [128, 129])] {
        let receiver = receiver(Some(COOKIE));
        let verdict = |kind| packet_through(&receiver.skel.progs.isl_receive, &icmp(v6, kind)).0;
        assert_eq!(echoes.map(verdict), [XDP_DROP; 2]);
        assert_eq!(verdict(UNREACHABLE[usize::from(v6)]), XDP_PASS);
        assert_eq!(receiver.counts().expect("counts")[0].received, 2);
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
        ("a later fragment", with(20, &[0x20, 1])),
        ("cut short", good[..59].to_vec()),
        ("Ethernet alone", good[..14].to_vec()),
    ];
    let receiver = receiver(Some(COOKIE));
    for (name, packet) in &table {
        let (verdict, out) = packet_through(&receiver.skel.progs.isl_receive, packet);
        assert_eq!((verdict, &out), (XDP_PASS, packet), "{name}");
    }
    assert_eq!(receiver.other_frames(), table.len() as u64);
    assert_eq!(receiver.counts().expect("counts")[0], StreamCount::default());
}

#[test]
fn a_first_fragment_is_one_of_ours() {
    let receiver = receiver(Some(COOKIE));
    let mut packet = frame(0, 0, 0);
    packet[20] = 0x20;
    assert_eq!(packet_through(&receiver.skel.progs.isl_receive, &packet).0, XDP_DROP);
    assert_eq!(receiver.counts().expect("counts")[0].received, 1);
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
    let median = delays.quantile_ns(5_000).expect("not empty");
    assert!(median >= 990_000, "sent 1 ms ago: {median}");
    assert_eq!(receiver.delays(1).expect("delays").count(), 0);
    receiver.reset().expect("resets");
    assert_eq!(receiver.counts().expect("counts")[0], StreamCount::default());
    assert_eq!(receiver.delays(0).expect("delays").count(), 0);
}

#[test]
fn the_delay_from_the_due_time_is_longer_by_the_lateness() {
    let receiver = receiver(Some(COOKIE));
    let in_window = 1u32 << 23;
    for seq in 0..8 {
        let packet = late_frame(in_window, seq, 2_000_000, 900_000);
        packet_through(&receiver.skel.progs.isl_receive, &packet);
    }
    let count = receiver.counts().expect("counts")[0];
    assert_eq!((count.received_window, count.negative), (8, 0));
    assert_eq!(count.due_sum_ns - count.delay_sum_ns, 8 * 900_000);
    assert_eq!(count.due_max_ns - count.delay_max_ns, 900_000);
    let medians = [receiver.delays(0), receiver.due_delays(0)]
        .map(|delays| delays.expect("delays").quantile_ns(5_000).expect("not empty"));
    let (added, error) = (medians[1] - medians[0], medians[1] / 32);
    assert!(added.abs_diff(900_000) <= error, "{medians:?}");
}

#[test]
fn a_frame_that_arrives_before_it_was_sent_is_counted_and_not_a_delay() {
    let receiver = receiver(Some(COOKIE));
    let mut early = frame(1 << 23, 0, 0);
    // However long the frame takes from here it is early; stamps tell up to 4,398 s from late.
    let stamp = (crate::monotonic_ns() + 1_000_000_000_000) & TIME_MASK;
    early[42..50].copy_from_slice(&stamp.to_le_bytes());
    packet_through(&receiver.skel.progs.isl_receive, &early);
    packet_through(&receiver.skel.progs.isl_receive, &frame(1 << 23, 1, 1_000));
    let count = receiver.counts().expect("counts")[0];
    assert_eq!((count.received_window, count.negative), (2, 1));
    assert_eq!(receiver.delays(0).expect("delays").count(), 1);
    assert_eq!(receiver.due_delays(0).expect("delays").count(), 1);
}

#[test]
fn arrivals_are_in_their_bins_and_gaps_in_their_histogram() {
    let mut receiver = receiver(Some(COOKIE));
    let in_window = 1u32 << 23;
    let program = &receiver.skel.progs.isl_receive;
    packet_through(program, &frame(in_window, 0, 0));
    assert_eq!(receiver.series(0).expect("series").received, [0; 5], "not begun");
    // The second of five bins of 10 ms; however slow this machine is, the frames are in order.
    let start_ns = crate::monotonic_ns() - 12_000_000;
    receiver.begin(start_ns).expect("begins");
    let program = &receiver.skel.progs.isl_receive;
    let (mut times, mut bins) = (Vec::new(), [0u64; 5]);
    for seq in 1..=20 {
        let before_ns = crate::monotonic_ns();
        packet_through(program, &frame(in_window, seq, 2_000_000));
        let after_ns = crate::monotonic_ns();
        times.push((before_ns, after_ns));
        let (first, last) =
            ((before_ns - start_ns) / 10_000_000, (after_ns - start_ns) / 10_000_000);
        if first == last && first < 5 {
            bins[usize::try_from(first).expect("small")] += 1;
        }
    }
    let found = receiver.series(0).expect("series");
    for (bin, (&received, &sure)) in found.received.iter().zip(&bins).enumerate() {
        assert!(received >= sure, "bin {bin}: {received} of {sure}");
        let p99_ns = found.delay_p99_ns[bin];
        assert_eq!(p99_ns.is_none(), received == 0);
        assert!(p99_ns.is_none_or(|p99_ns| p99_ns >= 1_870_000), "sent 2 ms before: {p99_ns:?}");
    }
    assert!(found.received.iter().sum::<u64>() <= 20);
    assert_eq!(receiver.series(1).expect("series").received, [0; 5]);
    let gaps = receiver.gaps(0).expect("gaps");
    let in_series = found.received.iter().sum::<u64>();
    assert_eq!(gaps.iter().copied().map(u64::from).sum::<u64>(), in_series - 1);
    let longest = gaps.iter().rposition(|&count| count > 0).expect("some");
    let limit_ns = times.windows(2).map(|pair| pair[1].1 - pair[0].0).max().expect("some");
    assert!(isolane_histogram::bounds_ns(longest).0 <= limit_ns);
    receiver.reset().expect("resets");
    assert_eq!(receiver.series(0).expect("series").received, [0; 5]);
    assert!(receiver.gaps(0).expect("gaps").iter().all(|&count| count == 0));
    assert!(receiver.series(2).is_err() && receiver.gaps(2).is_err());
}
