//! Who causes work pays for it: whose frames the demultiplexer refuses for another router's sake.

use libbpf_rs::{MapCore, MapFlags};

use super::*;

const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER_SLOT: u32 = 4;
/// Of a second interface of the other router's.
const SECOND: [u8; 6] = [2, 0, 0, 0, 0, 3];
const SECOND_SLOT: u32 = 5;

/// Two routers on the NIC's busy core: the first always has too much and has had a lot of the core, the other
/// has 20 frames waiting, and takes some. Gives how many of the first one's are refused,
/// of 300, where something is different before each of them.
fn refused(different: impl Fn(&mut Plane)) -> u64 {
    refused_after(&[OTHER], different)
}

/// Changes what the programs know of each core.
fn each_core(plane: &Plane, mut change: impl FnMut(&mut host::isl_core)) {
    let cores = &plane.demux.maps.isl_cores;
    let key = 0u32.to_ne_bytes();
    let mut values = cores.lookup_percpu(&key, MapFlags::ANY).expect("known").expect("one");
    for value in &mut values {
        // SAFETY: a value of the map has at least these bytes, and all are numbers.
        let mut core = unsafe { value.as_ptr().cast::<host::isl_core>().read_unaligned() };
        change(&mut core);
        // SAFETY: the same.
        unsafe { value.as_mut_ptr().cast::<host::isl_core>().write_unaligned(core) };
    }
    cores.update_percpu(&key, &values, MapFlags::ANY).expect("taken");
}

/// Has each core know that it lately refused work of so long, and was idle for so long, at this time; it
/// does not look for itself before it has seen more frames.
fn lately(plane: &Plane, now_ms: u64, refused_ns: u64, idle_ns: u64) {
    each_core(plane, |core| {
        (core.frames, core.now_ns) = (1, now_ms * 1_000_000);
        (core.refused_ns, core.idle_ns) = (refused_ns, idle_ns);
    });
}

/// The longest work that any core lately refused, ns.
fn max_refused(plane: &Plane) -> u64 {
    let mut max = 0;
    each_core(plane, |core| max = max.max(core.refused_ns));
    max
}

/// The same, where frames to these addresses come before each of its own.
fn refused_after(before: &[[u8; 6]], different: impl Fn(&mut Plane)) -> u64 {
    let first = QueueSettings { limit: 32, burst_limit: 32, budget: Some(0), ..queue() };
    let mut plane = plane(&first);
    let other = QueueSettings { budget: Some(1), ..first };
    for (mac, slot) in [(OTHER, OTHER_SLOT), (SECOND, SECOND_SLOT)] {
        plane.set_queue(slot as usize, &other).expect("in range");
        plane.put(Table::IngressDev, None, &slot.to_ne_bytes(), Some(1)).expect("lo");
        let key = [&mac[..], &[0, 0]].concat();
        plane.put(Table::Fdb, None, &key, Some(slot)).expect("an entry");
    }
    for number in 0..2 {
        let budget = Budget { weight: 100, ..Budget::default() };
        plane.set_budget(number, budget).expect("in range");
    }
    for now_ms in 1_000..1_300 {
        let too_much = |queue: &mut host::isl_queue| {
            queue.pressure = 2_000;
            queue.dequeued = queue.enqueued;
        };
        let waits = |queue: &mut host::isl_queue| {
            queue.dequeued += 1;
            queue.enqueued = queue.dequeued + 20;
        };
        plane.queues.update(SLOT as usize, too_much).expect("in range");
        plane.queues.update(OTHER_SLOT as usize, waits).expect("in range");
        plane.budgets.update(0, |budget| budget.group_ns += 1_000_000).expect("in range");
        lately(&plane, now_ms, 0, 0);
        different(&mut plane);
        for &mac in before {
            verdict(&plane, &frame(mac, 0x0800));
        }
        verdict(&plane, &frame(MAC, 0x0800));
    }
    let seen = counts(&plane);
    assert_eq!(seen.offered, 300);
    assert_eq!(seen.dropped_queue, 0, "it was not full");
    seen.dropped_share
}

#[test]
fn who_has_had_its_share_of_the_core_waits_for_who_has_had_less() {
    // Not all of them: the two frames may come on different cores.
    assert!(refused(|_| ()) > 0);
}

#[test]
fn who_always_has_too_much_waits_also_while_its_queue_is_nearly_empty() {
    let few = |queue: &mut host::isl_queue| {
        queue.enqueued = queue.dequeued + 2;
        queue.pressure = 2_000;
    };
    assert!(refused(|plane| plane.queues.update(OTHER_SLOT as usize, few).expect("in range")) > 0);
}

#[test]
fn who_has_had_less_goes_first_on_a_core_that_was_idle_for_less_than_it_refused() {
    assert!(refused(|plane| each_core(plane, |core| (core.refused_ns, core.idle_ns) = (2, 1))) > 0);
}

#[test]
fn what_is_refused_counts_for_what_one_frame_more_took_lately() {
    let refused = |frame_ns: u64| {
        let mut plane =
            plane(&QueueSettings { limit: 1, burst_limit: 1, budget: Some(0), ..queue() });
        plane.set_budget(0, Budget { weight: 100, ..Budget::default() }).expect("in range");
        for now_ms in 1_000..1_020 {
            plane.queues.update(SLOT as usize, |q| q.dequeued = q.enqueued).expect("in range");
            let takes = |budget: &mut host::isl_budget| {
                // Dearer by and by: what few frames at a time take is not what one more would.
                budget.group_ns += frame_ns * 100 * (now_ms - 999);
                budget.served += 100;
            };
            plane.budgets.update(0, takes).expect("in range");
            lately(&plane, now_ms, 0, 0);
            verdict(&plane, &frame(MAC, 0x0800));
        }
        // The first one fills the queue on whatever core, the second is refused.
        plane.queues.update(SLOT as usize, |q| q.dequeued = q.enqueued).expect("in range");
        for _ in 0..2 {
            verdict(&plane, &frame(MAC, 0x0800));
        }
        assert_eq!(counts(&plane).dropped_queue, 1);
        max_refused(&plane)
    };
    assert_eq!((refused(500), refused(4_000)), (501, 4_001), "one sixteenth more each ms");
}

#[test]
fn what_was_refused_long_ago_is_forgotten_and_a_core_is_idle_for_no_longer_than_it_looks_back() {
    let mut plane = plane(&QueueSettings { budget: Some(0), ..queue() });
    plane.set_budget(0, Budget { weight: 100, ..Budget::default() }).expect("in range");
    each_core(&plane, |core| core.refused_ns = 1_000_000_000);
    let cores = std::thread::available_parallelism().expect("known").get();
    for _ in 0..cores {
        verdict(&plane, &frame(MAC, 0x0800));
    }
    let mut looked = 0;
    each_core(&plane, |core| {
        if core.aged_ms > 0 {
            looked += 1;
            assert_eq!(core.refused_ns, 0);
            assert!(core.idle_ns <= 46_000_000, "{}", core.idle_ns);
        }
    });
    assert!(looked > 0);
}

#[test]
fn a_router_with_frames_waiting_at_one_interface_has_some_whatever_comes_at_another() {
    let taken = |queue: &mut host::isl_queue| {
        queue.dequeued += 1;
        queue.enqueued = queue.dequeued;
    };
    let different = |plane: &mut Plane| {
        plane.queues.update(SECOND_SLOT as usize, taken).expect("in range");
    };
    assert!(refused_after(&[OTHER, SECOND], different) > 0);
}

#[test]
fn nobody_waits_for_the_core_who_is_within_his_share_or_whom_nobody_waits_for() {
    type Change = fn(&mut Plane);
    let table: [(&str, Change); 8] = [
        ("it keeps up", |plane| {
            plane.queues.update(SLOT as usize, |queue| queue.pressure = 0).expect("in range");
        }),
        ("the other has next to nothing waiting", |plane| {
            let few = |queue: &mut host::isl_queue| queue.enqueued = queue.dequeued + 2;
            plane.queues.update(OTHER_SLOT as usize, few).expect("in range");
        }),
        ("the other had too much, and has nothing waiting any more", |plane| {
            let none = |queue: &mut host::isl_queue| {
                queue.enqueued = queue.dequeued;
                queue.pressure = 2_000;
            };
            plane.queues.update(OTHER_SLOT as usize, none).expect("in range");
        }),
        ("the other stands: nothing is taken from its queue", |plane| {
            let stands = |queue: &mut host::isl_queue| {
                queue.dequeued = 0;
                queue.enqueued = 20;
            };
            plane.queues.update(OTHER_SLOT as usize, stands).expect("in range");
        }),
        ("the other has had more", |plane| {
            let more = |budget: &mut host::isl_budget| budget.group_ns += 10_000_000;
            plane.budgets.update(1, more).expect("in range");
        }),
        ("the core was idle for longer than all that it refused would have taken", |plane| {
            each_core(plane, |core| (core.refused_ns, core.idle_ns) = (1, 2));
        }),
        ("it keeps to no share", |plane| {
            plane.set_budget(0, Budget::default()).expect("in range");
        }),
        ("the other keeps to no share", |plane| {
            plane.set_budget(1, Budget::default()).expect("in range");
        }),
    ];
    for (name, different) in table {
        assert_eq!(refused(different), 0, "{name}");
    }
}
