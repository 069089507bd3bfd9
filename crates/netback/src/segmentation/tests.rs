use proptest::prelude::*;

use super::*;
use crate::frame::NET_HEADER_BYTES;

/// A merged frame, its header, and what Linux divides it into.
struct Recorded {
    name: &'static str,
    header: NetHeader,
    merged: Vec<u8>,
    segments: Vec<Vec<u8>>,
}

fn recorded() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for line in include_str!("../../tests/data/segments.txt").lines() {
        let (what, rest) = line.split_once(' ').unwrap();
        let last = all.last_mut();
        match (what, last) {
            ("case", _) => all.push(Recorded {
                name: rest,
                header: NetHeader::default(),
                merged: Vec::new(),
                segments: Vec::new(),
            }),
            ("header", Some(case)) => {
                let mut bytes = bytes(rest);
                bytes.resize(NET_HEADER_BYTES, 0);
                case.header = NetHeader::parse(bytes.first_chunk().unwrap());
            }
            ("merged", Some(case)) => case.merged = bytes(rest),
            ("segment", Some(case)) => case.segments.push(bytes(rest)),
            _ => assert_eq!(what, "#"),
        }
    }
    all
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn case(name: &str) -> Recorded {
    recorded().into_iter().find(|case| case.name == name).unwrap()
}

fn divided(frame: &[u8], division: Division) -> Vec<Vec<u8>> {
    let mut segment = [0; MAX_FRAME_BYTES];
    let each = |number| {
        let bytes = division.write(number, frame, &mut segment);
        segment[..bytes].to_vec()
    };
    (0..division.segments()).map(each).collect()
}

#[test]
fn frames_are_divided_as_linux_does_it() {
    let cases = recorded();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let division = Division::of(&case.merged, case.header).expect(case.name);
        assert_eq!(divided(&case.merged, division), case.segments, "{}", case.name);
    }
}

/// The sums of each segment's transport with this pseudo header's addresses: of what is right, all ones.
fn sums(segments: &[Vec<u8>], addresses: &[u8], transport: usize, protocol: u8) -> Vec<u16> {
    let of = |segment: &Vec<u8>| {
        let bytes = (segment.len() - transport) as u64;
        !complement(sum(addresses) + u64::from(protocol) + bytes + sum(&segment[transport..]))
    };
    segments.iter().map(of).collect()
}

#[test]
fn behind_a_routing_header_the_sum_is_that_of_the_last_address() {
    for (name, protocol, offset) in [("tcp over ipv6", TCP, 16), ("udp over ipv6", UDP, 6)] {
        let Recorded { merged, header, .. } = case(name);
        let last = [&[0xfd][..], &[0x77; 15]].concat();
        let source = merged[22..38].to_vec();
        let routing = |left| [&[protocol, 2, 4, left, 0, 0, 0, 0][..], &last].concat();
        let routed = |left| {
            let mut frame = [&merged[..54], &routing(left), &merged[54..]].concat();
            frame[20] = 43;
            let bytes = frame.len() - 54;
            put(&mut frame, 18, bytes);
            frame
        };
        let header = NetHeader { csum_start: 78, csum_offset: offset, ..header };
        // As senders leave it: the sum of the pseudo header, with the length of all.
        let mut frame = routed(1);
        let bytes = frame.len() - 78;
        let pseudo = sum(&source) + sum(&last) + u64::from(protocol) + bytes as u64;
        put(&mut frame, 78 + usize::from(offset), (!complement(pseudo)).into());
        let segments = divided(&frame, Division::of(&frame, header).unwrap());
        assert!(segments.len() > 1);
        let addresses = [&source[..], &last].concat();
        assert_eq!(sums(&segments, &addresses, 78, protocol), vec![0xffff; segments.len()]);
        // What nobody tells cannot be known; once it has arrived, the address is in its header.
        assert_eq!(Division::of(&frame, NetHeader { flags: 0, ..header }), None);
        let arrived = routed(0);
        let segments =
            divided(&arrived, Division::of(&arrived, NetHeader { flags: 0, ..header }).unwrap());
        assert_eq!(sums(&segments, &merged[22..54], 78, protocol), vec![0xffff; segments.len()]);
    }
}

#[test]
fn a_datagrams_checksum_is_never_zero() {
    let Recorded { mut merged, header, .. } = case("udp over ipv4");
    let division = Division::of(&merged, header).unwrap();
    let mut segment = [0; MAX_FRAME_BYTES];
    for word in 0..=u16::MAX {
        merged[42..44].copy_from_slice(&word.to_be_bytes());
        let _ = division.write(0, &merged, &mut segment);
        // Zero would say that there is none.
        assert_ne!(segment[40..42], [0, 0], "{word:04x}");
    }
}

#[test]
fn a_merged_frame_is_sent_segment_by_segment() {
    let case = case("tcp over ipv4, all flags");
    let division = Division::of(&case.merged, case.header).unwrap();
    let mut buffer = vec![0; MAX_MERGED_BYTES];
    buffer[..case.merged.len()].copy_from_slice(&case.merged);
    let mut merged = Merged::default();
    assert_eq!((merged.left(), merged.next(&mut [])), (0, None));
    for _ in 0..2 {
        let copy = buffer.clone();
        merged.begin(&mut buffer, case.merged.len(), division);
        assert_eq!(buffer.len(), MAX_MERGED_BYTES);
        for (number, expected) in case.segments.iter().enumerate() {
            assert_eq!(merged.left(), case.segments.len() - number);
            let bytes = merged.next(&mut buffer).unwrap();
            assert_eq!(buffer[..bytes], expected[..]);
        }
        assert_eq!((merged.left(), merged.next(&mut buffer)), (0, None));
        buffer = copy;
    }
}

#[test]
fn what_is_not_as_its_header_says_is_not_divided() {
    let Recorded { merged: tcp, header, .. } = case("tcp over ipv4, all flags");
    assert!(Division::of(&tcp, header).is_some());
    let refused = |header| assert_eq!(Division::of(&tcp, header), None, "{header:?}");
    refused(NetHeader { gso_size: 0, ..header });
    refused(NetHeader { gso_type: NetHeader::TCP_IPV6, ..header });
    refused(NetHeader { gso_type: NetHeader::UDP_SEGMENTS, ..header });
    refused(NetHeader { gso_type: 3, ..header });
    refused(NetHeader { csum_start: 35, ..header });
    let changed = |at: usize, to: u8| {
        let mut frame = tcp.clone();
        frame[at] = to;
        assert_eq!(Division::of(&frame, header), None, "byte {at}: {to}");
    };
    changed(12, 9); // no IP
    changed(14, 0x65); // another version
    changed(14, 0x44); // a header that is too short
    changed(14, 0x4f); // one that leads elsewhere
    changed(20, 0x20); // more fragments
    changed(21, 1); // a later fragment
    changed(23, 50); // neither TCP nor UDP
    changed(46, 0x40); // a TCP header that is too short
    let mut long = tcp.clone();
    long.resize(3_000, 0);
    assert_eq!(Division::of(&long, NetHeader { gso_size: 1_469, ..header }), None);
    assert!(Division::of(&long, NetHeader { gso_size: 1_468, ..header }).is_some());
    assert_eq!(Division::of(&tcp[..54], header), None, "no payload");
    let Recorded { merged: mut udp, header, .. } = case("udp over ipv6");
    assert!(Division::of(&udp, header).is_some());
    udp[20] = 44;
    assert_eq!(Division::of(&udp, header), None, "a fragment of IPv6");
}

proptest! {
    /// Whatever a guest writes: nothing panics, and no byte of payload is lost or comes twice.
    #[test]
    fn hostile_frames_are_divided_wholly_or_not_at_all(
        number in 0usize..9, cut in 0usize..300, size: u16, kind in prop::sample::select(vec![1u8, 4, 5]),
        changes in prop::collection::vec((0usize..100, any::<u8>()), 0..4), needs_checksum: bool,
    ) {
        let Recorded { mut merged, header, .. } = recorded().swap_remove(number);
        merged.truncate(merged.len().saturating_sub(cut));
        for (at, to) in changes {
            if let Some(byte) = merged.get_mut(at) {
                *byte = to;
            }
        }
        let flags = u8::from(needs_checksum);
        let header = NetHeader { gso_size: size % 400, gso_type: kind, flags, ..header };
        if let Some(division) = Division::of(&merged, header) {
            let segments = divided(&merged, division);
            let payload: Vec<u8> =
                segments.iter().flat_map(|one| one[division.headers..].to_vec()).collect();
            prop_assert_eq!(&payload, &merged[division.headers..]);
        }
    }
}
