//! What a socket needs; frames of a driver that arrive by one are in `tests/netback`.

use super::*;
use crate::test_support::{LO, in_network_namespace};

#[test]
fn a_queue_has_one_socket_and_an_interface_has_so_many_queues() {
    in_network_namespace(|| {
        let mut socket = XdpSocket::open(LO, 0, 64).unwrap();
        assert!(!socket.is_zero_copy(), "loopback has no ring");
        let mut taken = 0;
        assert_eq!(socket.receive(64, |_| taken += 1), 0);
        assert_eq!((taken, socket.lost()), (0, 0));
        let refused = |ifindex, queue| XdpSocket::open(ifindex, queue, 64).unwrap_err();
        assert_eq!(refused(LO, 0).kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(refused(LO, 1).kind(), io::ErrorKind::InvalidInput);
        assert_eq!(refused(999, 0).raw_os_error(), Some(libc::ENODEV));
    });
}

#[test]
fn a_ring_goes_on_at_its_beginning_and_past_the_last_number() {
    in_network_namespace(|| {
        let mut socket = XdpSocket::open(LO, 0, 64).unwrap();
        // The kernel's side, here this one's: nothing arrives without a program.
        socket.received.next = u32::MAX - 2;
        let start = socket.received.next;
        socket.received.number(socket.received.at.consumer).store(start, Ordering::Release);
        for number in 0..200u32 {
            let (at, length) = (u64::from(number % 64 * FRAME_BYTES + 256), 60 + number % 9);
            let found = libc::xdp_desc { addr: at, len: length, options: 0 };
            // SAFETY: the slot that is read next, of this test's own socket.
            unsafe { socket.received.slot().write(found) };
            let filled = socket.received.next.wrapping_add(1);
            socket.received.number(socket.received.at.producer).store(filled, Ordering::Release);
            let mut lengths = Vec::new();
            assert_eq!(socket.receive(64, |frame| lengths.push(frame.len())), 1);
            assert_eq!(lengths, [length as usize]);
            let consumer = socket.received.number(socket.received.at.consumer);
            assert_eq!(consumer.load(Ordering::Acquire), filled);
            let given_back = socket.fill.number(socket.fill.at.producer).load(Ordering::Acquire);
            assert_eq!(given_back, 64 + number + 1);
            socket.fill.next = socket.fill.next.wrapping_sub(1);
            // SAFETY: the descriptor that was written last.
            assert_eq!(unsafe { socket.fill.slot().read() }, at - 256, "the whole frame");
            socket.fill.next = socket.fill.next.wrapping_add(1);
        }
    });
}

#[test]
fn what_lies_outside_of_the_memory_is_not_looked_at() {
    in_network_namespace(|| {
        let mut socket = XdpSocket::open(LO, 0, 64).unwrap();
        let end = u64::from(64 * FRAME_BYTES);
        for (at, length) in [(end, 1), (end - 60, 61), (u64::MAX, 2)] {
            // SAFETY: as above.
            unsafe {
                socket.received.slot().write(libc::xdp_desc { addr: at, len: length, options: 0 });
            }
            let filled = socket.received.next.wrapping_add(1);
            socket.received.number(socket.received.at.producer).store(filled, Ordering::Release);
            assert_eq!(socket.receive(64, |_| panic!("it looks at {at}")), 1);
        }
    });
}
