from __future__ import annotations

from io import StringIO
from ipaddress import ip_address, ip_interface
from typing import Any

import pytest
from ruamel.yaml import YAML

from isolane.errors import SpecError
from isolane.spec import parse_experiment
from isolane.spec.external_models import ExternalSide

TEXT = """
isolane: 1
name: there
routers:
  - name: victim
    kind: external
    role: victim
    external:
      ingress: {interface: eth1, mac: "52:54:00:00:00:01", address: 192.0.2.1/24}
      egress: {interface: eth2, mac: "52:54:00:00:00:02", address: 198.51.100.1/24,
               own: 198.51.100.9}
  - name: noise
    kind: external
    role: aggressor
    external:
      ingress: {interface: eth1, mac: "52:54:00:00:00:03", address: 192.0.2.129/25}
      egress: {interface: eth3, netns: far, mac: "52:54:00:00:00:04", address: 203.0.113.1/31}
load: {victim: 1kpps, noise: [0kpps, 2kpps]}
"""


def other(change: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    data = yaml.load(TEXT)
    change(data)
    out = StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def test_what_is_left_out_is_filled_in() -> None:
    (arm,) = parse_experiment(TEXT).resolved_arms()
    assert (arm.name, arm.external) == ("external", True)
    sides = [
        side for r in arm.routers if r.external for side in (r.external.ingress, r.external.egress)
    ]
    assert [str(side.own_address) for side in sides] == [
        "192.0.2.2", "198.51.100.9", "192.0.2.130", "203.0.113.0",
    ]  # fmt: skip
    assert [router.wire for router in arm.routers] == [":eth1", ":eth1"]


def test_it_is_written_as_it_was_read() -> None:
    experiment = parse_experiment(TEXT)
    assert parse_experiment(experiment.to_yaml()) == experiment


def test_an_arm_may_have_other_routers_of_the_same_names() -> None:
    def change(data: Any) -> None:
        there = data["routers"][0]["external"]
        elsewhere = {**there, "ingress": {**there["ingress"], "interface": "eth7"}}
        data["arms"] = [
            {"name": "here"},
            {"name": "there", "external": {"victim": elsewhere}},
            {"name": "built", "kind": "container", "path": "bridge"},
        ]

    here, there, built = parse_experiment(other(change)).resolved_arms()
    names = [arm.router("victim").external for arm in (here, there, built)]
    assert [found and found.ingress.interface for found in names] == ["eth1", "eth7", None]
    assert (here.external, built.external) == (True, False)


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("192.0.2.1/24", "192.0.2.2"),
        ("192.0.2.7/24", "192.0.2.1"),
        ("192.0.2.0/31", "192.0.2.1"),
        ("192.0.2.1/30", "192.0.2.2"),
        ("2001:db8::1/64", "2001:db8::2"),
        ("2001:db8::5/64", "2001:db8::1"),
        ("2001:db8::1/127", "2001:db8::"),
    ],
)
def test_our_address_is_the_lowest_free_one(address: str, own: str) -> None:
    side = ExternalSide(interface="eth1", mac="52:54:00:00:00:01", address=ip_interface(address))
    assert side.own_address == ip_address(own)


IN, OUT = (("routers", 0, "external", side) for side in ("ingress", "egress"))
REFUSALS = (
    ((*IN, "address"), "192.0.2.1", "not an address with its prefix"),
    ((*IN, "address"), "192.0.2.0/24", "not the address of a host"),
    ((*IN, "address"), "192.0.2.255/24", "not the address of a host"),
    ((*IN, "address"), "224.0.0.1/24", "not for routed unicast"),
    ((*IN, "address"), "192.0.2.1/32", "no address left"),
    ((*IN, "address"), "2001:db8::1/64", "the traffic is IPv4"),
    ((*IN, "address"), "fe80::1/64", "not for routed unicast"),
    ((*OUT, "address"), "192.0.2.99/24", "overlaps 192.0.2.0/24"),
    ((*OUT, "own"), "198.51.100.1", "the router's own address"),
    ((*OUT, "own"), "198.51.101.1", "is not in 198.51.100.0/24"),
    ((*OUT, "own"), "host", "not an IP address"),
    ((*OUT, "mac"), "01:00:5e:00:00:01", "nobody's address"),
    ((*OUT, "interface"), "a/b", "not an interface's name"),
    (("routers", 0, "external", "speed"), "10Gbps", "unknown key 'speed'"),
    (("routers", 1, "external", "ingress", "netns"), "far", "ingress interfaces in namespaces"),
    (("routers", 0, "count"), 2, "a group of external routers 'victim'"),
    (("routers", 0, "path"), "bridge", "is external and has no path"),
    (("routers", 0, "address"), "198.18.5.0/24", "address of router 'victim', which is external"),
    (("routers", 0, "policy"), {"cpu_weight": 5}, "policy of router 'victim'"),
    (("routers", 0, "kind"), "native", "external of router 'victim', whose kind is native"),
    (("routers", 1, "kind"), "native", "external victim beside noise"),
)  # fmt: skip


@pytest.mark.parametrize(("where", "value", "words"), REFUSALS)
def test_what_does_not_fit_is_refused(where: tuple[Any, ...], value: Any, words: str) -> None:
    def change(data: Any) -> None:
        for key in where[:-1]:
            data = data[key]
        data[where[-1]] = value

    with pytest.raises(SpecError, match=r"accepted: ") as refused:
        parse_experiment(other(change))
    assert words in str(refused.value)


def test_an_external_router_without_addresses_is_refused() -> None:
    with pytest.raises(SpecError, match="external router 'noise' has no addresses"):
        parse_experiment(other(lambda data: data["routers"][1].pop("external")))


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"path": "bridge"}, "path 'bridge' in arm 'a', where all routers are external"),
        ({"kind": "external", "path": "tap"}, "arm 'a' is external and has no path"),
        ({"kind": "native"}, "more than one native router"),
    ],
)
def test_arms_that_do_not_fit_are_refused(arm: dict[str, Any], words: str) -> None:
    def change(data: Any) -> None:
        data["arms"] = [{"name": "b"}, {"name": "a", **arm}]

    with pytest.raises(SpecError) as refused:
        parse_experiment(other(change))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("nobody", "external of an unknown router 'nobody'"), ("noise", "whose kind is container")],
)
def test_addresses_of_an_arm_that_do_not_fit_are_refused(name: str, words: str) -> None:
    def change(data: Any) -> None:
        own = data["routers"][0]["external"]
        arm = {"name": "a", "kind": "container", "path": "bridge", "external": {name: own}}
        data["arms"] = [{"name": "b"}, arm]

    with pytest.raises(SpecError) as refused:
        parse_experiment(other(change))
    assert words in str(refused.value)
