//! Rings, one rule of the specification at a time.

use crate::driver::{self, Driver, GUEST, Guest, INDIRECT, NEXT, Part, WRITE, split};
use isolane_netback::{
    Chain, CutOff, Delivered, FrameFormat, FrameWriter, GuestMemory, MemoryRegion, NetHeader,
    Offloads, Queue, Transmitted, copy_out,
};

const BYTES: u64 = 0x4_0000;
const BUFFERS: u64 = 0x1_0000;
const MERGEABLE: FrameFormat = FrameFormat::new(12, true);
const PLAIN: FrameFormat = FrameFormat::new(12, false);

fn set_up(size: u16, start: u16) -> (Guest, Driver, Queue) {
    let guest = Guest::new(BYTES);
    let driver = Driver::new(&guest, 0, size, start);
    let queue = driver.queue(&guest.map());
    (guest, driver, queue)
}

fn readable(at: u64, bytes: u32) -> Part {
    Part { at, bytes, writable: false }
}

fn writable(at: u64, bytes: u32) -> Part {
    Part { at, bytes, writable: true }
}

/// A queue of four whose first chain starts with these descriptors, and what becomes of it.
fn pop_raw(descriptors: &[(u64, u32, u16, u16)], head: u16) -> Result<Chain, CutOff> {
    let (guest, mut driver, mut queue) = set_up(4, 0);
    for (index, descriptor) in (0u64..).zip(descriptors) {
        guest.descriptor(16 * index, *descriptor);
    }
    driver.offer(&guest, head);
    let mut chain = Chain::new();
    assert!(queue.pop(&mut chain)?);
    Ok(chain)
}

#[test]
fn a_chain_of_the_queues_size_is_taken_and_a_loop_is_not() {
    let at = GUEST + BUFFERS;
    let chain = [(at, 1, NEXT, 1), (at, 2, NEXT, 2), (at, 3, NEXT, 3), (at, 4, 0, 0)];
    assert_eq!(pop_raw(&chain, 0).unwrap().readable_bytes(), 10);
    let mut looped = chain;
    looped[3].2 = NEXT;
    assert!(matches!(pop_raw(&looped, 0), Err(CutOff::ChainTooLong { limit: 4 })));
    assert!(matches!(pop_raw(&[(at, 1, NEXT, 0)], 0), Err(CutOff::ChainTooLong { .. })));
}

#[test]
fn descriptors_that_do_not_exist() {
    let at = GUEST + BUFFERS;
    let outside = |index| CutOff::DescriptorIndex { index, entries: 4 }.to_string();
    assert_eq!(pop_raw(&[], 4).unwrap_err().to_string(), outside(4));
    assert_eq!(pop_raw(&[], 0xffff).unwrap_err().to_string(), outside(0xffff));
    assert_eq!(pop_raw(&[(at, 1, NEXT, 4)], 0).unwrap_err().to_string(), outside(4));
}

#[test]
fn buffers_at_the_edges_of_a_region() {
    let last = GUEST + BYTES - 1;
    assert_eq!(pop_raw(&[(last, 1, 0, 0)], 0).unwrap().readable_bytes(), 1);
    assert_eq!(pop_raw(&[(GUEST, 0x4_0000, WRITE, 0)], 0).unwrap().writable_bytes(), 0x4_0000);
    for (address, bytes) in
        [(last, 2), (GUEST - 1, 1), (GUEST - 1, 2), (last + 1, 1), (u64::MAX, 1), (GUEST, u32::MAX)]
    {
        let outside = pop_raw(&[(address, bytes, 0, 0)], 0);
        assert!(matches!(outside, Err(CutOff::Outside { part: "buffer", .. })), "{address:#x}");
    }
}

#[test]
fn a_buffer_across_two_regions_is_refused() {
    use std::os::fd::AsFd;
    let guest = Guest::new(BYTES);
    let mut driver = Driver::new(&guest, 0, 4, 0);
    let half = BYTES / 2;
    let first = MemoryRegion { bytes: half, ..guest.region() };
    let second = MemoryRegion {
        guest_address: first.guest_address + half,
        user_address: first.user_address + half,
        mmap_offset: half,
        ..first
    };
    let files = [(first, guest.file.as_fd()), (second, guest.file.as_fd())];
    let memory = std::sync::Arc::new(GuestMemory::map(&files).unwrap());
    let mut queue = driver.queue(&memory);
    let mut chain = Chain::new();
    driver.add(&guest, &[readable(half - 8, 8), readable(half, 8)]);
    assert!(queue.pop(&mut chain).unwrap());
    driver.add(&guest, &[readable(half - 8, 9)]);
    assert!(matches!(queue.pop(&mut chain), Err(CutOff::Outside { .. })));
}

#[test]
fn descriptors_without_bytes_leave_no_trace() {
    // Not even their addresses count.
    let chain = [(7, 0, NEXT, 1), (GUEST + BUFFERS, 5, NEXT, 2), (u64::MAX, 0, WRITE, 0)];
    let chain = pop_raw(&chain, 0).unwrap();
    assert_eq!((chain.readable().len(), chain.writable().len()), (1, 0));
    assert_eq!(chain.readable_bytes(), 5);
}

#[test]
fn what_is_readable_comes_first() {
    let at = GUEST + BUFFERS;
    let chain = pop_raw(&[(at, 1, NEXT, 1), (at, 2, WRITE, 0)], 0).unwrap();
    assert_eq!((chain.readable_bytes(), chain.writable_bytes()), (1, 2));
    let wrong = pop_raw(&[(at, 1, NEXT | WRITE, 1), (at, 2, 0, 0)], 0);
    assert!(matches!(wrong, Err(CutOff::ReadableAfterWritable { index: 1 })));
}

#[test]
fn indirect_tables() {
    let (guest, mut driver, mut queue) = set_up(4, 0);
    let mut chain = Chain::new();
    // Longer than the queue, as Linux does, and at an odd address.
    let parts: Vec<_> = (0..19).map(|index| readable(BUFFERS + index, 1)).collect();
    guest.write(BUFFERS, b"nineteen characters");
    driver.add_indirect(&guest, &parts, 0x8001);
    assert!(queue.pop(&mut chain).unwrap());
    let mut text = [0; 32];
    assert_eq!(chain.read(0, &mut text), 19);
    assert_eq!(&text[..19], b"nineteen characters");

    let table = GUEST + 0x8000;
    let refused = |descriptor: (u64, u32, u16), inner: u16| {
        let (guest, mut driver, mut queue) = set_up(4, 0);
        guest.descriptor(0, (descriptor.0, descriptor.1, descriptor.2, 1));
        guest.descriptor(0x8000, (table, 16, inner, 0));
        driver.offer(&guest, 0);
        queue.pop(&mut Chain::new()).unwrap_err()
    };
    assert!(matches!(refused((table, 0, INDIRECT), 0), CutOff::Indirect { bytes: 0, .. }));
    assert!(matches!(refused((table, 17, INDIRECT), 0), CutOff::Indirect { bytes: 17, .. }));
    assert!(matches!(refused((table, 16, INDIRECT | NEXT), 0), CutOff::Indirect { .. }));
    assert!(matches!(refused((table, 16, INDIRECT), INDIRECT), CutOff::Indirect { .. }));
    assert!(matches!(refused((table, 16, INDIRECT), NEXT), CutOff::ChainTooLong { limit: 256 }));
    let end = GUEST + BYTES;
    assert!(matches!(refused((end - 8, 16, INDIRECT), 0), CutOff::Outside { .. }));

    let (guest, mut driver, _) = set_up(4, 0);
    let mut queue = Queue::new(&guest.map(), &driver.settings(true, false)).unwrap();
    driver.add_indirect(&guest, &[readable(BUFFERS, 1)], 0x8000);
    let refused = queue.pop(&mut Chain::new()).unwrap_err();
    assert!(refused.to_string().ends_with("not negotiated"), "{refused}");
}

#[test]
fn a_chain_has_256_descriptors_at_most_whatever_is_in_them() {
    for (length, is_taken) in [(256, true), (257, false), (400, false)] {
        for bytes in [0, 1] {
            let (guest, mut driver, mut queue) = set_up(512, 0);
            let mut taken = || queue.pop(&mut Chain::new()).map_err(|reason| reason.to_string());
            let parts = vec![readable(BUFFERS, bytes); length];
            driver.add(&guest, &parts);
            let expected = "a chain has more than 256 descriptors".to_owned();
            assert_eq!(taken(), if is_taken { Ok(true) } else { Err(expected.clone()) });
            let (guest, mut driver, mut queue) = set_up(4, 0);
            let mut taken = || queue.pop(&mut Chain::new()).map_err(|reason| reason.to_string());
            driver.add_indirect(&guest, &parts, 0x8000);
            assert_eq!(taken(), if is_taken { Ok(true) } else { Err(expected) });
        }
    }
}

#[test]
fn no_more_chains_than_descriptors() {
    let (guest, driver, mut queue) = set_up(4, 65534);
    guest.set_u16(driver.available_at() + 2, 2);
    assert_eq!(queue.available().unwrap(), 4);
    guest.set_u16(driver.available_at() + 2, 3);
    let reason = queue.available().unwrap_err();
    assert_eq!(reason.to_string(), "5 chains are available in a queue of 4");
    assert!(queue.pop(&mut Chain::new()).is_err());
    guest.set_u16(driver.available_at() + 2, 65533);
    assert!(matches!(queue.enable_kicks(), Err(CutOff::AvailableIndex { heads: 0xffff, .. })));
}

#[test]
fn impossible_queues() {
    let (guest, driver, _) = set_up(4, 0);
    let memory = guest.map();
    let good = driver.settings(true, true);
    let refused = |change: &dyn Fn(&mut isolane_netback::QueueSettings)| {
        let mut settings = good;
        change(&mut settings);
        Queue::new(&memory, &settings).unwrap_err()
    };
    for size in [0, 3, 2048, 32768] {
        assert!(matches!(refused(&|bad| bad.size = size), CutOff::QueueSize { .. }));
    }
    assert!(matches!(refused(&|bad| bad.addresses.descriptors += 8), CutOff::Misaligned { .. }));
    assert!(matches!(refused(&|bad| bad.addresses.available += 1), CutOff::Misaligned { .. }));
    assert!(matches!(refused(&|bad| bad.addresses.used += 2), CutOff::Misaligned { .. }));
    // The used ring needs 38 bytes: the last address that fits, and the next aligned one.
    let end = driver::USER + BYTES;
    let mut settings = good;
    settings.addresses.used = end - 40;
    assert!(Queue::new(&memory, &settings).is_ok());
    assert!(matches!(
        refused(&|bad| bad.addresses.used = end - 36),
        CutOff::Outside { part: "used ring", bytes: 38, .. }
    ));
    assert!(matches!(refused(&|bad| bad.addresses.available = end), CutOff::Outside { .. }));
    assert!(matches!(refused(&|bad| bad.addresses.descriptors = 0), CutOff::Outside { .. }));
}

#[test]
fn used_chains_are_seen_after_publishing() {
    let (guest, mut driver, mut queue) = set_up(4, 65535);
    let mut chain = Chain::new();
    let heads = [0, 1].map(|part| driver.add(&guest, &[writable(BUFFERS + part, 1)]));
    for bytes in [7, 8] {
        assert!(queue.pop(&mut chain).unwrap());
        queue.push_used(chain.head(), bytes);
        assert!(driver.reclaim(&guest).is_empty());
    }
    assert!(!queue.pop(&mut chain).unwrap());
    queue.publish();
    assert_eq!(driver.reclaim(&guest), [(heads[0], 7), (heads[1], 8)]);
    assert_eq!((driver.used, queue.next_available()), (1, 1));
}

#[test]
fn calls_by_flags() {
    let (guest, mut driver, _) = set_up(4, 0);
    let mut queue = Queue::new(&guest.map(), &driver.settings(false, false)).unwrap();
    let mut chain = Chain::new();
    let mut round = |driver: &mut Driver, queue: &mut Queue| {
        driver.add(&guest, &[writable(BUFFERS, 1)]);
        assert!(queue.pop(&mut chain).unwrap());
        queue.push_used(chain.head(), 0);
        queue.publish();
        driver.reclaim(&guest);
        queue.needs_call()
    };
    assert!(round(&mut driver, &mut queue), "the first answer is yes");
    assert!(round(&mut driver, &mut queue));
    assert!(queue.used_event_passed());
    driver.set_flags(&guest, 1);
    assert!(!round(&mut driver, &mut queue));
    assert!(!queue.used_event_passed());
    driver.set_flags(&guest, 0);
    assert!(round(&mut driver, &mut queue));
    assert!(!queue.needs_call(), "nothing was published since");

    queue.disable_kicks();
    assert_eq!(driver.used_flags(&guest), 1);
    assert!(!queue.enable_kicks().unwrap());
    assert_eq!(driver.used_flags(&guest), 0);
    driver.add(&guest, &[writable(BUFFERS, 1)]);
    assert!(queue.enable_kicks().unwrap());
}

#[test]
fn what_the_guest_asked_to_be_told_of_stays_due_until_it_looks() {
    let (guest, mut driver, mut queue) = set_up(4, 65534);
    let mut chain = Chain::new();
    driver.set_used_event(&guest, driver.used);
    assert!(!queue.used_event_passed(), "nothing was used");
    for _ in 0..3 {
        driver.add(&guest, &[writable(BUFFERS, 1)]);
        assert!(queue.pop(&mut chain).unwrap());
        queue.push_used(chain.head(), 0);
        queue.publish();
        assert!(queue.used_event_passed());
    }
    driver.reclaim(&guest);
    driver.set_used_event(&guest, driver.used);
    assert!(!queue.used_event_passed(), "the guest has seen all");
    driver.set_used_event(&guest, driver.used.wrapping_add(2));
    assert!(!queue.used_event_passed(), "it asked for later");
}

#[test]
fn transmitted_frames_that_are_dropped() {
    let (guest, mut driver, mut queue) = set_up(8, 0);
    let mut chain = Chain::new();
    let mut frame = [0; 100];
    let mut transmit = |header: NetHeader, bytes: u32| {
        guest.write(BUFFERS, &header.to_bytes());
        driver.add(&guest, &[readable(BUFFERS, bytes)]);
        assert!(queue.pop(&mut chain).unwrap());
        copy_out(&chain, PLAIN, &mut frame).unwrap()
    };
    let good = NetHeader::default();
    assert_eq!(transmit(good, 26), Transmitted::Frame(14, NetHeader::NONE));
    assert_eq!(transmit(good, 25), Transmitted::TooShort { bytes: 25 });
    assert_eq!(transmit(good, 0), Transmitted::TooShort { bytes: 0 });
    assert_eq!(transmit(good, 112), Transmitted::Frame(100, NetHeader::NONE));
    assert_eq!(transmit(good, 113), Transmitted::TooLong { bytes: 101 });
    assert_eq!(transmit(NetHeader { flags: 1, ..good }, 60), Transmitted::NeedsOffload);
    assert_eq!(transmit(NetHeader { gso_type: 4, ..good }, 60), Transmitted::NeedsOffload);
}

#[test]
fn work_that_was_negotiated_comes_with_the_frame() {
    let (guest, mut driver, mut queue) = set_up(8, 0);
    let mut chain = Chain::new();
    let mut frame = [0; 4_000];
    let format = FrameFormat {
        transmit: Offloads { checksum: true, tcp_ipv4: true, tcp_ipv6: false },
        ..PLAIN
    };
    let mut transmit = |header: NetHeader, bytes: u32| {
        guest.write(BUFFERS, &header.to_bytes());
        driver.add(&guest, &[readable(BUFFERS, bytes)]);
        assert!(queue.pop(&mut chain).unwrap());
        copy_out(&chain, format, &mut frame).unwrap()
    };
    let summed = NetHeader { flags: 1, csum_start: 34, csum_offset: 16, ..NetHeader::NONE };
    let merged = NetHeader { gso_type: NetHeader::TCP_IPV4, gso_size: 1_448, ..summed };
    assert_eq!(transmit(summed, 112), Transmitted::Frame(100, summed));
    assert_eq!(transmit(merged, 3_012), Transmitted::Frame(3_000, merged));
    assert_eq!(transmit(summed, 1_535), Transmitted::TooLong { bytes: 1_523 });
    assert_eq!(transmit(merged, 4_013), Transmitted::TooLong { bytes: 4_001 });
    let ipv6 = NetHeader { gso_type: NetHeader::TCP_IPV6, ..merged };
    assert_eq!(transmit(ipv6, 3_012), Transmitted::NeedsOffload);
    let hint = NetHeader { flags: 2, hdr_len: 54, ..NetHeader::NONE };
    assert_eq!(transmit(hint, 112), Transmitted::Frame(100, NetHeader::NONE), "not of use");
}

#[test]
fn a_header_may_lie_in_several_places() {
    let (guest, mut driver, mut queue) = set_up(8, 0);
    let header = NetHeader { flags: 1, csum_start: 34, csum_offset: 16, ..NetHeader::NONE };
    let bytes = header.to_bytes();
    let (first, second) = (BUFFERS, BUFFERS + 0x100);
    guest.write(first, &[0xff; 32]);
    guest.write(first, &bytes[..4]);
    guest.write(second, &[&bytes[4..], &[7; 60]].concat());
    driver.add(&guest, &[readable(first, 4), readable(second, 68)]);
    let mut chain = Chain::new();
    assert!(queue.pop(&mut chain).unwrap());
    let format =
        FrameFormat { transmit: Offloads { checksum: true, ..Offloads::default() }, ..PLAIN };
    let mut frame = [0; 100];
    let transmitted = copy_out(&chain, format, &mut frame).unwrap();
    assert_eq!(transmitted, Transmitted::Frame(60, header));
    assert_eq!(frame[..60], [7; 60]);

    guest.write(first, &[0xff; 32]);
    driver.add(&guest, &[writable(first, 4), writable(second, 100)]);
    let written = FrameWriter::new().deliver(&mut queue, MERGEABLE, &[9; 60], header).unwrap();
    assert_eq!(written, Delivered::Written { buffers: 1 });
    let bytes = NetHeader { num_buffers: 1, ..header }.to_bytes();
    assert_eq!(guest.read(first, 8), [&bytes[..4], &[0xff; 4]].concat());
    assert_eq!(guest.read(second, 68), [&bytes[4..], &[9; 60]].concat());
}

#[test]
fn work_for_the_guest_stands_before_the_frame() {
    let (guest, mut driver, mut queue) = set_up(4, 0);
    driver.add(&guest, &[writable(BUFFERS, 100)]);
    driver.add(&guest, &[writable(BUFFERS + 100, 100)]);
    let work = NetHeader { flags: 1, gso_type: 1, gso_size: 90, csum_start: 34, ..NetHeader::NONE };
    let written = FrameWriter::new().deliver(&mut queue, MERGEABLE, &[1; 150], work).unwrap();
    assert_eq!(written, Delivered::Written { buffers: 2 });
    let header = NetHeader { num_buffers: 2, ..work };
    assert_eq!(guest.read(BUFFERS, 12), header.to_bytes());
}

#[test]
fn buffers_of_the_wrong_direction_or_size() {
    let (guest, mut driver, mut queue) = set_up(4, 0);
    let mut chain = Chain::new();
    driver.add(&guest, &[readable(BUFFERS, 60), writable(BUFFERS, 1)]);
    assert!(queue.pop(&mut chain).unwrap());
    let wrong = copy_out(&chain, PLAIN, &mut [0; 100]).unwrap_err();
    assert_eq!(wrong.to_string(), "1 bytes of a transmit buffer are for the wrong direction");

    let refused = |parts: &[Part]| {
        let (guest, mut driver, mut queue) = set_up(4, 0);
        driver.add(&guest, parts);
        FrameWriter::new().deliver(&mut queue, MERGEABLE, &[1; 60], NetHeader::NONE).unwrap_err()
    };
    assert!(matches!(refused(&[writable(BUFFERS, 11)]), CutOff::ReceiveBuffer { bytes: 11, .. }));
    assert!(matches!(refused(&[writable(BUFFERS, 0)]), CutOff::ReceiveBuffer { bytes: 0, .. }));
    let both = [readable(BUFFERS, 3), writable(BUFFERS, 99)];
    assert!(matches!(refused(&both), CutOff::Direction { queue: "receive", bytes: 3 }));
}

#[test]
fn a_frame_without_enough_buffers_consumes_none() {
    let (guest, mut driver, mut queue) = set_up(4, 65535);
    let mut writer = FrameWriter::new();
    let frame: Vec<u8> = (0..100).collect();
    assert_eq!(
        writer.deliver(&mut queue, MERGEABLE, &frame, NetHeader::NONE).unwrap(),
        Delivered::Full
    );
    for part in split(BUFFERS, 80, &[40], 2, true) {
        driver.add(&guest, &[part]);
    }
    let before = queue.next_available();
    assert_eq!(
        writer.deliver(&mut queue, MERGEABLE, &frame, NetHeader::NONE).unwrap(),
        Delivered::Full
    );
    queue.publish();
    assert_eq!((queue.next_available(), driver.reclaim(&guest)), (before, Vec::new()));
    assert_eq!(queue.available().unwrap(), 2);
    driver.add(&guest, &[writable(BUFFERS + 80, 40)]);
    let written = writer.deliver(&mut queue, MERGEABLE, &frame, NetHeader::NONE).unwrap();
    assert_eq!(written, Delivered::Written { buffers: 3 });
    queue.publish();
    let bytes: Vec<_> = driver.reclaim(&guest).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes, [40, 40, 32]);
    assert_eq!(guest.read(BUFFERS + 12, 100), frame);
    assert_eq!(guest.read(BUFFERS, 12), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
}

#[test]
fn a_ring_that_was_found_full_is_looked_through_again_only_when_the_guest_has_added_to_it() {
    let (guest, mut driver, mut queue) = set_up(4, 65535);
    let mut writer = FrameWriter::new();
    let mut deliver = |queue: &mut Queue, bytes| {
        writer.deliver(queue, MERGEABLE, &vec![1; bytes], NetHeader::NONE)
    };
    let head = u64::from(driver.add(&guest, &[writable(BUFFERS, 40)]));
    assert_eq!(deliver(&mut queue, 100).unwrap(), Delivered::Full);
    // Whoever looked at this descriptor would cut the guest off.
    let good = guest.read(16 * head, 16);
    guest.descriptor(16 * head, (0, 40, WRITE, 0));
    assert_eq!(deliver(&mut queue, 100).unwrap(), Delivered::Full);
    assert_eq!(deliver(&mut queue, 200).unwrap(), Delivered::Full);
    assert!(deliver(&mut queue, 99).is_err(), "a shorter one may fit");
    guest.write(16 * head, &good);
    assert_eq!(deliver(&mut queue, 20).unwrap(), Delivered::Written { buffers: 1 });
    assert_eq!(deliver(&mut queue, 100).unwrap(), Delivered::Full);
    driver.add(&guest, &[writable(BUFFERS + 40, 112)]);
    assert_eq!(deliver(&mut queue, 100).unwrap(), Delivered::Written { buffers: 1 });
}

#[test]
fn a_lack_is_forgotten_before_the_guests_index_comes_to_its_number_again() {
    let (guest, mut driver, mut queue) = set_up(4, 7);
    let mut writer = FrameWriter::new();
    let mut deliver =
        |queue: &mut Queue| writer.deliver(queue, MERGEABLE, &[1; 60], NetHeader::NONE).unwrap();
    assert_eq!(deliver(&mut queue), Delivered::Full);
    for _ in 0..1 << 16 {
        driver.add(&guest, &[writable(BUFFERS, 112)]);
        assert_eq!(deliver(&mut queue), Delivered::Written { buffers: 1 });
        queue.publish();
        driver.reclaim(&guest);
    }
}

#[test]
fn a_frame_that_no_buffers_hold() {
    let (guest, mut driver, mut queue) = set_up(4, 0);
    let mut writer = FrameWriter::new();
    for part in split(BUFFERS, 80, &[20, 20, 20], 4, true) {
        driver.add(&guest, &[part]);
    }
    assert_eq!(
        writer.deliver(&mut queue, MERGEABLE, &[1; 69], NetHeader::NONE).unwrap(),
        Delivered::TooLong
    );
    assert_eq!(
        writer.deliver(&mut queue, PLAIN, &[1; 9], NetHeader::NONE).unwrap(),
        Delivered::TooLong
    );
    let written = writer.deliver(&mut queue, PLAIN, &[1; 8], NetHeader::NONE).unwrap();
    assert_eq!(written, Delivered::Written { buffers: 1 });
    assert_eq!(queue.available().unwrap(), 3);
}

#[test]
fn a_frame_lies_in_so_many_descriptors_at_most() {
    // 63 descriptors without bytes and one with twelve, in a table that another one names: four are more
    // than 256, and hold the header and 36 bytes.
    let parts: Vec<_> = (0..64).map(|index| writable(BUFFERS, index / 63 * 12)).collect();
    let last = Delivered::Written { buffers: 4 };
    for (bytes, expected) in [(36, last), (37, Delivered::TooLong), (60, Delivered::TooLong)] {
        let (guest, mut driver, mut queue) = set_up(64, 0);
        for _ in 0..20 {
            driver.add_indirect(&guest, &parts, 0x8000);
        }
        let frame = vec![1; bytes];
        let written = FrameWriter::new().deliver(&mut queue, MERGEABLE, &frame, NetHeader::NONE);
        assert_eq!(written.unwrap(), expected, "{bytes}");
    }
}

#[test]
fn the_short_header_of_before_version_1() {
    let short = FrameFormat::new(10, false);
    let (guest, mut driver, mut queue) = set_up(4, 0);
    driver.add(&guest, &[writable(BUFFERS, 10), writable(BUFFERS + 100, 60)]);
    let frame = [7; 60];
    let written = FrameWriter::new().deliver(&mut queue, short, &frame, NetHeader::NONE).unwrap();
    assert_eq!(written, Delivered::Written { buffers: 1 });
    assert_eq!(guest.read(BUFFERS + 100, 60), frame);
    driver.add(&guest, &[readable(BUFFERS + 90, 10), readable(BUFFERS + 100, 60)]);
    let mut chain = Chain::new();
    assert!(queue.pop(&mut chain).unwrap());
    let mut read = [0; 60];
    assert_eq!(
        copy_out(&chain, short, &mut read).unwrap(),
        Transmitted::Frame(60, NetHeader::NONE)
    );
    assert_eq!(read, frame);
}

#[test]
fn a_chain_keeps_its_memory_and_clearing_lets_go() {
    let (guest, mut driver, _) = set_up(4, 0);
    let memory = guest.map();
    let watched = std::sync::Arc::downgrade(&memory);
    let mut queue = driver.queue(&memory);
    driver.add(&guest, &[readable(BUFFERS, 3)]);
    guest.write(BUFFERS, b"abc");
    let mut chain = Chain::new();
    assert!(queue.pop(&mut chain).unwrap());
    drop((queue, memory));
    let mut text = [0; 3];
    assert_eq!(chain.read(0, &mut text), 3);
    assert_eq!(&text, b"abc");
    chain.clear();
    assert!(watched.upgrade().is_none());
    assert_eq!(chain.read(0, &mut text), 0);
}
