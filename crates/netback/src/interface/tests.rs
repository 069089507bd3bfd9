use std::time::{Duration, Instant};

use super::*;

/// Loopback's, in each network namespace.
const LO: u32 = 1;

/// Does something in a network namespace of its own, whose loopback interface is up: what is sent there
/// arrives there.
fn with_loopback(act: impl FnOnce(Interface) + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
        let mut interface = Interface::new(32).unwrap();
        // SAFETY: all zeros are a value of this plain structure.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip([b'l', b'o']) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
        let socket = interface.socket.as_raw_fd();
        // SAFETY: the pointer is to a live request.
        assert_eq!(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request) }, 0);
        interface.bind(LO).unwrap();
        interface.set_carrier(true);
        act(interface);
    });
    assert!(thread.join().is_ok());
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
