use isolane_sched::{BackPressure, FlowSettings, Kind};

use super::{
    waiting::{LOSSES_NS, POLL_NS},
    *,
};
use crate::{
    LinkSettings,
    interface::{Interface, Slots},
    test_guest::{TestGuest, settings, socket},
    test_support::{LO, eventfd, in_network_namespace},
};

/// A back-end with these uplinks and so many ports, of the first uplink.
fn netback(uplinks: &[u32], ports: u8) -> (Netback, Handle) {
    let link = LinkSettings {
        scheduler: Kind::by_name("drr").unwrap(),
        back_pressure: BackPressure::On,
        rate_bps: None,
        burst_ns: None,
    };
    let sharing = Sharing {
        links: vec![link; uplinks.len()],
        ports: vec![FlowSettings::default(); ports.into()],
    };
    let ports = (1..=ports).map(|last| (settings(last), socket())).collect();
    let uplinks: Vec<UplinkSettings> = uplinks
        .iter()
        .map(|&ifindex| UplinkSettings { ifindex, program: None, sockets: Vec::new() })
        .collect();
    Netback::new(uplinks, ports, &sharing).unwrap()
}

#[test]
fn what_the_kernel_lost_is_taken_over_before_its_counter_is_full() {
    in_network_namespace(|| {
        let (mut netback, _handle) = netback(&[LO], 1);
        let mut sender = Interface::new(Slots { receive: 64, send: 64 }).unwrap();
        sender.bind(LO).unwrap();
        sender.set_carrier(true);
        let lost = |netback: &Netback| netback.outputs[0].uplink.counted().ring_full;
        // Whatever the kernel leaves for later, its ring of 1,024 frames is full at some time.
        let mut sent = 0;
        let mut overflow = |netback: &mut Netback, before| {
            while lost(netback) == before {
                sender.push(&[7; 100], NetHeader::NONE);
                sender.flush();
                sent += 1;
                assert!(sent < 10_000_000, "nobody asks the kernel");
                if sent % 100 == 0 {
                    netback.losses_at_ns = 0; // as after ten seconds
                    assert!(!netback.wait(Some(Duration::ZERO)).unwrap());
                }
            }
        };
        overflow(&mut netback, 0);
        let first = lost(&netback);
        overflow(&mut netback, first);
        assert!(lost(&netback) > first, "what is told later is added");
        // Nobody else may wake it meanwhile.
        assert!(netback.rest().is_some_and(|rest| rest <= Duration::from_nanos(LOSSES_NS)));
    });
}

#[test]
fn a_ring_without_a_kick_descriptor_is_looked_at_every_millisecond() {
    let (mut netback, _handle) = netback(&[], 2);
    netback.losses_at_ns = monotonic_ns() + 3_600_000_000_000;
    let kick = eventfd(0);
    let mut other = TestGuest::with_kick(&mut netback.ports[1], Some(kick.as_fd()));
    let limit = Some(Duration::from_nanos(POLL_NS));
    assert!(netback.rest() > limit);
    let mut polled = TestGuest::attached_to(&mut netback.ports[0]);
    assert_eq!(netback.rest(), limit);
    assert_eq!(netback.round(0), 0);
    // Nobody has kicked, and what it transmits is taken in the next round.
    let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[0; 48]].concat();
    other.provide(2048);
    polled.transmit(NetHeader::NONE, &frame);
    assert_eq!(netback.round(0), 1);
    assert_eq!(other.received(), [frame]);
    netback.ports[0].guest_mut().unwrap().disconnect();
    assert!(netback.rest() > limit);
}

#[test]
fn it_sleeps_no_longer_than_it_wants_to() {
    let (mut netback, handle) = netback(&[], 0);
    handle.stop();
    netback.run().unwrap();
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1);
}

#[test]
fn segments_are_no_longer_than_the_mtu_either() {
    let (mut netback, _handle) = netback(&[], 1);
    let mut merged = vec![0; MAX_MERGED_BYTES];
    let bytes = 4_000;
    (merged[0], merged[12], merged[14]) = (2, 8, 0x45); // IPv4
    (merged[23], merged[46]) = (6, 0x50); // TCP without options
    let mut work = |gso_size| {
        let header = NetHeader {
            flags: 1,
            gso_type: NetHeader::TCP_IPV4,
            gso_size,
            csum_start: 34,
            csum_offset: 16,
            ..NetHeader::NONE
        };
        assert!(!netback.work(0, &mut merged.clone(), (bytes, header), 0), "it is to be divided");
        (netback.ports[0].counters.malformed, netback.ports[0].merged.left())
    };
    assert_eq!(work(1_461), (1, 0));
    assert_eq!(work(1_460), (1, 3), "its IP packets have 1,500 bytes");
}
