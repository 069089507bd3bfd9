use std::time::{Duration, Instant};

use super::*;
use crate::test_support::{LO, in_network_namespace};

/// An interface whose frames arrive where they are sent.
fn with_loopback(act: impl FnOnce(Interface) + Send + 'static) {
    in_network_namespace(|| {
        let mut interface = Interface::new(Slots { receive: 64, send: 32 }).unwrap();
        interface.bind(LO).unwrap();
        interface.set_carrier(true);
        act(interface);
    });
}

/// The next frame that has arrived.
fn arrived(interface: &mut Interface) -> Vec<u8> {
    let end = Instant::now() + Duration::from_secs(120);
    let mut found = Vec::new();
    let mut keep = |frame: &mut [u8], _| {
        found = frame.to_vec();
        true
    };
    while interface.receive_one(&mut keep).is_none() {
        assert!(Instant::now() < end, "nothing arrives");
        std::thread::yield_now();
    }
    found
}

fn frame(number: u8, bytes: usize) -> Vec<u8> {
    let mut frame = [&[0; 12][..], &[0x88, 0xb5]].concat();
    frame.resize(bytes, number);
    frame
}

#[test]
fn a_frame_that_the_kernel_refuses_is_counted_and_those_behind_it_are_sent() {
    with_loopback(|mut interface| {
        // It would lie behind the frame's end.
        let odd = NetHeader { flags: 1, csum_start: 500, csum_offset: 16, ..NetHeader::NONE };
        for number in 0..100 {
            interface.push(&frame(number, 100), NetHeader::NONE);
            interface.push(&frame(number, 100), odd);
            interface.push(&frame(number, 200), NetHeader::NONE);
            interface.flush();
            for bytes in [100, 200] {
                assert_eq!(arrived(&mut interface), frame(number, bytes));
            }
        }
        let counters = interface.counters();
        assert_eq!((counters.sent, counters.refused, counters.received), (200, 100, 200));
        assert_eq!((interface.state, interface.unsent), (State::Ready, 0));
    });
}

#[test]
fn a_short_frame_is_filled_up_with_zeros() {
    with_loopback(|mut interface| {
        for bytes in [14, 59, 60, 61] {
            // What was there before does not come along.
            for _ in 0..32 {
                interface.push(&[7; 100], NetHeader::NONE);
                interface.flush();
                assert_eq!(arrived(&mut interface), [7; 100]);
            }
            interface.push(&frame(1, bytes), NetHeader::NONE);
            interface.flush();
            let mut expected = frame(1, bytes);
            expected.resize(bytes.max(60), 0);
            assert_eq!(arrived(&mut interface), expected);
        }
        assert_eq!(interface.counters().refused, 0);
    });
}
