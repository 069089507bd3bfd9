use crate::{
    NetHeader, PortSettings,
    admission::Admission,
    test_guest::{self, TestGuest, settings},
    test_support::{LO, in_network_namespace},
};

use super::*;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A frame of this length from an address, of IPv4.
fn frame(from: [u8; 6], bytes: usize) -> Vec<u8> {
    let mut frame = [&OTHER[..], &from, &[8, 0]].concat();
    frame.resize(bytes, 0x5a);
    frame
}

/// What becomes of a frame that the port's guest transmits: as it is on the uplink; None: it is dropped.
fn taken(
    port: &mut Port,
    guest: &mut TestGuest,
    header: NetHeader,
    frame: &[u8],
) -> Option<(Vec<u8>, NetHeader)> {
    guest.transmit(header, frame);
    let mut buffer = vec![0; MAX_MERGED_BYTES];
    let (bytes, header) = port.next_frame(&mut buffer).unwrap().expect("it was transmitted");
    assert!(port.finish(0));
    (bytes > 0).then(|| (buffer[..bytes].to_vec(), header))
}

fn sum_at(csum_start: u16, csum_offset: u16) -> NetHeader {
    NetHeader { flags: 1, csum_start, csum_offset, ..NetHeader::NONE }
}

#[test]
fn a_checksum_that_is_left_to_do_changes_neither_tag_nor_source() {
    let vlan = Some(7);
    let (mut port, mut guest) = test_guest::port(PortSettings { vlan, ..settings(1) });
    let mut taken = |header, frame: &[u8]| taken(&mut port, &mut guest, header, frame);
    // The last one would end behind the frame.
    for (start, offset) in [(0, 14), (0, 12), (0, 10), (4, 8), (13, 1), (14, 45)] {
        assert_eq!(taken(sum_at(start, offset), &frame(OWN, 60)), None, "{start} {offset}");
    }
    let (tagged, header) = taken(sum_at(34, 16), &frame(OWN, 60)).expect("as senders of TCP do it");
    assert_eq!((tagged.len(), &tagged[12..18]), (64, &[0x81, 0, 0, 7, 8, 0][..]));
    assert_eq!((header.csum_start, header.csum_offset), (38, 16));
    assert_eq!((port.counters.malformed, port.counters.wrong_source), (6, 0));
}

#[test]
fn no_frame_is_longer_than_the_mtu_but_one_that_is_to_be_divided() {
    let nic = NicSettings { mtu: 1_000, ..settings(1).nic };
    let plain = NetHeader::NONE;
    let merged = NetHeader { gso_type: NetHeader::TCP_IPV4, gso_size: 900, ..sum_at(34, 16) };
    for vlan in [None, Some(7)] {
        let (mut port, mut guest) = test_guest::port(PortSettings { nic, vlan, ..settings(1) });
        let mut passes =
            |header, frame: &[u8]| taken(&mut port, &mut guest, header, frame).is_some();
        assert!(passes(plain, &frame(OWN, 1_014)) && !passes(plain, &frame(OWN, 1_015)));
        assert!(!passes(sum_at(34, 16), &frame(OWN, 1_015)));
        assert!(passes(merged, &frame(OWN, 3_000)));
        assert_eq!(port.counters.malformed, 2);
    }
    let (mut port, mut guest) = test_guest::port(PortSettings { nic, ..settings(1) });
    let tagged = |bytes: usize| {
        let mut tagged = frame(OWN, bytes + 4);
        tagged[12..18].copy_from_slice(&[0x81, 0, 0, 7, 8, 0]);
        tagged
    };
    assert!(taken(&mut port, &mut guest, plain, &tagged(1_014)).is_some(), "tags do not count");
    assert!(taken(&mut port, &mut guest, plain, &tagged(1_015)).is_none());
}

#[test]
fn what_the_kernel_refuses_for_a_container_is_not_delivered() {
    in_network_namespace(|| {
        let attachment = Attachment::Interface("lo".to_owned());
        let mut port = Port::new(settings(1), attachment, &Carriers::new().unwrap()).unwrap();
        port.interface_mut().unwrap().set_carrier(LO, true, 0);
        // The second one's checksum would lie behind the frame.
        for header in [NetHeader::NONE, sum_at(500, 16)] {
            let delivered = port.offer(&frame(OTHER, 60), header).unwrap();
            assert_eq!(delivered, Delivered::Written { buffers: 1 });
            assert!(port.finish(0));
        }
        let counted = port.counted();
        assert_eq!((counted.delivered, counted.too_long), (1, 1));
    });
}

#[test]
fn the_window_for_a_guest_is_as_wide_as_it_has_buffers() {
    let admission = Admission::alone(1);
    let (mut port, mut guest) = test_guest::port(settings(1));
    port.gate = Some(admission.gate(0));
    let window = |port: &mut Port| {
        assert!(port.finish(0));
        admission.windows()[2]
    };
    let before = window(&mut port);
    (0..9).for_each(|_| guest.provide(2048));
    assert_eq!(window(&mut port), before, "nobody has sent it anything");
    port.took();
    assert!(matches!(
        port.offer(&frame(OTHER, 60), NetHeader::NONE),
        Ok(Delivered::Written { .. })
    ));
    assert_eq!(window(&mut port), 8);
    (0..7).for_each(|_| guest.provide(2048));
    assert_eq!(window(&mut port), 15, "few, so it is looked at again");
    port.guest_mut().unwrap().disconnect();
    assert_eq!(window(&mut port), before, "its frames are counted as such without a guest");
}
