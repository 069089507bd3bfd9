"""Layouts: unique names and addresses, consistent wires, plans that are refused."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.errors import TestbedError
from isolane.testbed.bed_devices import DUT, GEN, RCV, Layout
from isolane.testbed.bed_drawing import draw
from isolane.testbed.bed_plan import (
    UML,
    BedPlan,
    DiskImage,
    Kind,
    Machine,
    Node,
    Path,
    RouterPlan,
)
from isolane.testbed.layout import make_layout

QEMU = Machine("tcg", "virtio")


def plan(
    paths: Sequence[Path], ip: int = 4, cores: tuple[int, ...] = (1,), machine: Machine = UML
) -> BedPlan:
    kinds: dict[Path, Kind] = {"none": "native", "tap": "vm", "macvtap": "vm", "netback": "vm"}
    routers = tuple(
        RouterPlan(f"vr-{n}", kinds.get(path, "container"), path, None, machine)
        for n, path in enumerate(paths)
    )
    return BedPlan(routers, "threaded", 50_000, cores, (0,), 4 if ip == 4 else 6)


paths = st.lists(
    st.sampled_from(["direct", "bridge", "macvlan", "isolane", "tap", "macvtap", "netback"]),
    min_size=1,
    max_size=40,
)


def names(layout: Layout) -> list[str]:
    return [
        *(end.ifname for veth in layout.veths for end in (veth.tx, veth.rx)),
        *(bridge.ifname for bridge in layout.bridges),
        *(upper.ifname for upper in layout.uppers),
    ]


def macs(layout: Layout) -> list[str]:
    return [
        *(end.mac for veth in layout.veths for end in (veth.tx, veth.rx)),
        *(bridge.mac for bridge in layout.bridges),
        *(macvlan.mac for macvlan in layout.macvlans),
    ]


machines = st.sampled_from([UML, QEMU])


@given(paths, st.sampled_from([4, 6]), machines)
def test_names_macs_and_addresses_are_unique(paths: list[Path], ip: int, machine: Machine) -> None:
    layout = make_layout(plan(paths, ip, machine=machine))
    assert len(set(names(layout))) == len(names(layout))
    assert all(len(name) <= 15 for name in names(layout))
    assert len(set(macs(layout))) == len(macs(layout))
    # Unicast, locally administered
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs(layout))
    addresses = [a for r in layout.routers for a in (r.in_address, r.out_address)]
    networks = [ipaddress.ip_interface(address).network for address in addresses]
    assert len(set(networks)) == len(networks)
    assert all(network.version == ip for network in networks)


@given(paths)
def test_neighbours_and_wires_fit_together(paths: list[Path]) -> None:
    layout = make_layout(plan(paths))
    ends = {end.ifname: end for veth in layout.veths for end in (veth.tx, veth.rx)}
    for router in layout.routers:
        assert ends[router.gen_ifname].mac == router.src_mac
        assert ends[router.gen_ifname].netns == GEN
        assert ends[router.rcv_ifname].mac == router.dst_mac
        assert ends[router.rcv_ifname].netns == RCV
        inside = ipaddress.ip_interface(router.in_address)
        first = ipaddress.ip_address(router.src_ip)
        last = first + router.src_count - 1
        assert first in inside.network
        assert last in inside.network
        assert int(inside.ip) == int(first) - 1
        assert (
            ipaddress.ip_address(router.dst_ip)
            in ipaddress.ip_interface(router.out_address).network
        )
    assert {nic.ifname for nic in layout.dut_nics} <= {v.rx.ifname for v in layout.veths}


@given(paths)
def test_each_loss_has_one_place(paths: list[Path]) -> None:
    """No device is counted for two routers, or for a router and for the shared wires."""
    layout = make_layout(plan(paths))
    counted = [device for router in layout.routers for device in router.counted.values()]
    counted += [(wire.netns, wire.ifname) for wire in layout.shared]
    assert len(set(counted)) == len(counted)
    senders = {(veth.tx.netns, veth.tx.ifname) for veth in layout.veths}
    # What a guest loses on its way out is worked out from its own counters.
    senders -= {(router.netns, router.out_ifname) for router in layout.routers if router.guest}
    virtual = {(macvlan.netns, macvlan.ifname) for macvlan in layout.macvlans}
    assert senders <= set(counted) <= senders | virtual


@given(paths, machines)
def test_the_drawing_hangs_together(paths: list[Path], machine: Machine) -> None:
    setting = plan(paths, machine=machine)
    nodes, edges = draw(setting, make_layout(setting))
    known: set[str] = set()
    for node in nodes:
        assert node.id not in known
        assert node.inside is None or node.inside in known
        known.add(node.id)
    assert {end for edge in edges for end in (edge.source, edge.target)} <= known
    # Every device is on the way from the generator to the receiver, so each router's frames are.
    forward = [(edge.source, edge.target) for edge in edges]
    devices = {node.id for node in nodes if node.part == "device"}
    assert reach(GEN, nodes, forward) == devices
    assert reach(RCV, nodes, [(target, source) for source, target in forward]) == devices


def reach(box: str, nodes: Sequence[Node], steps: Sequence[tuple[str, str]]) -> set[str]:
    """Return the devices that can be reached from those in a box."""
    found = {node.id for node in nodes if node.inside == box}
    for _ in nodes:
        found |= {target for source, target in steps if source in found}
    return found


def test_a_machine_is_drawn_with_what_runs_it() -> None:
    image = DiskImage("/srv/vyos.qcow2", None, None, None)
    labels = []
    for machine in (UML, QEMU, Machine("kvm", "e1000", image=image)):
        setting = plan(["tap"], machine=machine)
        nodes, _ = draw(setting, make_layout(setting))
        labels += [node.label for node in nodes if node.part == "router"]
    assert labels == [
        "vr-0 (User-Mode Linux, vector)",
        "vr-0 (QEMU with TCG, virtio)",
        "vr-0 (QEMU with KVM, e1000, vyos.qcow2)",
    ]


def test_only_what_asks_is_answered_by_a_bridge_and_from_one_address() -> None:
    image = Machine("tcg", "virtio", image=DiskImage("/srv/vyos.qcow2", None, None, None))
    routers = (
        RouterPlan("own", "vm", "bridge", None, QEMU),
        RouterPlan("asks", "vm", "bridge", None, image),
    )
    layout = make_layout(BedPlan(routers, "softirq", 50_000, (1,), (0,), 4))
    floods = {end.ifname for veth in layout.veths for end in (veth.tx, veth.rx) if end.floods}
    assert floods == {"isl-nb0", "isl-nb1", "isl-p1", "isl-q1"}
    assert [router.src_count for router in layout.routers] == [200, 1]
    assert [router.asks for router in layout.routers] == [False, True]


def test_an_image_has_the_addresses_that_it_says() -> None:
    disk = DiskImage("/srv/vyos.qcow2", "192.0.2.1/24", "198.51.100.9/29", None)
    router = RouterPlan("asks", "vm", "tap", None, Machine("tcg", "virtio", image=disk))
    (found,) = make_layout(BedPlan((router,), "softirq", 50_000, (1,), (0,), 4)).routers
    assert (found.in_address, found.out_address) == ("192.0.2.1/24", "198.51.100.9/29")
    assert (found.src_ip, found.dst_ip) == ("192.0.2.2", "198.51.100.10")


def test_a_router_is_drawn_on_the_cores_that_its_policy_chose() -> None:
    setting = plan(["isolane", "isolane", "bridge"], cores=(2, 3))
    nodes, _ = draw(setting, make_layout(setting), {"vr-0": (3,), "vr-1": (2, 3)})
    cores = {node.label: node.cores for node in nodes if node.part == "router"}
    assert cores == {"vr-0": (3,), "vr-1": (2, 3), "vr-2": (2,)}


def test_a_guest_has_its_addresses_and_the_host_has_others() -> None:
    base = plan(["bridge", "bridge", "tap", "macvtap"])
    machine = replace(base.routers[1], kind="vm")
    layout = make_layout(replace(base, routers=(base.routers[0], machine, *base.routers[2:])))
    ends = {end.ifname: end.mac for veth in layout.veths for end in (veth.tx, veth.rx)}
    container, bridged, own_wire, macvtap = layout.routers
    assert [bool(router.guest) for router in layout.routers] == [False, True, True, True]
    assert ends[container.in_ifname] == container.in_mac
    for router in (bridged, own_wire):
        assert ends[router.in_ifname] != router.in_mac
        assert ends[router.out_ifname] != router.out_mac
    assert (bridged.in_mac, "isl-p1") in layout.bridges[0].fdb
    # A macvlan has one address, by which the host finds it.
    own = {macvlan.ifname: macvlan.mac for macvlan in layout.macvlans}
    assert own == {"isl-in3": macvtap.in_mac, "isl-out3": macvtap.out_mac}
    assert own_wire.counted == {"nic_queue": (GEN, "isl-g2")}


def test_a_guest_under_qemu_has_macvtaps_for_nics() -> None:
    layout = make_layout(plan(["tap", "macvtap"], machine=QEMU))
    own_wire, shared = layout.routers
    assert own_wire.taps == ("isl-ti0", "isl-to0")
    below = [(upper.ifname, upper.lower) for upper in layout.passthrus]
    assert below == [("isl-ti0", "isl-in0"), ("isl-to0", "isl-out0")]
    # Path macvtap needs no more of them: they are what the wire is shared with.
    assert shared.taps == (shared.in_ifname, shared.out_ifname)
    assert [macvlan.tap for macvlan in layout.macvlans] == [True, True]
    containers = make_layout(plan(["direct", "macvlan"], machine=QEMU))
    assert not containers.passthrus
    assert not any(macvlan.tap for macvlan in containers.macvlans)


@pytest.mark.parametrize("shaped", [False, True])
def test_capture_points_see_packets_of_the_kernel(shaped: bool) -> None:
    bed = plan(["netback", "netback"])
    first = replace(bed.routers[0], shaped=shaped)
    back_end = make_layout(replace(bed, routers=(first, *bed.routers[1:]))).back_end
    assert back_end is not None
    assert back_end.as_packets is shaped


def test_routers_take_turns_on_the_cores() -> None:
    layout = make_layout(plan(["direct"] * 3, cores=(2, 5)))
    assert [router.core for router in layout.routers] == [2, 5, 2]
    assert [nic.core for nic in layout.dut_nics] == [2, 5, 2]
    shared = make_layout(plan(["bridge"] * 3, cores=(2, 5)))
    assert {router.core for router in shared.routers} == {2}


def test_a_native_router_is_the_dut_itself() -> None:
    layout = make_layout(plan(["none"]))
    assert layout.routers[0].netns == DUT
    assert layout.netns == [GEN, RCV, DUT]


@pytest.mark.parametrize(
    ("subnet", "src", "count"),
    [
        (None, "198.18.0.2", 200),
        ("10.1.2.0/24", "10.1.2.2", 200),
        ("10.1.2.8/29", "10.1.2.10", 5),
    ],
)
def test_sources_come_from_the_subnet(subnet: str | None, src: str, count: int) -> None:
    base = plan(["direct"])
    routers = (replace(base.routers[0], subnet=subnet),)
    router = make_layout(replace(base, routers=routers)).routers[0]
    assert (router.src_ip, router.src_count) == (src, count)


@pytest.mark.parametrize("subnet", ["10.1.2.3/24", "10.0.0.0/30", "198.0.0.0/8", "2001:db8::/64"])
def test_a_subnet_that_does_not_fit_is_refused(subnet: str) -> None:
    base = plan(["direct"])
    routers = (replace(base.routers[0], subnet=subnet),)
    with pytest.raises(TestbedError, match=r"router 'vr-0': subnet .*" + subnet.split("/")[1]):
        make_layout(replace(base, routers=routers))


def test_impossible_plans_are_refused() -> None:
    base = plan(["direct", "direct"])
    first, second = base.routers
    for routers, message in [
        ((), "at least one router"),
        ((first, replace(second, name=first.name)), "two routers are named 'vr-0'"),
        ((replace(first, name="gen"),), "cannot be named 'gen'"),
        ((replace(first, path="none"),), "kind container with path none"),
        ((replace(first, kind="native"),), "kind native with path direct"),
        ((replace(first, kind="vm"),), "kind vm with path direct; it can have tap, bridge, mac"),
        (tuple(replace(first, name=f"r{n}") for n in range(251)), "at most 250"),
    ]:
        with pytest.raises(TestbedError, match=message):
            make_layout(replace(base, routers=routers))
    with pytest.raises(TestbedError, match="moderation of 0 ns"):
        make_layout(replace(base, receive="softirq", moderation_ns=0))
    with pytest.raises(TestbedError, match="routers vr-0, vr-1 are native"):
        make_layout(plan(["none", "none"]))
