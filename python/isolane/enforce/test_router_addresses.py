"""Routers that have another's MAC address: who had it keeps it, and nobody else is hurt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.router_addresses import with_own_addresses
from isolane.enforce.router_facts import FoundRouter, Interface, MissingRouter
from isolane.enforce.settings import Entry
from isolane.spec.policy import Policy, parse_policy

NAMES = ("vr0", "vr1", "vr2")


def policy(nics: str = "{nic0: {rate: 1Gbps}}") -> Policy:
    routers = "".join(f"  {name}: {{netns: {name}}}\n" for name in NAMES)
    return parse_policy(f"isolane: 1\nname: p\nnics: {nics}\nrouters:\n{routers}")


def mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def router(name: str, *macs: str, vlan: int = 0) -> FoundRouter:
    path = Path("/run/netns") / name
    found = (
        Interface("veth", path, f"eth{n}", n, one, vlan, host_ifname=f"v{n}")
        for n, one in enumerate(macs)
    )
    return FoundRouter(name, "container", path, 1, None, tuple(found))


def in_force(**routers: str) -> State:
    """A policy in force in which these routers have these addresses."""
    state = State(Path("/none"))
    for name, one in routers.items():
        entry = Entry("fdb", one.replace(":", "") + "0000")
        state.applied[entry.key] = AppliedSetting(None, 1, router=name)
    return state


def who_waits(*everyone: FoundRouter | MissingRouter, state: State | None = None) -> dict[str, str]:
    told = with_own_addresses(policy(), everyone, state or in_force())
    assert [one.name for one in told] == [one.name for one in everyone]
    return {one.name: one.reason for one in told if isinstance(one, MissingRouter)}


def test_the_later_one_waits_and_says_why() -> None:
    waits = who_waits(router("vr0", mac(1)), router("vr1", mac(2), mac(1)), router("vr2", mac(3)))
    assert waits == {
        "vr1": "eth1 has the same MAC address as vr0 (eth0), 02:00:00:00:00:01: frames for one "
        "cannot be told from frames for the other; give one of them another"
    }


def test_who_had_the_address_keeps_it() -> None:
    state = in_force(vr0=mac(1), vr1=mac(2))
    assert who_waits(router("vr0", mac(1)), router("vr1", mac(2)), state=state) == {}
    taken = who_waits(router("vr0", mac(2)), router("vr1", mac(2)), state=state)
    assert list(taken) == ["vr0"], "it is the first one of the policy, and has just taken it"
    # One that waits has no address that others could be kept from.
    more = who_waits(
        router("vr0", mac(2), mac(7)), router("vr1", mac(2)), router("vr2", mac(7)), state=state
    )
    assert list(more) == ["vr0"]


def test_one_with_an_address_twice_waits_alone() -> None:
    waits = who_waits(router("vr0", mac(1), mac(1)), router("vr1", mac(1)))
    assert "eth1 has the same MAC address as vr0 (eth0)" in waits.pop("vr0")
    assert not waits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (router("vr0", mac(1)), router("vr1", mac(1), vlan=5)),
        (router("vr0", mac(1)), MissingRouter("vr1", "it does not run")),
        (
            router("vr0", mac(1)),
            replace(router("vr1"), interfaces=(Interface("own", None, "eth5", 5, mac(1)),)),
        ),
    ],
    ids=["another VLAN", "not running", "an interface of its own"],
)
def test_who_is_told_apart_does_not_wait(
    one: FoundRouter, other: FoundRouter | MissingRouter
) -> None:
    assert with_own_addresses(policy(), (one, other), in_force()) == (one, other)


def test_without_a_word_on_where_frames_leave_apply_says_so_not_this() -> None:
    two = policy("{nic0: {rate: 1Gbps}, nic1: {rate: 1Gbps}}")
    both = router("vr0", mac(1)), router("vr1", mac(1))
    assert with_own_addresses(two, both, in_force()) == both
