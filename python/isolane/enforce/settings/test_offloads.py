"""Which offloads a policy switches, and how each is put back: with fake interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from isolane.enforce import transaction
from isolane.enforce.back_end_plan import with_napi
from isolane.enforce.find.veth_peers import Peer
from isolane.enforce.host_access import Host
from isolane.enforce.nic_features import Nic
from isolane.enforce.policy_plan import Plan
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.enforce.setting import Desired
from isolane.spec.policy import parse_policy
from isolane.testbed import kernel

BASE, FAR = "/host", "/far"
POLICY = parse_policy(
    "isolane: 1\nname: p\nnics: {nic0: {rate: 1Gbps}}\nrouters: {vr1: {netns: vr1}}\n"
)


@dataclass
class Features:
    """Offloads of the interfaces of a host, by namespace and name; what is not named is fixed."""

    on: dict[tuple[str, str, str], bool] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        def namespace(path: str) -> object:
            return SimpleNamespace(ioctl=path) if path in (BASE, FAR) else None

        return cast("Host", SimpleNamespace(base=BASE, namespace=namespace))

    def get(self, netns: str, ifname: str, feature: str) -> bool:
        return self.on.get((netns, ifname, feature), False)

    def set(self, netns: str, ifname: str, feature: str, *, on: bool) -> None:
        if (netns, ifname, feature) not in self.on:
            raise OSError(95, "Operation not supported")
        self.on[netns, ifname, feature] = on


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch) -> Features:
    made = Features()
    monkeypatch.setattr(kernel, "get_offload", made.get)
    monkeypatch.setattr(kernel, "set_offload", made.set)
    return made


def nic(kind: str | None, *, runs_xdp: bool = True) -> Nic:
    peer = Peer(Path(FAR), "eth0") if kind == "veth" else None
    return Nic("nic0", 1, 1500, kind, runs_xdp, runs_xdp, runs_xdp, peer)


def plan(features: Features, state: State, vlan: int) -> Plan:
    interface = Interface("veth", Path("/router"), "in", 3, "02:00:00:00:00:01", vlan)
    router = FoundRouter("vr1", "container", Path("/router"), 5, None, (interface,))
    return Plan(POLICY, [router], {}, {}, features.host, state)


def offloads(found: Iterator[Desired]) -> list[tuple[object, ...]]:
    return [(*vars(desired.setting).values(), desired.value) for desired in found]


ALL_ON = {
    (netns, ifname, feature): True
    for netns, ifname in ((BASE, "nic0"), (FAR, "eth0"))
    for feature in ("tx", "txvlan", "rxvlan", "lro")
}
WANTED = {
    "veth": ("veth", True, 0, [(FAR, "eth0", "tx", False)]),
    "veth, a VLAN": (
        "veth", True, 7, [(FAR, "eth0", "tx", False), (FAR, "eth0", "txvlan", False)],
    ),
    "hardware": (None, True, 0, [(BASE, "nic0", "lro", False)]),
    "hardware, a VLAN": (
        None, True, 7, [(BASE, "nic0", "lro", False), (BASE, "nic0", "rxvlan", False)],
    ),
    # The tag beside the frame is seen by the program in tc, and only there.
    "hardware without XDP, a VLAN": (None, False, 7, [(BASE, "nic0", "lro", False)]),
}  # fmt: skip


@pytest.mark.parametrize("name", WANTED)
def test_what_is_switched_off(name: str, features: Features, tmp_path: Path) -> None:
    kind, runs_xdp, vlan, wanted = WANTED[name]
    features.on |= ALL_ON
    found = plan(features, State.load(tmp_path), vlan)._offloads(nic(kind, runs_xdp=runs_xdp))
    assert offloads(found) == wanted


def test_what_is_off_or_not_there_is_left_alone(features: Features, tmp_path: Path) -> None:
    features.on |= dict.fromkeys(ALL_ON, False)
    for there in (True, False):
        made = plan(features, State.load(tmp_path), 7)
        assert offloads(made._offloads(nic("veth"))) == []
        assert offloads(made._offloads(nic(None))) == []
        if there:
            features.on.clear()  # the driver has none of them


def test_an_end_that_cannot_be_entered_is_left_alone(features: Features, tmp_path: Path) -> None:
    features.on |= ALL_ON
    unseen = Nic("nic0", 1, 1500, "veth", runs_xdp=True, takes_xdp=True, takes_parts=True)
    assert offloads(plan(features, State.load(tmp_path), 7)._offloads(unseen)) == []


@pytest.mark.parametrize("kind", ["veth", None])
def test_offloads_are_back_when_the_policy_ends_or_has_no_vlan_any_more(
    kind: str | None, features: Features, tmp_path: Path
) -> None:
    features.on |= ALL_ON
    for vlan in (7, 7, 0, 7):  # the second apply finds what the first has changed
        state = State.load(tmp_path)
        wanted = plan(features, state, vlan)._offloads(nic(kind))
        transaction.apply(wanted, state, features.host, {"policy": "p"})
        vlan_feature = (FAR, "eth0", "txvlan") if kind == "veth" else (BASE, "nic0", "rxvlan")
        assert features.on[vlan_feature] is (vlan == 0)
        assert sum(not on for on in features.on.values()) == (2 if vlan else 1)
    assert transaction.clear(State.load(tmp_path), features.host) == []
    assert features.on == ALL_ON


def test_who_is_at_a_port_gets_napi_at_its_end(features: Features, tmp_path: Path) -> None:
    before = {(BASE, "v1", "tso"): True, (FAR, "eth0", "gro"): False}
    features.on |= before
    at = Interface("veth", Path(FAR), "eth0", 3, "02:00:00:00:00:01", host_ifname="v1")
    for _ in range(2):
        state = State.load(tmp_path)
        transaction.apply(with_napi(at, features.host), state, features.host, {"policy": "p"})
        assert features.on == {key: not on for key, on in before.items()}
    assert transaction.clear(State.load(tmp_path), features.host) == []
    assert features.on == before
