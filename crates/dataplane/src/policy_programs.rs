//! Packet in, packet out, verdict: the programs of a policy beside the demultiplexer, whose tests are
//! in `plane/tests.rs`. They work on their own tables here, as `BPF_PROG_TEST_RUN` sees them: every packet
//! comes from loopback, interface 1.

use std::{os::fd::AsFd, process::Command, thread};

use etherparse::Ipv4Header;
use libbpf_rs::{MapCore, MapFlags};

use crate::{
    load::{Family, Loaded},
    mapped::MappedArray,
    skeletons::{
        demux::{DemuxSkel, DemuxSkelBuilder, types as host},
        forward::{ForwardSkel, ForwardSkelBuilder, types as router},
    },
    test_run::{packet_through, skb_through, tagged_through},
    test_thread,
};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
/// -1: the next filter decides.
const TC_ACT_UNSPEC: u32 = u32::MAX;
const TC_ACT_SHOT: u32 = 2;
const TC_ACT_REDIRECT: u32 = 7;
const LOOPBACK: u32 = 1;
const PORT: u32 = 3;
const SLOT: u32 = 5;
const EGRESS_DEV: u32 = 7;
/// `ISL_TAG_MARK`, `ISL_MAX_PORTS`, `ISL_MAX_QUEUES`, `ISL_MAX_BUDGETS`.
const TAG_MARK: u32 = 0x15a0_0000;
const MAX_PORTS: usize = 2048;
const MAX_QUEUES: usize = 2048;
const MAX_BUDGETS: usize = 1024;

fn set(map: &impl MapCore, key: &[u8], value: u32) {
    map.update(key, &value.to_ne_bytes(), MapFlags::ANY).expect("an entry that the map takes");
}

/// A frame of `size` bytes with its check sequence: to `destination`, IPv4 or IPv6, time to live 64.
fn frame(v6: bool, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; size - 4];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    if v6 {
        bytes[12..14].copy_from_slice(&0x86ddu16.to_be_bytes());
        bytes[14] = 0x60;
        bytes[20..22].copy_from_slice(&[17, 64]);
        bytes[22..38].copy_from_slice(&address("2001:2:0:1::2"));
        bytes[38..54].copy_from_slice(&address("2001:2:0:2::2"));
        return bytes;
    }
    bytes[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
    let length = u16::try_from(size - 18).expect("short");
    let mut ip = Ipv4Header::new(length - 20, 64, 17.into(), [198, 18, 0, 2], [198, 19, 0, 2])
        .expect("short");
    ip.header_checksum = ip.calc_header_checksum();
    bytes[14..34].copy_from_slice(&ip.to_bytes());
    bytes
}

fn address(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

/// The host's programs with one port, that of loopback.
struct Host {
    skel: Loaded<DemuxSkel<'static>>,
    ports: MappedArray<host::isl_port>,
}

impl Host {
    fn new(change: impl FnOnce(&mut host::isl_port)) -> Self {
        let family = Family { program: "demux", feature: "XDP" };
        let skel = Loaded::load(family, DemuxSkelBuilder::default(), |_| Ok(())).expect("loads");
        set(&skel.maps.isl_port_of, &LOOPBACK.to_ne_bytes(), PORT);
        let mut ports = MappedArray::new(skel.maps.isl_ports.as_fd(), MAX_PORTS).expect("maps");
        ports.update(PORT as usize, change).expect("in range");
        Self { skel, ports }
    }

    fn port(&self) -> host::isl_port {
        self.ports.read(0..MAX_PORTS).expect("all")[PORT as usize]
    }
}

/// No more than three frames, ever: the bucket holds three and gets one a second.
fn three_frames(port: &mut host::isl_port) {
    port.uplink = LOOPBACK;
    (port.egress[0].rate, port.egress[0].depth, port.egress[0].tokens) = (1, 3, 3_000_000);
}

#[test]
fn egress_xdp_sends_a_routers_frames_to_the_uplink_and_counts_them() {
    let host = Host::new(|port| port.uplink = LOOPBACK);
    set(&host.skel.maps.isl_uplinks, &PORT.to_ne_bytes(), LOOPBACK);
    for (v6, size) in [(false, 64), (false, 1518), (true, 128)] {
        let packet = frame(v6, size);
        let (verdict, out) = packet_through(&host.skel.progs.isl_egress_xdp, &packet);
        assert_eq!((verdict, out), (XDP_REDIRECT, packet), "unchanged");
    }
    let port = host.port();
    assert_eq!((port.offered, port.offered_bytes, port.dropped_rate), (3, 64 + 1518 + 128, 0));
}

#[test]
fn egress_xdp_leaves_to_the_kernel_what_is_not_its_own() {
    let packet = frame(false, 64);
    let of_nobody = Host::new(|port| port.uplink = LOOPBACK);
    of_nobody.skel.maps.isl_port_of.delete(&LOOPBACK.to_ne_bytes()).expect("was there");
    let classed = |port: &mut host::isl_port| (port.uplink, port.class) = (LOOPBACK, 0x0001_0010);
    let table = [
        ("an interface of no router", of_nobody),
        ("one whose frames need a class of the qdisc", Host::new(classed)),
        ("one whose frames the host routes", Host::new(|port| port.uplink = 0)),
    ];
    for (name, host) in table {
        let (verdict, out) = packet_through(&host.skel.progs.isl_egress_xdp, &packet);
        assert_eq!((verdict, &out), (XDP_PASS, &packet), "{name}");
        assert_eq!(host.port().offered, 0, "{name}: the next program counts it");
    }
}

#[test]
fn egress_xdp_drops_and_counts_what_is_above_the_limit() {
    let host = Host::new(three_frames);
    set(&host.skel.maps.isl_uplinks, &PORT.to_ne_bytes(), LOOPBACK);
    let packet = frame(false, 64);
    let verdicts = (0..5).map(|_| packet_through(&host.skel.progs.isl_egress_xdp, &packet).0);
    let redirect = [XDP_REDIRECT; 3];
    assert_eq!(verdicts.collect::<Vec<_>>(), [&redirect[..], &[XDP_DROP; 2]].concat());
    assert_eq!((host.port().offered, host.port().dropped_rate), (5, 2));
}

#[test]
fn egress_tc_gives_a_routers_frames_their_class_and_their_interface() {
    let packet = frame(false, 128);
    let class = 0x0001_0010;
    let table: [(u32, u32, u32); 4] = [
        (0, 0, TC_ACT_UNSPEC),
        (0, class, TC_ACT_UNSPEC),
        (LOOPBACK, 0, TC_ACT_REDIRECT),
        (LOOPBACK, class, TC_ACT_REDIRECT),
    ];
    for (uplink, class, wanted) in table {
        let host = Host::new(|port| (port.uplink, port.class) = (uplink, class));
        let (verdict, out, priority) = skb_through(&host.skel.progs.isl_egress_tc, &packet);
        assert_eq!((verdict, priority), (wanted, class), "uplink {uplink}");
        assert_eq!(out, packet, "unchanged");
        assert_eq!((host.port().offered, host.port().offered_bytes), (1, 128));
    }
}

#[test]
fn egress_tc_leaves_frames_of_no_router_alone() {
    let host = Host::new(|port| port.class = 1);
    host.skel.maps.isl_port_of.delete(&LOOPBACK.to_ne_bytes()).expect("was there");
    let packet = frame(true, 128);
    let (verdict, out, priority) = skb_through(&host.skel.progs.isl_egress_tc, &packet);
    assert_eq!((verdict, out, priority), (TC_ACT_UNSPEC, packet, 0));
    assert_eq!(host.port().offered, 0);
}

#[test]
fn egress_tc_drops_and_counts_what_is_above_the_limit() {
    let host = Host::new(three_frames);
    let packet = frame(false, 64);
    let verdicts = (0..5).map(|_| skb_through(&host.skel.progs.isl_egress_tc, &packet).0);
    let redirect = [TC_ACT_REDIRECT; 3];
    assert_eq!(verdicts.collect::<Vec<_>>(), [&redirect[..], &[TC_ACT_SHOT; 2]].concat());
    assert_eq!((host.port().offered, host.port().dropped_rate), (5, 2));
}

/// The demultiplexer of a NIC without XDP, with one queue towards loopback, found by `frame`'s destination.
struct Demux {
    skel: Loaded<DemuxSkel<'static>>,
    queues: MappedArray<host::isl_queue>,
}

impl Demux {
    fn new(change: impl FnOnce(&mut host::isl_queue)) -> Self {
        let family = Family { program: "demux", feature: "XDP" };
        let skel = Loaded::load(family, DemuxSkelBuilder::default(), |_| Ok(())).expect("loads");
        set(&skel.maps.isl_fdb, &fdb_key(0), SLOT);
        set(&skel.maps.isl_ingress_tc, &SLOT.to_ne_bytes(), LOOPBACK);
        let mut queues = MappedArray::new(skel.maps.isl_queues.as_fd(), MAX_QUEUES).expect("maps");
        let in_use = |queue: &mut host::isl_queue| {
            // As a policy has it: nobody counts what leaves a queue that tc fills.
            (queue.limit, queue.uncounted) = (1, 1);
            change(queue);
        };
        queues.update(SLOT as usize, in_use).expect("in range");
        Self { skel, queues }
    }

    fn queue(&self) -> host::isl_queue {
        self.queues.read(0..MAX_QUEUES).expect("all")[SLOT as usize]
    }

    fn verdict(&self, packet: &[u8]) -> u32 {
        let (verdict, out, _) = skb_through(&self.skel.progs.isl_demux_tc, packet);
        assert_eq!(out, packet, "unchanged");
        verdict
    }
}

/// Key of the forwarding table for the destination that `frame` has.
fn fdb_key(vlan: u16) -> Vec<u8> {
    [&[2u8, 0, 0, 0, 0, 1][..], &vlan.to_be_bytes()].concat()
}

#[test]
fn demux_tc_redirects_a_routers_frames_to_its_interface_and_counts_them() {
    let demux = Demux::new(|_| ());
    for (v6, size) in [(false, 64), (false, 1518), (true, 128)] {
        assert_eq!(demux.verdict(&frame(v6, size)), TC_ACT_REDIRECT, "{size} bytes");
    }
    let queue = demux.queue();
    assert_eq!((queue.offered, queue.offered_bytes), (3, 64 + 1518 + 128));
    assert_eq!((queue.dropped_queue, queue.dropped_rate, queue.dropped_size), (0, 0, 0));
    assert_eq!(queue.enqueued, 0, "frames get no number here");
}

#[test]
fn demux_tc_leaves_to_the_kernel_what_is_for_no_router() {
    let with = |at: usize, bytes: &[u8]| {
        let mut packet = frame(false, 128);
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        packet
    };
    let in_use = || Demux::new(|_| ());
    let without_interface = in_use();
    let no_interface = &without_interface.skel.maps.isl_ingress_tc;
    no_interface.delete(&SLOT.to_ne_bytes()).expect("was there");
    let in_a_vlan = in_use();
    in_a_vlan.skel.maps.isl_fdb.delete(&fdb_key(0)).expect("was there");
    set(&in_a_vlan.skel.maps.isl_fdb, &fdb_key(5), SLOT);
    let table = [
        ("another destination", in_use(), with(5, &[2])),
        ("multicast", in_use(), with(0, &[3])),
        ("ARP", in_use(), with(12, &[0x08, 0x06])),
        ("a tag that the kernel has not taken off", in_use(), with(12, &[0x81, 0])),
        ("a destination in a VLAN only", in_a_vlan, frame(false, 128)),
        ("a queue that is not in use", Demux::new(|queue| queue.limit = 0), frame(false, 128)),
        ("a router without an interface", without_interface, frame(false, 128)),
    ];
    for (name, demux, packet) in table {
        assert_eq!(demux.verdict(&packet), TC_ACT_UNSPEC, "{name}");
        assert_eq!(demux.queue().offered, 0, "{name}");
    }
}

#[test]
fn demux_tc_drops_and_counts_what_is_above_the_limit() {
    let demux = Demux::new(|queue| {
        let bucket = &mut queue.ingress[0];
        (bucket.rate, bucket.depth, bucket.tokens) = (1, 3, 3_000_000);
    });
    let verdicts = (0..5).map(|_| demux.verdict(&frame(false, 64))).collect::<Vec<_>>();
    assert_eq!(verdicts, [&[TC_ACT_REDIRECT; 3][..], &[TC_ACT_SHOT; 2]].concat());
    assert_eq!((demux.queue().offered, demux.queue().dropped_rate), (5, 2));
}

#[test]
fn demux_tc_drops_and_counts_what_is_too_long_for_the_routers_interface() {
    in_a_routers_namespace(|ifindex| {
        let demux = Demux::new(|_| ());
        set(&demux.skel.maps.isl_ingress_tc, &SLOT.to_ne_bytes(), ifindex);
        ip("link set out mtu 1000");
        // A packet of 1,000 bytes has 14 of Ethernet before it, and 4 of its check sequence after it.
        assert_eq!(demux.verdict(&frame(false, 1018)), TC_ACT_REDIRECT);
        assert_eq!(demux.verdict(&frame(false, 1019)), TC_ACT_SHOT);
        assert_eq!((demux.queue().offered, demux.queue().dropped_size), (2, 1));
    });
}

/// The router's program with one queue.
struct Router {
    skel: Loaded<ForwardSkel<'static>>,
    queues: MappedArray<router::isl_queue>,
    budgets: MappedArray<router::isl_budget>,
}

impl Router {
    fn new(change: impl FnOnce(&mut router::isl_queue)) -> Self {
        let family = Family { program: "forward", feature: "XDP" };
        let skel = Loaded::load(family, ForwardSkelBuilder::default(), |_| Ok(())).expect("loads");
        let mut queues = MappedArray::new(skel.maps.isl_queues.as_fd(), MAX_QUEUES).expect("maps");
        let budgets = MappedArray::new(skel.maps.isl_budgets.as_fd(), MAX_BUDGETS).expect("maps");
        queues.update(SLOT as usize, change).expect("in range");
        Self { skel, queues, budgets }
    }

    fn queue(&self) -> router::isl_queue {
        self.queues.read(0..MAX_QUEUES).expect("all")[SLOT as usize]
    }

    /// A packet with the tag that the demultiplexer gave it.
    fn receive(&self, number: u32, packet: &[u8]) -> (u32, Vec<u8>) {
        let tag = [(TAG_MARK + SLOT).to_ne_bytes(), number.to_ne_bytes()].concat();
        let (verdict, tag, out) = tagged_through(&self.skel.progs.isl_router_rx, &tag, packet);
        assert_eq!(tag, [0u8; 0], "the tag is taken off");
        (verdict, out)
    }
}

#[test]
fn router_rx_notes_which_frame_has_left_the_queue_and_passes_it_on() {
    let router = Router::new(|_| ());
    let packet = frame(false, 64);
    for number in [1, 2, 9] {
        assert_eq!(router.receive(number, &packet), (XDP_PASS, packet.clone()));
        assert_eq!(router.queue().dequeued, number);
    }
    assert_eq!((router.queue().served, router.queue().forwarded), (3, 0));
}

#[test]
fn router_rx_leaves_frames_alone_that_the_demultiplexer_has_not_tagged() {
    let router = Router::new(|queue| queue.forward_xdp = 1);
    let packet = frame(false, 64);
    let (verdict, out) = packet_through(&router.skel.progs.isl_router_rx, &packet);
    assert_eq!((verdict, &out), (XDP_PASS, &packet), "no tag");
    let others = [0x1234_5678u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat();
    let (verdict, meta, out) = tagged_through(&router.skel.progs.isl_router_rx, &others, &packet);
    assert_eq!((verdict, meta, out), (XDP_PASS, others, packet), "meta data of somebody else");
    assert_eq!((router.queue().served, router.queue().dequeued), (0, 0));
}

#[test]
fn router_rx_charges_the_routers_budget_with_what_its_thread_ran_for() {
    let mut router = Router::new(|queue| queue.budget = 1);
    router.budgets.update(0, |budget| budget.rate_ns = 500_000_000).expect("in range");
    let spent = |router: &Router| router.budgets.read(0..1).expect("one")[0].spent_ns;
    let began_ns = test_thread::raw_ns();
    // The program sees what the kernel has added up, and this has it add up all from before.
    test_thread::ran_ns();
    router.receive(1, &frame(false, 64));
    assert_eq!(spent(&router), 0, "from the first frame on");
    test_thread::spin(5_000_000);
    router.receive(2, &frame(false, 64));
    let (spent_ns, max_ns) = (spent(&router), test_thread::max_passed_ns(began_ns));
    assert!((5_000_000..=max_ns).contains(&spent_ns), "{spent_ns} of {max_ns} ns");
    // A cap that is taken away and given again does not charge what the thread ran for meanwhile.
    let number = |router: &mut Router, budget| {
        router.queues.update(SLOT as usize, |queue| queue.budget = budget).expect("in range");
    };
    number(&mut router, 0);
    router.receive(3, &frame(false, 64));
    test_thread::spin(5_000_000);
    number(&mut router, 1);
    router.receive(4, &frame(false, 64));
    assert_eq!(spent(&router), spent_ns, "from the first frame on, again");
}

fn ip(line: &str) {
    let done = Command::new("ip").args(line.split(' ')).status().expect("iproute2");
    assert!(done.success(), "ip {line}");
}

/// Carries out `work` on a thread with a network namespace of its own: interface `out` with routes to
/// both destinations and a neighbour behind it, and forwarding switched on.
fn in_a_routers_namespace(work: impl FnOnce(u32) + Send) {
    thread::scope(|scope| {
        let ended = scope.spawn(|| {
            // SAFETY: takes no pointers; the thread ends with the namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
            for family in ["ipv4", "ipv6"] {
                let key = format!("/proc/sys/net/{family}/conf/all/forwarding");
                std::fs::write(key, "1").expect("needs root");
            }
            ip("link set lo up");
            ip("link add out address 02:00:00:00:00:0a type veth peer name far");
            ip("link set out up");
            ip("link set far up");
            ip("address add 198.19.0.1/24 dev out");
            ip("address add 2001:2:0:2::1/64 dev out nodad");
            ip("neighbour add 198.19.0.2 lladdr 02:00:00:00:00:0b dev out");
            ip("neighbour add 2001:2:0:2::2 lladdr 02:00:00:00:00:0b dev out");
            // SAFETY: a string that ends with zero.
            work(unsafe { libc::if_nametoindex(c"out".as_ptr()) });
        });
        ended.join()
    })
    .expect("the thread's own assertions hold");
}

fn forwarder(ifindex: u32) -> Router {
    let router = Router::new(|queue| queue.forward_xdp = 1);
    let key = [SLOT.to_ne_bytes(), ifindex.to_ne_bytes()].concat();
    set(&router.skel.maps.isl_redirects, &key, EGRESS_DEV);
    set(&router.skel.maps.isl_egress_dev, &EGRESS_DEV.to_ne_bytes(), ifindex);
    router
}

#[test]
fn router_rx_forwards_by_the_routers_routes_and_neighbours() {
    in_a_routers_namespace(|ifindex| {
        let router = forwarder(ifindex);
        for v6 in [false, true] {
            let packet = frame(v6, 128);
            let (verdict, out) = router.receive(1, &packet);
            assert_eq!(verdict, XDP_REDIRECT, "IPv6: {v6}");
            assert_eq!(out[..6], [2, 0, 0, 0, 0, 0xb], "to the neighbour");
            assert_eq!(out[6..12], [2, 0, 0, 0, 0, 0xa], "from the interface");
            let mut wanted = packet[12..].to_vec();
            if v6 {
                wanted[9] = 63;
            } else {
                let ip = Ipv4Header::from_slice(&out[14..]).expect("IPv4").0;
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                wanted[10] = 63;
                wanted[12..14].copy_from_slice(&ip.header_checksum.to_be_bytes());
            }
            assert_eq!(out[12..], wanted, "all else is unchanged");
        }
        let queue = router.queue();
        assert_eq!((queue.served, queue.forwarded, queue.forwarded_bytes), (2, 2, 2 * 128));
    });
}

#[test]
fn router_rx_leaves_to_the_kernel_what_is_unusual() {
    in_a_routers_namespace(|ifindex| {
        let router = forwarder(ifindex);
        let with = |v6: bool, at: usize, bytes: &[u8]| {
            let mut packet = frame(v6, 128);
            packet[at..at + bytes.len()].copy_from_slice(bytes);
            packet
        };
        let table = [
            ("ARP", with(false, 12, &[0x08, 0x06])),
            ("IPv4 options", with(false, 14, &[0x46])),
            ("the last hop of IPv4", with(false, 22, &[1])),
            ("the last hop of IPv6", with(true, 21, &[1])),
            ("hop-by-hop options", with(true, 20, &[0])),
            ("no route", with(false, 30, &[203, 0, 113, 1])),
            ("no neighbour", with(false, 33, &[77])),
            ("for the router itself", with(false, 33, &[1])),
            ("cut short", frame(false, 128)[..30].to_vec()),
        ];
        for (name, packet) in &table {
            let (verdict, out) = router.receive(1, packet);
            assert_eq!((verdict, &out), (XDP_PASS, packet), "{name}");
        }
        let key = [SLOT.to_ne_bytes(), ifindex.to_ne_bytes()].concat();
        router.skel.maps.isl_redirects.delete(&key).expect("was there");
        let packet = frame(false, 128);
        assert_eq!(
            router.receive(1, &packet),
            (XDP_PASS, packet),
            "an interface without an entry in the egress devmap"
        );
        assert_eq!(router.queue().forwarded, 0);
    });
}
