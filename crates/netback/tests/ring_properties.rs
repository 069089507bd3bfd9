//! Rings against models: frames arrive whole and in order, another implementation sees the same
//! chains and gives the same answers, and nothing that a guest writes leads outside its memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::VecDeque, os::fd::AsFd, sync::Arc};

use crate::driver::{Driver, GUEST, Guest, INDIRECT, NEXT, Part, USER, WRITE, split};
use isolane_netback::{
    Chain, CutOff, Delivered, FrameFormat, FrameWriter, GuestMemory, MAX_FRAME_BYTES, MemoryRegion,
    NetHeader, Queue, QueueSettings, RingAddresses, Transmitted, copy_out,
};
use proptest::prelude::*;
use virtio_queue::QueueT as _;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};

const BYTES: u64 = 0x10_0000;
/// Indirect tables, one for each slot of the available ring.
const TABLES: u64 = 0x2_0000;
/// Buffers.
const BUFFERS: u64 = 0x4_0000;
const BUFFER_BYTES: u64 = 0x1000;

/// Sizes of queues: a power of two up to 64.
fn sizes() -> impl Strategy<Value = u16> {
    (0u32..=6).prop_map(|exponent| 1 << exponent)
}

/// Where indices start: near the wrap-around as a rule.
fn starts() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 65500u16..=65535, 1 => any::<u16>()]
}

/// Where the buffer of the next available slot lies.
fn buffer_at(driver: &Driver) -> u64 {
    BUFFERS + u64::from(driver.available % driver.size) * BUFFER_BYTES
}

/// A frame whose bytes tell it from others.
fn frame(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|index| u8::try_from((number * 31 + index * 7 + index / 256) % 256).unwrap())
        .collect()
}

/// Adds a buffer that is split like this; a long one, or one in every third slot, indirectly.
fn add(driver: &mut Driver, guest: &Guest, parts: &[Part], indirect: bool) -> Option<u16> {
    let needed = if indirect { 1 } else { parts.len() };
    if usize::from(driver.free()) < needed {
        return None;
    }
    let slot = driver.available % driver.size;
    let table = TABLES + u64::from(slot) * 16 * 64;
    Some(if indirect { driver.add_indirect(guest, parts, table) } else { driver.add(guest, parts) })
}

#[derive(Debug, Clone)]
struct Sent {
    bytes: usize,
    split: Vec<usize>,
    indirect: bool,
    taken: u16,
}

fn sent() -> impl Strategy<Value = Sent> {
    (14usize..=MAX_FRAME_BYTES, prop::collection::vec(0usize..400, 0..6), any::<bool>(), 0u16..4)
        .prop_map(|(bytes, split, indirect, taken)| Sent { bytes, split, indirect, taken })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn transmitted_frames_come_whole_and_in_order(
        size in sizes(), start in starts(), event_idx: bool, frames in prop::collection::vec(sent(), 1..60),
    ) {
        let format = FrameFormat::new(12, true);
        let guest = Guest::new(BYTES);
        let mut driver = Driver::new(&guest, 0, size, start);
        let mut queue = Queue::new(&guest.map(), &driver.settings(event_idx, true)).unwrap();
        let (mut expected, mut heads) = (VecDeque::new(), VecDeque::new());
        let (mut chain, mut buffer) = (Chain::new(), [0; 2048]);
        let mut take = |queue: &mut Queue, expected: &mut VecDeque<Vec<u8>>| {
            if !queue.pop(&mut chain).unwrap() {
                return false;
            }
            let Transmitted::Frame(bytes, _) = copy_out(&chain, format, &mut buffer).unwrap() else {
                panic!("the frame is a good one");
            };
            assert_eq!(buffer[..bytes], expected.pop_front().expect("a frame was sent"));
            queue.push_used(chain.head(), 0);
            true
        };
        for (number, sent) in frames.iter().enumerate() {
            let content = frame(number, sent.bytes);
            let parts = split(buffer_at(&driver), 12 + sent.bytes, &sent.split, 6, false);
            let indirect = sent.indirect || parts.len() > usize::from(size);
            while usize::from(driver.free()) < parts.len().min(usize::from(size)) {
                let taken = take(&mut queue, &mut expected);
                queue.publish();
                let reclaimed = driver.reclaim(&guest);
                prop_assert!(taken || !reclaimed.is_empty(), "a full ring has work");
                for (head, _) in reclaimed {
                    prop_assert_eq!(Some(head), heads.pop_front());
                }
            }
            guest.write(parts[0].at, &[0; 12]);
            guest.write(parts[0].at + 12, &content);
            heads.push_back(add(&mut driver, &guest, &parts, indirect).expect("it was made free"));
            expected.push_back(content);
            for _ in 0..sent.taken {
                if !take(&mut queue, &mut expected) {
                    prop_assert!(expected.is_empty());
                }
            }
        }
        while take(&mut queue, &mut expected) {}
        prop_assert!(expected.is_empty());
        queue.publish();
        prop_assert_eq!(driver.reclaim(&guest).len(), heads.len());
        prop_assert_eq!(queue.next_available(), start.wrapping_add(u16::try_from(frames.len()).unwrap()));
        prop_assert_eq!(driver.used, queue.next_available());
    }
}

#[derive(Debug, Clone)]
struct ReceiveBuffer {
    bytes: usize,
    split: Vec<usize>,
    indirect: bool,
}

fn receive_buffer() -> impl Strategy<Value = ReceiveBuffer> {
    (12usize..700, prop::collection::vec(0usize..200, 0..4), any::<bool>())
        .prop_map(|(bytes, split, indirect)| ReceiveBuffer { bytes, split, indirect })
}

/// What should become of a frame, given how much the available buffers hold.
fn expectation(format: FrameFormat, size: u16, buffers: &[usize], bytes: usize) -> Delivered {
    let needed = format.header_bytes + bytes;
    let mut held = 0;
    for (count, buffer) in (1..).zip(buffers) {
        held += buffer;
        if held >= needed {
            return Delivered::Written { buffers: count };
        }
        if !format.mergeable || count == size {
            return Delivered::TooLong;
        }
    }
    Delivered::Full
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn delivered_frames_come_whole_and_in_order(
        size in sizes(), start in starts(), mergeable: bool,
        rounds in prop::collection::vec(
            (prop::collection::vec(receive_buffer(), 0..6), 14usize..1600), 1..40,
        ),
    ) {
        let format = FrameFormat::new(12, mergeable);
        let guest = Guest::new(BYTES);
        let mut driver = Driver::new(&guest, 0, size, start);
        let mut queue = driver.queue(&guest.map());
        let mut writer = FrameWriter::new();
        // What is available: head, parts, size.
        let mut posted: VecDeque<(u16, Vec<Part>, usize)> = VecDeque::new();
        for (number, (buffers, bytes)) in rounds.into_iter().enumerate() {
            for buffer in buffers {
                let at = buffer_at(&driver);
                let parts = split(at, buffer.bytes, &buffer.split, 4, true);
                if let Some(head) = add(&mut driver, &guest, &parts, buffer.indirect) {
                    posted.push_back((head, parts, buffer.bytes));
                }
            }
            let content = frame(number, bytes);
            let held: Vec<_> = posted.iter().map(|(_, _, bytes)| *bytes).collect();
            let expected = expectation(format, size, &held, bytes);
            let before = queue.next_available();
            let delivered = writer.deliver(&mut queue, format, &content, NetHeader::NONE).unwrap();
            prop_assert_eq!(delivered, expected);
            let Delivered::Written { buffers } = delivered else {
                queue.publish();
                prop_assert_eq!(queue.next_available(), before);
                prop_assert_eq!(driver.reclaim(&guest), []);
                continue;
            };
            queue.publish();
            let used = driver.reclaim(&guest);
            prop_assert_eq!(used.len(), usize::from(buffers));
            let mut read = Vec::new();
            for (head, bytes) in used {
                let (expected_head, parts, _) = posted.pop_front().expect("it was posted");
                prop_assert_eq!(head, expected_head);
                let whole: Vec<u8> = parts
                    .iter()
                    .flat_map(|part| guest.read(part.at, part.bytes as usize))
                    .collect();
                read.extend_from_slice(&whole[..bytes as usize]);
            }
            let mut header = [0; 12];
            header[10..].copy_from_slice(&buffers.to_le_bytes());
            prop_assert_eq!(&read[..12], &header);
            prop_assert_eq!(&read[12..], &content);
        }
    }
}

/// A ring in the memory of both implementations.
struct Compared {
    guest: Guest,
    driver: Driver,
    ours: Queue,
    theirs: virtio_queue::Queue,
    their_memory: GuestMemoryMmap,
}

fn compared(size: u16, start: u16) -> Compared {
    let guest = Guest::new(0x2_0000);
    let driver = Driver::new(&guest, 0, size, start);
    let ours = driver.queue(&guest.map());
    let their_memory = GuestMemoryMmap::<()>::from_ranges_with_files([(
        GuestAddress(GUEST),
        usize::try_from(guest.bytes).unwrap(),
        Some(FileOffset::new(guest.file.try_clone().unwrap(), 0)),
    )])
    .unwrap();
    (Compared { theirs: their_queue(&driver), guest, driver, ours, their_memory }).checked()
}

fn their_queue(driver: &Driver) -> virtio_queue::Queue {
    let mut theirs = virtio_queue::Queue::new(1024).unwrap();
    theirs.set_size(driver.size);
    theirs.try_set_desc_table_address(GuestAddress(GUEST + driver.at)).unwrap();
    theirs.try_set_avail_ring_address(GuestAddress(GUEST + driver.available_at())).unwrap();
    theirs.try_set_used_ring_address(GuestAddress(GUEST + driver.used_at())).unwrap();
    theirs.set_event_idx(true);
    theirs.set_next_avail(driver.available);
    theirs.set_next_used(driver.used);
    theirs.set_ready(true);
    theirs
}

impl Compared {
    fn checked(self) -> Self {
        assert!(self.theirs.is_valid(&self.their_memory));
        self
    }

    /// The next chain as the other implementation follows it, and whether it came to an end that
    /// the specification allows.
    fn their_chain(&mut self) -> (Vec<(u64, u32, bool)>, bool) {
        let chain = self.theirs.pop_descriptor_chain(&self.their_memory).expect("one is available");
        let mut ended = false;
        let parts = chain
            .map(|part| {
                ended = !part.has_next();
                (part.addr().0, part.len(), part.is_write_only())
            })
            .collect::<Vec<_>>();
        (parts, ended)
    }

    /// Where a segment of ours lies for the guest.
    fn guest_address(&self, memory: &GuestMemory, start: *mut u8) -> u64 {
        let base = memory.guest_range(GUEST, self.guest.bytes).unwrap().as_ptr().addr();
        GUEST + (start.addr() - base) as u64
    }
}

/// A descriptor as a careless guest writes it: often right.
fn descriptor(size: u16) -> impl Strategy<Value = (u64, u32, u16, u16)> {
    let address = prop_oneof![
        8 => GUEST + 0x8000..GUEST + 0x1_8000,
        1 => GUEST + 0x1_f000..GUEST + 0x2_1000,
        1 => any::<u64>(),
    ];
    let bytes = prop_oneof![8 => 0u32..3000, 1 => Just(0), 1 => any::<u32>()];
    let table = (GUEST + 0x4000..GUEST + 0x4200, 0u32..5);
    let next = prop_oneof![20 => 0..size, 1 => any::<u16>()];
    // Flags: NEXT often, so that chains become long; a table now and then, never with NEXT.
    prop_oneof![
        6 => (address.clone(), bytes.clone(), Just(NEXT), next.clone()),
        2 => (address.clone(), bytes.clone(), Just(NEXT | WRITE), next.clone()),
        4 => (address, bytes, prop_oneof![Just(0), Just(WRITE)], next.clone()),
        2 => table.prop_flat_map(move |(at, count)| {
            (Just(at), Just(count * 16), Just(INDIRECT), next.clone())
        }),
    ]
}

type Descriptors = Vec<(u64, u32, u16, u16)>;

fn tables() -> impl Strategy<Value = (u16, u16, Descriptors, Descriptors)> {
    (2u32..=5).prop_map(|exponent| 1u16 << exponent).prop_flat_map(|size| {
        (
            Just(size),
            starts(),
            prop::collection::vec(descriptor(size), usize::from(size)),
            prop::collection::vec(descriptor(4), 36),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The other implementation stops silently where a chain is broken; we say why. Where it comes
    /// to a proper end inside the memory, both have seen the same.
    #[test]
    fn chains_are_those_of_another_implementation((size, start, own, indirect) in tables()) {
        let mut compared = compared(size, start);
        for (index, descriptor) in (0u64..).zip(&own) {
            compared.guest.descriptor(16 * index, *descriptor);
        }
        for (index, descriptor) in (0u64..).zip(&indirect) {
            compared.guest.descriptor(0x4000 + 16 * index, *descriptor);
        }
        let memory = compared.guest.map();
        compared.ours = compared.driver.queue(&memory);
        let mut chain = Chain::new();
        for head in 0..size {
            compared.driver.offer(&compared.guest, head);
            let ours = compared.ours.pop(&mut chain);
            let (theirs, ended) = compared.their_chain();
            let first_writable = theirs.iter().position(|part| part.2 && part.1 > 0);
            let in_order = first_writable
                .is_none_or(|first| theirs[first..].iter().all(|part| part.2));
            let inside = |&(address, bytes, _): &(u64, u32, bool)| {
                bytes == 0 || memory.guest_range(address, u64::from(bytes)).is_some()
            };
            let good = ended && in_order && theirs.iter().all(inside);
            if let Err(reason) = ours {
                prop_assert!(!good, "{} of {:?}", reason, theirs);
                // A chain that cuts the guest off stays where it is; go on behind it.
                let mut settings = compared.driver.settings(true, true);
                settings.next_available = compared.driver.available;
                compared.ours = Queue::new(&memory, &settings).unwrap();
                continue;
            }
            prop_assert!(good, "{:?}", theirs);
            let theirs: Vec<_> = theirs.into_iter().filter(|part| part.1 > 0).collect();
            let segments = chain.readable().iter().map(|segment| (segment, false))
                .chain(chain.writable().iter().map(|segment| (segment, true)));
            let ours: Vec<_> = segments
                .map(|(segment, writable)| {
                    let address = compared.guest_address(&memory, segment.start.as_ptr());
                    (address, u32::try_from(segment.bytes).unwrap(), writable)
                })
                .collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The guest makes so many buffers available.
    Offer(u16),
    /// The device uses so many.
    Use(u16),
    /// The guest asks to be called at its used index and so much on.
    Event(i16),
    /// Whether a call is needed.
    Ask,
    /// The device asks for kicks.
    EnableKicks,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u16..4).prop_map(Step::Offer),
        (0u16..4).prop_map(Step::Use),
        (-3i16..6).prop_map(Step::Event),
        Just(Step::Ask),
        Just(Step::EnableKicks),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Two guests, one of which has the other implementation's device, do the same.
    #[test]
    fn calls_and_kicks_are_those_of_another_implementation(
        size in sizes(), start in starts(), steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut with_ours = compared(size, start);
        let mut with_theirs = compared(size, start);
        let mut chain = Chain::new();
        // Our first answer is always yes; theirs is not.
        prop_assert!(with_ours.ours.needs_call());
        for step in steps {
            match step {
                Step::Offer(count) => for _ in 0..count.min(with_ours.driver.free()) {
                    for Compared { guest, driver, .. } in [&mut with_ours, &mut with_theirs] {
                        driver.add(guest, &[Part { at: 0x8000, bytes: 64, writable: true }]);
                    }
                },
                Step::Use(count) => for _ in 0..count {
                    let popped = with_ours.ours.pop(&mut chain).unwrap();
                    let memory = &with_theirs.their_memory;
                    let theirs = with_theirs.theirs.pop_descriptor_chain(memory);
                    prop_assert_eq!(popped, theirs.is_some());
                    if let Some(theirs) = theirs {
                        prop_assert_eq!(chain.head(), theirs.head_index());
                        with_ours.ours.push_used(chain.head(), 5);
                        let head = theirs.head_index();
                        with_theirs.theirs.add_used(memory, head, 5).unwrap();
                    }
                    with_ours.ours.publish();
                },
                Step::Event(ahead) => for Compared { guest, driver, .. } in [&mut with_ours, &mut with_theirs] {
                    driver.reclaim(guest);
                    driver.set_used_event(guest, driver.used.wrapping_add_signed(ahead));
                },
                Step::Ask => {
                    let memory = &with_theirs.their_memory;
                    let theirs = with_theirs.theirs.needs_notification(memory).unwrap();
                    prop_assert_eq!(with_ours.ours.needs_call(), theirs);
                }
                Step::EnableKicks => {
                    let memory = &with_theirs.their_memory;
                    let theirs = with_theirs.theirs.enable_notification(memory).unwrap();
                    prop_assert_eq!(with_ours.ours.enable_kicks().unwrap(), theirs);
                }
            }
            let [ours, theirs] = [&with_ours, &with_theirs]
                .map(|one| one.guest.read(one.driver.used_at(), 6 + 8 * usize::from(size)));
            prop_assert_eq!(&ours, &theirs, "the used rings are the same");
        }
    }
}

/// A guest's memory with others' bytes before and behind it, in the same pages even.
const GUARD: u64 = 4096 + 512;
const HOSTILE_BYTES: u64 = 3 * 4096 - 1024;

/// Bytes as a hostile guest writes them: random, but small numbers often, so that many checks pass.
fn hostile_bytes(mut seed: u64, count: u64) -> Vec<u8> {
    (0..count)
        .map(|_| {
            // A linear congruential generator (Knuth's MMIX); its high bits are good enough.
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let byte = (seed >> 56) as u8;
            match (seed >> 48) % 9 {
                0..2 => byte,
                2..5 => 0,
                5..8 => byte % 8,
                _ => 255,
            }
        })
        .collect()
}

/// Works on a ring as a back-end does, until the guest is cut off.
fn work(queue: &mut Queue, inside: std::ops::Range<usize>) -> Result<usize, CutOff> {
    let (mut chain, mut writer, mut buffer) = (Chain::new(), FrameWriter::new(), [0; 2048]);
    let format = FrameFormat::new(12, true);
    let mut chains = 0;
    for round in 0..20 {
        if round % 3 == 2 {
            let _ = writer.deliver(queue, format, &[0xee; 300], NetHeader::NONE)?;
        } else if queue.pop(&mut chain)? {
            for segment in chain.readable().iter().chain(chain.writable()) {
                let start = segment.start.as_ptr().addr();
                assert!(inside.contains(&start) && start + segment.bytes <= inside.end);
            }
            let written = chain.write(0, &[0xdd; 4096]);
            assert!(written <= chain.writable_bytes());
            queue.push_used(chain.head(), 1);
            let _ = copy_out(&chain, format, &mut buffer)?;
            chains += 1;
        }
        queue.publish();
        let _ = (queue.needs_call(), queue.used_event_passed(), queue.enable_kicks()?);
    }
    Ok(chains)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_a_guest_writes_stays_inside_its_memory(
        seed: u64, size in sizes(), start in any::<u16>(), ahead in 0u16..70,
        pointers in prop::collection::vec((0u64..40, 0u64..HOSTILE_BYTES, 0u32..2000), 0..20),
        event_idx: bool, indirect: bool,
    ) {
        let guest = Guest::new(GUARD + HOSTILE_BYTES + GUARD);
        guest.write(0, &vec![0xaa; usize::try_from(guest.bytes).unwrap()]);
        guest.write(GUARD, &hostile_bytes(seed, HOSTILE_BYTES));
        // Some descriptors point into the memory or across its end.
        for (index, at, bytes) in pointers {
            let address = (GUEST + at).to_le_bytes();
            guest.write(GUARD + 16 * index, &[&address[..], &bytes.to_le_bytes()].concat());
        }
        let region = MemoryRegion { bytes: HOSTILE_BYTES, mmap_offset: GUARD, ..guest.region() };
        let memory = Arc::new(GuestMemory::map(&[(region, guest.file.as_fd())]).unwrap());
        let base = memory.guest_range(GUEST, HOSTILE_BYTES).unwrap().as_ptr().addr();
        let inside = base..base + usize::try_from(HOSTILE_BYTES).unwrap();
        let available = 0x800;
        let addresses = RingAddresses {
            descriptors: USER, available: USER + available, used: USER + HOSTILE_BYTES - 8 * 64 - 8,
        };
        guest.set_u16(GUARD + available + 2, start.wrapping_add(ahead));
        let settings = QueueSettings {
            size, addresses, next_available: start,  event_idx, indirect,
        };
        let mut queue = Queue::new(&memory, &settings).unwrap();
        let _ = work(&mut queue, inside);
        let end = usize::try_from(GUARD).unwrap();
        prop_assert!(guest.read(0, end).iter().all(|&byte| byte == 0xaa));
        let behind = guest.read(GUARD + HOSTILE_BYTES, end);
        prop_assert!(behind.iter().all(|&byte| byte == 0xaa));
    }
}

#[test]
fn the_memory_that_both_see_is_the_same() {
    let compared = compared(4, 0);
    compared.guest.write(0x8000, b"same");
    let read: [u8; 4] = compared.their_memory.read_obj(GuestAddress(GUEST + 0x8000)).unwrap();
    assert_eq!(&read, b"same");
}
