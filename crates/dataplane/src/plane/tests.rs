//! The demultiplexer, packet in, packet out, verdict; settings and counts of a plane.

use super::*;
use crate::{
    skeletons::demux::types as host,
    test_run::{packet_through, tagged_through},
};

mod shares;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SLOT: u32 = 3;

/// A plane with one queue, reached by `MAC` untagged and in VLAN 5, towards loopback.
fn plane(settings: &QueueSettings) -> Plane {
    let mut plane = Plane::create().expect("loads");
    plane.set_queue(SLOT as usize, settings).expect("in range");
    plane.put(Table::IngressDev, None, &SLOT.to_ne_bytes(), Some(1)).expect("lo");
    for vlan in [0u16, 5] {
        let mut key = MAC.to_vec();
        key.extend(vlan.to_be_bytes());
        plane.put(Table::Fdb, None, &key, Some(SLOT)).expect("an entry");
    }
    plane
}

fn queue() -> QueueSettings {
    QueueSettings { limit: 4, burst_limit: 4, counted: true, ..QueueSettings::default() }
}

fn frame(destination: [u8; 6], proto: u16) -> Vec<u8> {
    let mut bytes = vec![0u8; 60];
    bytes[..6].copy_from_slice(&destination);
    bytes[12..14].copy_from_slice(&proto.to_be_bytes());
    bytes
}

fn counts(plane: &Plane) -> QueueCounts {
    plane.queue_counts(SLOT as usize).expect("in range").expect("in use")
}

fn verdict(plane: &Plane, packet: &[u8]) -> u32 {
    packet_through(&plane.demux.progs.isl_demux, packet).0
}

#[test]
fn only_ip_for_a_known_router_takes_the_short_way() {
    let plane = plane(&QueueSettings { limit: 100, burst_limit: 100, ..queue() });
    let mut tagged = frame(MAC, 0x0800);
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let mut strange = tagged.clone();
    strange[15] = 6;
    let table = [
        ("IPv4", frame(MAC, 0x0800), XDP_REDIRECT),
        ("IPv6", frame(MAC, 0x86dd), XDP_REDIRECT),
        ("in its VLAN", tagged, XDP_REDIRECT),
        ("in another VLAN", strange, XDP_PASS),
        ("ARP", frame(MAC, 0x0806), XDP_PASS),
        ("somebody else", frame([2, 0, 0, 0, 0, 2], 0x0800), XDP_PASS),
        ("multicast", frame([3, 0, 0, 0, 0, 1], 0x0800), XDP_PASS),
        ("cut short", frame(MAC, 0x0800)[..14].to_vec(), XDP_REDIRECT),
    ];
    for (name, packet, wanted) in table {
        assert_eq!(verdict(&plane, &packet), wanted, "{name}");
    }
    assert_eq!(counts(&plane).offered, 4);
}

#[test]
fn a_full_queue_drops_and_counts_until_the_router_takes_frames() {
    let mut plane = plane(&queue());
    let packet = frame(MAC, 0x0800);
    // The first overflow always drops; after it a frame goes in every tenth of a second.
    let verdicts: Vec<u32> = (0..5).map(|_| verdict(&plane, &packet)).collect();
    assert_eq!(verdicts, [4, 4, 4, 4, 1]);
    let seen = counts(&plane);
    assert_eq!((seen.offered, seen.dropped_queue, seen.waiting), (5, 1, 4));
    assert_eq!(seen.offered_bytes, 5 * 64);
    // What leaves the queue is what its tag says; here by hand.
    plane.queues.update(SLOT as usize, |queue| queue.dequeued = 3).expect("in range");
    assert_eq!(counts(&plane).waiting, 1);
    assert_eq!(verdict(&plane, &packet), XDP_REDIRECT);
}

#[test]
fn a_burst_is_let_in_unless_the_queue_always_overflows() {
    let mut plane = plane(&QueueSettings { burst_limit: 8, ..queue() });
    let packet = frame(MAC, 0x0800);
    let leave = |plane: &mut Plane, waiting: u32| {
        let leave = |queue: &mut host::isl_queue| queue.dequeued = queue.enqueued - waiting;
        plane.queues.update(SLOT as usize, leave).expect("in range");
    };
    let verdicts: Vec<u32> = (0..9).map(|_| verdict(&plane, &packet)).collect();
    assert_eq!(verdicts[..8], [XDP_REDIRECT; 8]);
    assert_eq!(verdicts[8], XDP_DROP);
    leave(&mut plane, 4);
    assert_eq!(verdict(&plane, &packet), XDP_REDIRECT, "one overflow makes no difference");
    let full: Vec<u32> = (0..300).map(|_| verdict(&plane, &packet)).collect();
    assert!(full.iter().filter(|&&one| one == XDP_DROP).count() > 200);
    leave(&mut plane, 4);
    assert_eq!(verdict(&plane, &packet), XDP_DROP, "it always overflows");
    for _ in 0..2_000 {
        leave(&mut plane, 0);
        assert_eq!(verdict(&plane, &packet), XDP_REDIRECT);
    }
    leave(&mut plane, 4);
    assert_eq!(verdict(&plane, &packet), XDP_REDIRECT, "it has kept up for long enough");
}

/// Offers a frame and gives what the program made of it, without the number before it.
fn made_of(plane: &Plane, packet: &[u8]) -> (u32, Vec<u8>) {
    let (verdict, made) = packet_through(&plane.demux.progs.isl_demux, packet);
    (verdict, made[8..].to_vec())
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded")
}

/// A frame as a kernel hands it to a device that adds checksums, the pseudo header, and where
/// TCP's or UDP's part begins.
fn unfinished(v6: bool, tcp: bool, payload: usize) -> (Vec<u8>, Vec<u8>, usize) {
    let mut bytes = frame(MAC, if v6 { 0x86dd } else { 0x0800 });
    bytes.truncate(14);
    let length = if tcp { 20 } else { 8 } + payload;
    let protocol = if tcp { 6u8 } else { 17 };
    let words = u16::try_from(length).expect("short").to_be_bytes();
    let addresses: Vec<u8> = (1..=if v6 { 32 } else { 8 }).map(|n| n * 7).collect();
    if v6 {
        bytes.extend([0x60, 0, 0, 0, words[0], words[1], protocol, 64]);
    } else {
        let whole = u16::try_from(length + 20).expect("short").to_be_bytes();
        bytes.extend([0x45, 0, whole[0], whole[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
    }
    bytes.extend(&addresses);
    let start = bytes.len();
    bytes.extend((0..length).map(|n| u8::try_from(n % 251).expect("a byte")));
    if tcp {
        bytes[start + 12] = 0x50;
    }
    let pseudo = [addresses.as_slice(), &[0, protocol], &words].concat();
    let seed = sum(&pseudo).to_be_bytes();
    let check = start + if tcp { 16 } else { 6 };
    bytes[check..check + 2].copy_from_slice(&seed);
    (bytes, pseudo, start)
}

#[test]
fn checksums_that_were_left_to_the_device_are_added() {
    let plane = plane(&QueueSettings { limit: 200, burst_limit: 200, ..queue() });
    for payload in [1, 2, 26, 471, 472, 473, 511, 512, 1001, 1460] {
        for (v6, tcp) in [(false, true), (false, false), (true, true), (true, false)] {
            let (packet, pseudo, start) = unfinished(v6, tcp, payload);
            let (verdict, made) = made_of(&plane, &packet);
            assert_eq!(verdict, XDP_REDIRECT);
            let all = [pseudo.as_slice(), &made[start..]].concat();
            assert_eq!(sum(&all), 0xffff, "IPv6 {v6}, TCP {tcp}, {payload} bytes");
            assert_eq!(made_of(&plane, &made).1, made, "what is whole stays as it is");
        }
    }
}

#[test]
fn what_has_a_checksum_of_its_own_or_none_stays_as_it_is() {
    let plane = plane(&QueueSettings { limit: 200, burst_limit: 200, ..queue() });
    let (udp, _, start) = unfinished(false, false, 26);
    let mut without = udp.clone();
    without[start + 6..start + 8].fill(0);
    let mut fragment = udp.clone();
    fragment[20] = 0x20;
    let mut wrong = udp;
    wrong[start + 6] ^= 0x55;
    for packet in [without, fragment, wrong] {
        assert_eq!(made_of(&plane, &packet), (XDP_REDIRECT, packet));
    }
}

#[test]
fn the_tag_of_a_vlan_is_taken_off() {
    let plane = plane(&QueueSettings { limit: 100, burst_limit: 100, ..queue() });
    let (plain, ..) = unfinished(false, true, 100);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let expected = made_of(&plane, &plain);
    assert_eq!(made_of(&plane, &tagged), expected);
}

#[test]
fn a_queue_whose_frames_were_lost_is_tried_again() {
    let plane = plane(&queue());
    let packet = frame(MAC, 0x0800);
    for _ in 0..4 {
        assert_eq!(verdict(&plane, &packet), XDP_REDIRECT);
    }
    // Nobody takes them: at most one in a tenth of a second goes in after that.
    let began = std::time::Instant::now();
    assert_eq!(verdict(&plane, &packet), XDP_DROP, "the first overflow");
    let mut through = 0;
    while through < 4 {
        through += u128::from(verdict(&plane, &packet) == XDP_REDIRECT);
    }
    // The program's clock counts whole milliseconds, and goes on at ticks of up to 10 ms.
    let max = began.elapsed().as_millis() / 89 + 1;
    assert!(through <= max, "{through} of {max}");
}

#[test]
fn what_costs_more_than_a_bucket_holds_is_paid_for_afterwards() {
    // 1,514 bytes are 12,304 bits of the wire; the bucket holds 3,000 and fills in 3 ms.
    let bits =
        RateLimits { bits: TokenBucket { rate: 1_000_000, depth: 3000 }, ..RateLimits::default() };
    let settings = QueueSettings { limit: 200, burst_limit: 200, ingress: bits, ..queue() };
    let plane = plane(&settings);
    let mut packet = frame(MAC, 0x0800);
    packet.resize(1514, 0);
    let began = std::time::Instant::now();
    let mut through = 0;
    while through < 10 {
        through += u128::from(verdict(&plane, &packet) == XDP_REDIRECT);
    }
    let max = began.elapsed().as_micros() / 12_304 + 2;
    assert!(through <= max, "{through} of {max}");
}

#[test]
fn frames_without_a_place_for_a_number_are_no_part_of_the_queue() {
    let plane = plane(&queue());
    // What is before this frame leaves as little as a driver that takes no metadata.
    let before = [0u8; 216];
    for _ in 0..9 {
        let packet = frame(MAC, 0x0800);
        let (verdict, left, out) = tagged_through(&plane.demux.progs.isl_demux, &before, &packet);
        assert_eq!((verdict, left, out), (XDP_REDIRECT, before.to_vec(), packet));
    }
    let seen = counts(&plane);
    assert_eq!((seen.offered, seen.dropped_queue, seen.waiting, seen.untagged), (9, 0, 0, 9));
    verdict(&plane, &frame(MAC, 0x0800));
    assert_eq!((counts(&plane).waiting, counts(&plane).untagged), (1, 9));
}

/// What the programs' clock says.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a structure that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).expect("since boot")
}

/// How many of `offered` frames of 1,514 bytes pass an empty bucket that nothing passed for so long.
fn passed_after(idle_ns: u64, kind: usize, bucket: TokenBucket, offered: u32) -> u32 {
    let mut plane = plane(&QueueSettings { limit: 5000, burst_limit: 5000, ..queue() });
    let emptied = |queue: &mut host::isl_queue| {
        let found = &mut queue.ingress[kind];
        (found.rate, found.depth, found.tokens) = (bucket.rate, bucket.depth, 0);
        found.refilled_ns = now_ns() - idle_ns;
    };
    plane.queues.update(SLOT as usize, emptied).expect("in range");
    let mut packet = frame(MAC, 0x0800);
    packet.resize(1514, 0);
    (0..offered).map(|_| u32::from(verdict(&plane, &packet) == XDP_REDIRECT)).sum()
}

#[test]
fn a_bucket_fills_for_as_long_as_it_takes() {
    const SECOND: u64 = 1_000_000_000;
    let slow = TokenBucket { rate: 5, depth: 2 };
    assert_eq!(passed_after(SECOND / 5, 0, slow, 1), 1, "5 frames/s, one in a fifth of a second");
    let deep = TokenBucket { rate: 10_000_000, depth: 8_000_000 };
    assert_eq!(passed_after(SECOND, 1, deep, 600), 600, "1 MB at once, after a second");
    let fast = TokenBucket { rate: 400_000_000_000, depth: 16_000_000_000 };
    assert_eq!(passed_after(now_ns(), 1, fast, 600), 600, "the whole time since boot");
}

#[test]
fn a_bucket_that_is_not_full_yet_has_what_its_rate_gives() {
    let (slow, began) = (TokenBucket { rate: 5, depth: 1000 }, std::time::Instant::now());
    let through = passed_after(1_000_000_000, 0, slow, 300);
    let max = 5 + began.elapsed().as_millis() / 200 + 1;
    assert!((5..=max).contains(&u128::from(through)), "{through} of {max}");
}

#[test]
fn an_uncounted_queue_leaves_fullness_to_the_kernel() {
    let plane = plane(&QueueSettings { counted: false, ..queue() });
    let packet = frame(MAC, 0x0800);
    assert!((0..9).all(|_| verdict(&plane, &packet) == XDP_REDIRECT));
    assert_eq!(counts(&plane).waiting, 0);
}

#[test]
fn ceilings_of_frames_and_of_bits_hold() {
    let frames = RateLimits { frames: TokenBucket { rate: 1, depth: 3 }, ..RateLimits::default() };
    // 64-byte frames take 84 bytes of the wire, 672 bits: four fit into 3,000, not five.
    let bits = RateLimits { bits: TokenBucket { rate: 1, depth: 3000 }, ..RateLimits::default() };
    for (limits, passed) in [(frames, 3), (bits, 4)] {
        let settings = QueueSettings { limit: 100, burst_limit: 100, ingress: limits, ..queue() };
        let plane = plane(&settings);
        let packet = frame(MAC, 0x0800);
        let verdicts: Vec<u32> = (0..6).map(|_| verdict(&plane, &packet)).collect();
        // The buckets are full at first: nothing has gone by since the machine started.
        let through = verdicts.iter().filter(|&&verdict| verdict == XDP_REDIRECT).count();
        let dropped = verdicts.len() - through;
        assert!(through <= passed, "{verdicts:?}");
        let seen = counts(&plane);
        assert_eq!(seen.dropped_rate, dropped as u64);
    }
}

#[test]
fn a_spent_budget_of_cpu_time_lets_nothing_in() {
    let mut plane =
        plane(&QueueSettings { limit: 100, burst_limit: 100, budget: Some(0), ..queue() });
    let packet = frame(MAC, 0x0800);
    assert_eq!(verdict(&plane, &packet), XDP_REDIRECT, "no cap");
    plane
        .set_budget(0, Budget { rate_ns: 500_000_000, depth_ns: 5_000_000, weight: 0 })
        .expect("in range");
    assert_eq!(verdict(&plane, &packet), XDP_REDIRECT, "time has passed: there is some");
    plane.budgets.update(0, |budget| budget.spent_ns += 60_000_000_000).expect("in range");
    assert_eq!(verdict(&plane, &packet), XDP_DROP, "a minute too much");
    assert_eq!(counts(&plane).dropped_cpu, 1);
}

#[test]
fn what_a_router_ran_for_without_a_cap_does_not_count() {
    let mut plane =
        plane(&QueueSettings { limit: 100, burst_limit: 100, budget: Some(0), ..queue() });
    let packet = frame(MAC, 0x0800);
    let pays = Budget { weight: 100, ..Budget::default() };
    plane.set_budget(0, pays).expect("in range");
    plane.budgets.update(0, |budget| budget.spent_ns += 60_000_000_000).expect("in range");
    let capped = Budget { rate_ns: 500_000_000, depth_ns: 5_000_000, ..pays };
    plane.set_budget(0, capped).expect("in range");
    assert_eq!(verdict(&plane, &packet), XDP_REDIRECT);
    plane.budgets.update(0, |budget| budget.spent_ns += 60_000_000_000).expect("in range");
    plane.set_budget(0, Budget { rate_ns: 400_000_000, ..capped }).expect("in range");
    assert_eq!(verdict(&plane, &packet), XDP_DROP, "another cap forgives nothing");
}

#[test]
fn settings_change_without_touching_counts() {
    let mut plane = plane(&queue());
    verdict(&plane, &frame(MAC, 0x0800));
    plane.set_queue(SLOT as usize, &QueueSettings { limit: 9, ..queue() }).expect("in range");
    let seen = counts(&plane);
    assert_eq!((seen.offered, seen.waiting), (1, 1));
    let wanted = QueueSettings { limit: 9, ..queue() };
    assert_eq!(plane.queue(SLOT as usize).expect("in range"), Some(wanted));
    assert!(plane.set_queue(4096, &queue()).is_err());
    assert!(plane.get(Table::Fdb, &[1, 2]).is_err(), "a key of another length");
}

#[test]
fn programs_of_a_former_version_are_told_from_ours_and_from_others() {
    let plane = Plane::create().expect("loads");
    let ours = attach::describe(plane.demux.progs.isl_demux.as_fd()).expect("is loaded");
    assert_eq!(Hook::Nic.owner(&ours), Owner::Isolane);
    let without_tables = AttachedProgram { maps: Vec::new(), ..ours };
    assert_eq!(Hook::Nic.owner(&without_tables), Owner::FormerVersion);
    let named = |name: &str| AttachedProgram { id: 1, name: name.to_owned(), maps: Vec::new() };
    let table = [
        (Hook::Router, "isl_router_rx", Owner::Isolane),
        (Hook::Router, "isl_serve", Owner::FormerVersion),
        (Hook::EgressXdp, "isl_leave", Owner::FormerVersion),
        (Hook::EgressTc, "isl_egress", Owner::FormerVersion),
        (Hook::EgressXdp, "isl_serve", Owner::Other),
        (Hook::Nic, "xdp_dispatcher", Owner::Other),
    ];
    for (hook, name, owner) in table {
        assert_eq!(hook.owner(&named(name)), owner, "{name}");
    }
}
