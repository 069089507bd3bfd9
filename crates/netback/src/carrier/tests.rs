use proptest::prelude::*;

use super::*;

const UP: u32 = 0x1;
const RUNNING: u32 = 0x40;
const LOWER_UP: u32 = 0x1_0000;
const BRIDGE: u8 = 7;

/// A message about an interface, with an attribute behind it.
fn message(kind: u16, family: u8, ifindex: u32, flags: u32) -> Vec<u8> {
    let mut message = request(ifindex).to_vec();
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[HEADER_BYTES] = family;
    message[HEADER_BYTES + 8..][..4].copy_from_slice(&flags.to_ne_bytes());
    message.extend([7, 0, 3, 0, b'n', b'0', 0, 0]); // IFLA_IFNAME
    let bytes = message.len() as u32 - 1; // without what fills it up
    message[..4].copy_from_slice(&bytes.to_ne_bytes());
    message
}

fn told(datagram: &[u8]) -> Vec<(u32, bool)> {
    let mut found = Vec::new();
    read(datagram, &mut |ifindex, has_carrier| found.push((ifindex, has_carrier)));
    found
}

#[test]
fn an_interface_sends_when_it_is_up_has_a_carrier_and_linkwatch_knows() {
    let all = UP | RUNNING | LOWER_UP;
    let cases = [
        (all | 0x1002, true),
        (0x1002, false),
        (UP, false),
        (UP | RUNNING, false),  // it has just lost it
        (UP | LOWER_UP, false), // it has just got it
        (RUNNING | LOWER_UP, false),
    ];
    for (flags, is_there) in cases {
        assert_eq!(told(&message(libc::RTM_NEWLINK, 0, 7, flags)), [(7, is_there)], "{flags:#x}");
    }
    assert_eq!(told(&message(libc::RTM_DELLINK, 0, 7, all)), [(7, false)], "it is gone");
}

#[test]
fn what_a_bridge_tells_of_its_ports_and_other_messages_are_passed_over() {
    let all = UP | RUNNING | LOWER_UP;
    let mut datagram = message(libc::RTM_DELLINK, BRIDGE, 7, all);
    datagram.extend(message(libc::RTM_NEWADDR, 0, 7, 0));
    datagram.extend(message(libc::RTM_NEWLINK, 0, 8, all));
    datagram.extend(message(libc::RTM_NEWLINK, 0, 9, 0));
    assert_eq!(told(&datagram), [(8, true), (9, false)]);
}

#[test]
fn an_interface_of_which_nobody_tells_is_sent_to() {
    let mut message = request(7).to_vec();
    message[4..6].copy_from_slice(&ERROR.to_ne_bytes());
    assert_eq!(told(&message), [], "0 is no error");
    message[HEADER_BYTES..][..4].copy_from_slice(&(-libc::ENOMEM).to_ne_bytes());
    assert_eq!(told(&message), [(7, true)]);
    assert_eq!(told(&message[..HEADER_BYTES + 3]), [], "it is not told which error");
}

#[test]
fn lengths_that_lie_end_nothing() {
    let whole = message(libc::RTM_NEWLINK, 0, 7, UP);
    for bytes in 0..REQUEST_BYTES {
        assert_eq!(told(&whole[..bytes]), [], "{bytes}");
    }
    assert_eq!(told(&whole[..REQUEST_BYTES]), [(7, false)], "the kernel has cut off the rest");
    for bytes in [0, HEADER_BYTES as u32 - 1] {
        let mut short = whole.clone();
        short[..4].copy_from_slice(&bytes.to_ne_bytes());
        assert_eq!(told(&short), [], "{bytes}");
    }
    let mut long = whole.clone();
    long[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(told(&long), [(7, false)]);
}

proptest! {
    #[test]
    fn any_bytes_are_read(datagram in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(told(&datagram).len() <= datagram.len() / HEADER_BYTES);
    }
}

#[test]
fn the_kernel_answers_about_one_interface() {
    let loopback = 1;
    let mut carriers = Carriers::new().unwrap();
    carriers.ask(loopback).unwrap();
    let mut found = Vec::new();
    assert!(carriers.hear(|ifindex, _| found.push(ifindex)));
    assert!(found.contains(&loopback), "it answers before the question returns: {found:?}");
    carriers.ask(i32::MAX.unsigned_abs()).unwrap();
    let mut found = Vec::new();
    carriers.hear(|ifindex, is_there| found.push((ifindex, is_there)));
    assert!(found.contains(&(i32::MAX.unsigned_abs(), true)), "there is no such one: {found:?}");
}
