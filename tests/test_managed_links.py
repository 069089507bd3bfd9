"""Guests that share a link, or are limited on their own: what is in force, and where it drops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from isolane.enforce import htb
from isolane.enforce.host_access import Host
from isolane.enforce.settings import LinkFilter, LinkRoot
from isolane.enforce.settings.link_classes import OURS
from isolane.testbed import NETNS_DIR, SENDING_NICS, Testbed, clean, exclusive
from isolane.testbed.namespace_thread import run_in_thread
from isolane.trials.live.bench import LiveBench
from isolane.trials.live.testbed_policy import DUT_NETNS, clear_leftovers, enforcer

from tests.came_through import was_at_work
from tests.live import assert_same_host, kill_inside, quiet_host
from tests.live_bench import Offer, live_bench

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]
EXPERIMENT = """\
isolane: 1
name: managed-links
traffic: {{ip: {ip}, frame_size: 512, line_rate: 1Gbps}}
routers:
  - {{name: one, policy: {{{keys}}}}}
  - {{name: two, policy: {{cpu_weight: 100}}}}
load: {{one: 1pps, two: 1pps}}
arms: [{{name: guests, kind: vm, hypervisor: {hypervisor}, path: {path}{rate}}}]
"""
SHARED = "link_weight: 3, rate_min: 2Mbps, rate_max: 4Mbps, cpu_max: 80%"
"""Keys of the CPU's and the link's beside each other; 940 frames/s, so that what waits in the guest
is through before a trial ends."""
OWN = "rate_max: 4Mbps"
MAX_BYTES_S = 500_000
"""The same in bytes a second."""
MAX_BURST_BYTES = 2 * htb.burst_bytes(MAX_BYTES_S) + htb.FULL_FRAME
"""What a class may send at once beyond it: the bursts of its rate and of its ceiling."""


@contextmanager
def bench(path: str, ip: int = 4, hypervisor: str = "uml") -> Iterator[tuple[LiveBench, Offer]]:
    keys = OWN if path == "tap" else SHARED
    rate = "" if path == "tap" else ", uplink_rate: 100Mbps"
    text = EXPERIMENT.format(path=path, ip=ip, keys=keys, hypervisor=hypervisor, rate=rate)
    with live_bench(text) as found:
        yield found


def link(path: str) -> tuple[str, str]:
    """File of the namespace and name of the interface whose link is looked at."""
    if path == "tap":
        return str(NETNS_DIR / "isolane-one"), "isl-out0"
    return str(DUT_NETNS), SENDING_NICS[path]


def sent_by(path: str, minor: int) -> tuple[int, int]:
    """Return the bytes and the frames that a class of the link has sent."""

    def look() -> tuple[int, int]:
        host = Host(DUT_NETNS)
        try:
            netns, ifname = link(path)
            namespace, index = host.namespace(netns), host.ifindex(netns, ifname)
            assert namespace is not None
            assert index is not None
            return htb.class_bytes(namespace, index)[minor][:2]
        finally:
            host.close()

    return run_in_thread(look)


def look_at_link(path: str, addresses: dict[str, str]) -> dict[str, int]:
    """Check what the kernel has of the first router's keys; returns the routers' classes."""

    def look() -> dict[str, int]:
        host = Host(DUT_NETNS)
        try:
            netns, ifname = link(path)
            assert LinkRoot(netns, ifname).read(host) == OURS
            found = host.classes(netns, ifname)
            if path == "tap":
                assert (found[1].ceil, found[2].ceil) == (MAX_BYTES_S, MAX_BYTES_S)
                return {"one": htb.DEFAULT_CLASS}
            classes = {}
            for number, (router, mac) in enumerate(addresses.items(), start=1):
                minor = htb.FIRST_CLASS + number - 1
                assert LinkFilter(netns, ifname, number, minor, router).read(host) == mac
                classes[router] = minor
            one, two = found[classes["one"]], found[classes["two"]]
            assert (one.rate, one.ceil) == (MAX_BYTES_S // 2, MAX_BYTES_S)
            assert one.quantum == 3 * two.quantum
            assert two.ceil == found[htb.ROOT_CLASS].rate == 12_500_000
            assert host.leaves(netns, ifname)[classes["one"]] == htb.leaf_frames(MAX_BYTES_S)
            return classes
        finally:
            host.close()

    return run_in_thread(look)


def _shares_a_link(path: str, ip: int, hypervisor: str) -> None:
    before = quiet_host()
    with bench(path, ip, hypervisor) as (built, offer):
        bed = built.equipment.bed
        assert isinstance(bed, Testbed)
        classes = look_at_link(path, bed.sending_macs)
        sent = dict.fromkeys(classes, 0)
        for _ in range(50):
            began, before_bytes = time.monotonic(), sent_by(path, classes["one"])[0]
            seen = offer(3e3, 1e3)
            more = sent_by(path, classes["one"])[0] - before_bytes
            assert more <= MAX_BYTES_S * (time.monotonic() - began) + MAX_BURST_BYTES
            assert seen.conserved
            for router in seen.routers:
                sent[router.router] = sent.get(router.router, 0) + router.received_total
                assert router.cpu_ns or not was_at_work(router, seen.series)
            # On the other paths the guest hears of a full class, and keeps its frames.
            lost = path != "bridge" or seen.routers[0].lost["egress"]
            if lost and all(sent[name] for name in classes):
                break
        assert all(sent[name] for name in classes)
        assert lost, "what is above its limit is lost on its way out"
        for name, minor in classes.items():
            assert sent_by(path, minor)[1] >= sent[name], "all that is its goes by its class"
        if path != "tap":
            assert not sent_by(path, htb.DEFAULT_CLASS)[1]
            assert not built.equipment.managed.nic_threads, "nobody tells frames apart"
    assert_same_host(before)


@pytest.mark.parametrize(("path", "ip"), [("bridge", 4), ("macvtap", 6), ("tap", 4)])
def test_guests_share_a_link_by_its_classes_and_are_limited_there(path: str, ip: int) -> None:
    _shares_a_link(path, ip, "uml")


@pytest.mark.usefixtures("needs_qemu_guests")
@pytest.mark.parametrize(("path", "ip"), [("bridge", 6), ("macvtap", 4)])
def test_the_same_under_qemu(path: str, ip: int) -> None:
    _shares_a_link(path, ip, "tcg")


def test_what_a_killed_run_left_of_links_is_removed() -> None:
    before = quiet_host()
    kill_inside(lambda: bench("macvtap"))
    with exclusive():
        clean()
        clear_leftovers()
    assert_same_host(before)
    assert enforcer().status().policy is None
