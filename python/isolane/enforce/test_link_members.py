"""Machines whose frames come as they came: whose link they share, how, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isolane.enforce.find.netlink_socket import read_attributes
from isolane.enforce.group_plan import capped_within
from isolane.enforce.host_access import Host
from isolane.enforce.host_checks import check
from isolane.enforce.kernel_settings import cpu_budget
from isolane.enforce.link_members import demultiplexed, fed_by, filtered_on, sends_by
from isolane.enforce.nic_features import Nic
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.enforce.settings.link_filters import address_of, options
from isolane.enforce.steering import Steering, key, steer
from isolane.errors import NotSupported
from isolane.spec.policy import Policy, parse_policy

MAC = "02:00:00:00:00:01"
NIC = Nic("nic0", 1, 1500, None, runs_xdp=True, takes_xdp=True, takes_parts=True)
TAP = Interface("tap", None, "tap1", 7, MAC, host_ifname="tap1", bridge="br0")
ON_TOP = Interface("macvlan", None, "mv1", 7, MAC, lower="nic0")
VETH = Interface("veth", Path("/vr1"), "eth0", 5, MAC, host_ifname="v1", bridge="br0")


def policy(keys: str = "link_weight: 2", steering: str = "none") -> Policy:
    nics = f"nics: {{nic0: {{rate: 1Gbps, steer: {steering}}}}}\n"
    return parse_policy(f"isolane: 1\nname: p\n{nics}routers: {{vm: {{process: 5, {keys}}}}}\n")


def machine(*interfaces: Interface, kind: Any = "vm") -> FoundRouter:
    return FoundRouter("vm", kind, None, None, 5, interfaces, (5,))


def checked(
    at: Interface, keys: str = "link_weight: 2", steering: str = "none", kind: Any = "vm"
) -> dict[str, Any]:
    here = SimpleNamespace(interfaces=lambda: {"nic0": 1, "lo": 2})
    host = cast("Host", SimpleNamespace(here=here))
    return dict(check(policy(keys, steering), [machine(at, kind=kind)], host, {"nic0": NIC}))


def test_where_nobody_tells_frames_apart_a_filter_knows_whose_they_are() -> None:
    for at in (TAP, VETH):
        assert not demultiplexed(policy(), machine(at), at)
        assert filtered_on(policy(), machine(at), at) == ("nic0",)
        assert demultiplexed(policy(steering="software"), machine(at), at)
        assert not filtered_on(policy(steering="software"), machine(at), at)
        assert sends_by(policy(), machine(at)) == {"nic0"}
        assert sends_by(policy(steering="auto"), machine(at)) == {"nic0"}
    for steering in ("none", "software"):  # a macvlan has no queue of its own either way
        assert filtered_on(policy(steering=steering), machine(ON_TOP), ON_TOP) == ("nic0",)
    other = Interface("macvlan", None, "mv1", 7, MAC, lower="nic1")
    assert not filtered_on(policy(), machine(other), other)
    assert not filtered_on(policy(), machine(ON_TOP, kind="container"), ON_TOP)


def test_such_a_nic_gives_nobody_a_queue() -> None:
    nic = Nic("nic0", 1, 1500, None, runs_xdp=True, takes_xdp=True, takes_parts=True, queues=8)
    assert not steer(policy(), [machine(TAP)], {"nic0": nic}).queues


@pytest.mark.parametrize("at", [TAP, VETH, ON_TOP], ids=lambda at: at.how)
def test_a_link_is_shared_and_cpu_time_capped_there(at: Interface) -> None:
    keys = "rate_min: 5Mbps, rate_max: 20Mbps, priority: 1, link_weight: 3, burst: 20kB"
    assert checked(at, f"{keys}, cpu_max: 50%")["nic0"].routers == ("vm",)
    assert not checked(at, "cpu_max: 50%"), "nothing of a link is asked for"


OWN = Interface("own", Path("/vr1"), "eth1", 6, MAC)


@pytest.mark.parametrize(
    ("at", "steering", "kind", "fed"),
    [
        (OWN, "none", "vm", True),
        (OWN, "none", "container", True),
        (VETH, "software", "vm", True),
        (VETH, "software", "container", False),
        (VETH, "none", "vm", False),
        (TAP, "software", "vm", False),
        (ON_TOP, "software", "vm", False),
    ],
)
def test_a_cap_is_one_on_a_machines_own_threads_where_another_feeds_it(
    at: Interface, steering: str, kind: str, *, fed: bool
) -> None:
    capped, router = policy("cpu_max: 50%", steering), machine(at, kind=kind)
    assert (fed_by(capped, router) is not None) == fed
    assert capped_within(capped, router, Steering()) == (fed and kind == "vm")
    assert not capped_within(policy(steering=steering), router, Steering())
    of_its_own = Steering({key("nic0", at): 1})  # a receive queue, with a kernel thread
    assert capped_within(capped, router, of_its_own) == (kind == "vm")
    assert (cpu_budget(capped, "vm", kind) is None) == (kind == "vm")
    checked(at, "cpu_max: 50%" if kind == "vm" else "cpu_weight: 5", steering, kind)


REFUSED = {
    "a cap on what forwards": (OWN, "cpu_max: 5%", "container", "all that forwards what.*eth1"),
    "frames a second": (ON_TOP, "rate_max: 5kpps", "vm", "mv1 is a macvlan of nic0.*rate_max in"),
    "what it receives": (TAP, "rate_max: {ingress: 5Mbps}", "vm", "tap1 leaves by nic0.*ingress"),
    "a queue": (VETH, "queue: 64", "vm", r"\(steer: none\) to keep queue by; cpu_weight, cpu_max"),
    "a container": (VETH, "cpu_weight: 5", "container", "to share the CPU by; use steer: software"),
    "another NIC's": (
        Interface("macvlan", None, "mv1", 7, MAC, lower="nic1"),
        "link_weight: 5",
        "vm",
        "to keep link_weight by; .* with nic1 under nics rate_min",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_nobody_keeps_is_refused_with_the_reason(case: str) -> None:
    at, keys, kind, says = REFUSED[case]
    with pytest.raises(NotSupported, match=says):
        checked(at, keys, kind=kind)


def test_the_options_of_a_filter_can_be_read_again() -> None:
    found = read_attributes(options("02:15:03:a0:00:ff", 17))
    assert address_of(found, 17) == "02:15:03:a0:00:ff"
    assert address_of(found, 18) is None, "another class"
    assert address_of({}, 17) is None
