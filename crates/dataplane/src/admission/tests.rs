//! Packet in, verdict and counters out. Tags of VLANs are beside a packet, which `BPF_PROG_TEST_RUN` does not
//! offer: `tests/netback` has them.

use super::*;
use crate::{mapped::MappedArray, test_run::packet_through};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
/// As much of the frame as there is.
const KEEP: u32 = u32::MAX;
const IGNORE: u32 = 0;
const ALL: usize = 0;
const OTHERS: usize = 1;
const EVERYBODY: [u8; 6] = [255; 6];

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// Programs for ports 0 and 1, and the counters that a back-end would have.
struct Bench {
    admission: Admission,
    entries: MappedArray<types::isl_admission>,
}

impl Bench {
    fn new(ring: u32, windows: [u32; 2]) -> Self {
        let admission = Admission::load(&[(0, mac(0)), (0, mac(1))]).expect("loads");
        let entries = MappedArray::new(admission.entries(), 4).expect("mapped");
        let mut made = Self { admission, entries };
        for (number, window) in (0..).zip([ring, 2, windows[0], windows[1]]) {
            made.change(number, |entry| entry.window = window);
        }
        made
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut types::isl_admission)) {
        self.entries.update(number, change).expect("an entry");
    }

    /// Frames that were let in, and refused, by entry.
    fn counted(&self) -> [(u64, u64); 4] {
        let all = self.entries.read(0..4).expect("all entries");
        std::array::from_fn(|number| (all[number].let_in, all[number].refused))
    }

    fn filtered(&self, to: [u8; 6]) -> u32 {
        packet_through(&self.admission.loaded.progs.isl_admit, &frame(to)).0
    }

    fn by_driver(&self, to: [u8; 6]) -> u32 {
        packet_through(&self.admission.loaded.progs.isl_refuse, &frame(to)).0
    }
}

fn frame(to: [u8; 6]) -> Vec<u8> {
    [&to[..], &mac(9), &[8, 0], &[0x45; 46]].concat()
}

#[test]
fn as_many_wait_as_the_window_is_wide_and_no_other_port_pays() {
    let mut bench = Bench::new(1000, [3, 5]);
    let verdicts: Vec<u32> = (0..5).map(|_| bench.filtered(mac(0))).collect();
    assert_eq!(verdicts, [KEEP, KEEP, KEEP, IGNORE, IGNORE]);
    assert_eq!(bench.filtered(mac(1)), KEEP);
    assert_eq!(bench.counted(), [(4, 0), (0, 0), (3, 2), (1, 0)]);
    bench.change(2, |entry| entry.taken = 1);
    assert_eq!([bench.filtered(mac(0)), bench.filtered(mac(0))], [KEEP, IGNORE]);
    bench.change(2, |entry| entry.window = 5);
    assert_eq!(bench.filtered(mac(0)), KEEP);
    // The back-end has set right what waits, and takes what was on its way at that moment.
    bench.change(2, |entry| (entry.taken, entry.window) = (entry.let_in + 2, 1));
    let verdicts: Vec<u32> = (0..4).map(|_| bench.filtered(mac(0))).collect();
    assert_eq!(verdicts, [KEEP, KEEP, KEEP, IGNORE]);
}

#[test]
fn a_port_has_no_more_of_the_ring_than_is_still_free() {
    let bench = Bench::new(8, [100, 100]);
    let let_in = |to| (0..20).filter(|_| bench.filtered(to) == KEEP).count();
    assert_eq!([let_in(mac(0)), let_in(mac(1))], [4, 2]);
    assert_eq!(bench.counted()[ALL], (6, 0));
}

#[test]
fn frames_for_several_have_a_window_and_those_for_nobody_are_ignored() {
    let bench = Bench::new(1000, [9, 9]);
    let verdicts = [EVERYBODY, [0x33, 0x33, 0, 0, 0, 1], EVERYBODY, mac(7)];
    assert_eq!(verdicts.map(|to| bench.filtered(to)), [KEEP, KEEP, IGNORE, IGNORE]);
    assert_eq!(bench.counted()[..=OTHERS], [(2, 1), (2, 1)]);
}

#[test]
fn a_driver_drops_what_would_be_refused_and_leaves_all_else_to_others() {
    let mut bench = Bench::new(1000, [1, 9]);
    assert_eq!([bench.by_driver(mac(0)), bench.by_driver(mac(0))], [XDP_PASS; 2], "not let in yet");
    assert_eq!(bench.filtered(mac(0)), KEEP);
    let all = [mac(0), mac(1), mac(7), EVERYBODY];
    assert_eq!(all.map(|to| bench.by_driver(to)), [XDP_DROP, XDP_PASS, XDP_PASS, XDP_PASS]);
    assert_eq!(bench.counted(), [(1, 0), (0, 0), (1, 1), (0, 0)]);
    bench.change(2, |entry| entry.taken = 1);
    assert_eq!(bench.by_driver(mac(0)), XDP_PASS);
}

/// An `AF_XDP` socket that is bound to nothing, with a ring for what arrives.
fn socket() -> OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(fd >= 0, "needs root");
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let frames = 64u32;
    // SAFETY: the pointer is to a live number of that length.
    let failed = unsafe {
        libc::setsockopt(fd, libc::SOL_XDP, libc::XDP_RX_RING, (&raw const frames).cast(), 4)
    };
    assert_eq!(failed, 0);
    socket
}

#[test]
fn what_a_driver_lets_in_is_handed_over_where_there_is_a_socket_and_it_fits() {
    let bench = Bench::new(1000, [2, 9]);
    let socket = socket();
    bench.admission.hand_to(0, socket.as_fd()).expect("taken");
    let long = |bytes| {
        let mut frame = frame(mac(1));
        frame.resize(bytes, 0);
        packet_through(&bench.admission.loaded.progs.isl_refuse, &frame).0
    };
    let all = [mac(0), mac(0), mac(0), mac(7), EVERYBODY];
    let verdicts = all.map(|to| bench.by_driver(to));
    assert_eq!(verdicts, [XDP_REDIRECT, XDP_REDIRECT, XDP_DROP, XDP_PASS, XDP_PASS]);
    assert_eq!([1792, 1793].map(long), [XDP_REDIRECT, XDP_PASS]);
    assert_eq!(bench.counted(), [(3, 0), (0, 0), (2, 1), (1, 0)]);
    drop(socket);
    assert_eq!(bench.by_driver(mac(1)), XDP_PASS, "whoever had it has gone");
    assert!(bench.admission.hand_to(MAX_SOCKETS, self::socket().as_fd()).is_err());
}
