"""Files of network back-ends: what is read from them, and what is refused."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from isolane.errors import SpecError
from isolane.spec import netback_schema_text
from isolane.spec.netback_models import NetbackFile, load_netback
from isolane.spec.schedulers import KEYS

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "examples" / "netback").glob("*.yaml"))
GOOD = """\
isolane: 1
name: edge
uplinks:
  eth1: {scheduler: hierarchical, back_pressure: off}
  eth2:
    scheduler: drr
ports:
  vm1: {mac: "52:54:00:00:00:0A", uplink: eth1, rate_min: 200Mbps, rate_max: 1Gbps, priority: 3}
  vm2:
    {mac: "52:54:00:00:00:0a", uplink: eth2, weight: 7, check_source: off, mtu: 576, offloads: off}
"""


def read(folder: Path, text: str) -> NetbackFile:
    file = folder / "netback.yaml"
    file.write_text(text)
    return load_netback(file)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    one, two = found.ports.values()
    assert [(name, u.scheduler, u.back_pressure) for name, u in found.uplinks.items()] == [
        ("eth1", "hierarchical", False), ("eth2", "drr", True),
    ]  # fmt: skip
    assert (one.mac, one.rate_min, one.rate_max, one.priority) == (
        "52:54:00:00:00:0a", 200e6, 1e9, 3,
    )  # fmt: skip
    assert (one.check_source, two.check_source, two.weight, two.mtu) == (True, False, 7, 576)
    assert (one.offloads, two.offloads) == (True, False)
    assert [found.uplink_of(port) for port in (one, two)] == ["eth1", "eth2"]


def test_a_link_takes_a_burst_ahead_of_its_rate(tmp_path: Path) -> None:
    limited = GOOD.replace("scheduler: drr", "rate: 100Mbps\n    burst: 20ms")
    assert [u.burst for u in read(tmp_path, limited).uplinks.values()] == [None, 20_000_000]
    for wrong, words in (
        (
            limited.replace("rate: 100Mbps\n", "scheduler: drr\n"),
            "burst of uplink 'eth2', which has",
        ),
        (limited.replace("20ms", "2s"), "out of range"),
    ):
        with pytest.raises(SpecError, match=words):
            read(tmp_path, wrong)


def test_an_address_may_be_there_once_in_each_vlan(tmp_path: Path) -> None:
    other = GOOD.replace("uplink: eth2, weight: 7", "vlan: 7, uplink: eth1, priority: 1")
    assert [port.vlan for port in read(tmp_path, other).ports.values()] == [None, 7]
    with pytest.raises(SpecError, match="or in its VLAN"):
        read(tmp_path, other.replace("vlan: 7, ", ""))
    with pytest.raises(SpecError, match="4095 is out of range; accepted: 1 to 4094"):
        read(tmp_path, other.replace("vlan: 7", "vlan: 4095"))


def test_frames_wait_as_long_as_is_said(tmp_path: Path) -> None:
    said = GOOD.replace("weight: 7", "wait: 5ms, weight: 7")
    waits = [port.max_wait_ns for port in read(tmp_path, said).ports.values()]
    assert waits == [10_000_000, 5_000_000]
    with pytest.raises(SpecError, match="'2min' is out of range; accepted: 0ms to 1min"):
        read(tmp_path, said.replace("5ms", "2min"))


def test_a_port_may_have_an_interface(tmp_path: Path) -> None:
    with_one = GOOD.replace("weight: 7", "interface: veth7, weight: 7")
    assert [port.interface for port in read(tmp_path, with_one).ports.values()] == [None, "veth7"]
    with pytest.raises(SpecError, match="the interface of port 'vm2' is uplink 'eth1'"):
        read(tmp_path, with_one.replace("veth7", "eth1"))
    twice = with_one.replace("uplink: eth1, rate_min", "uplink: eth1, interface: veth7, rate_min")
    with pytest.raises(SpecError, match="the interface of port 'vm2' is that of port 'vm1'"):
        read(tmp_path, twice)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("uplink: eth2, ", "", "port 'vm2' does not say which uplink it has; accepted: eth1, eth2"),
        ("uplink: eth2", "uplink: eth3", "uplink 'eth3' is not there; accepted: eth1, eth2"),
        ("uplink: eth2, weight: 7", "uplink: eth1", "port 'vm2' has the address of 'vm1'"),
        ("rate_max: 1Gbps", "rate_max: 100Mbps", "rate_min is above rate_max"),
        (
            "weight: 7",
            "rate_max: 1Gbps",
            "scheduler drr does not look at rate_max; accepted: weight",
        ),
        ("weight: 7", "weight: 0", "0 is out of range; accepted: 1 to 1048576"),
        ("mtu: 576", "mtu: 9000", "9000 is out of range; accepted: 68 to 1500"),
        ("check_source: off", "check_source: maybe", "'maybe' is neither on nor off"),
        ("offloads: off", "offloads: 2", "2 is neither on nor off"),
        ("back_pressure: off", "back_pressure: 0", "0 is neither on nor off"),
        ("back_pressure: off", "early_drop: on", "accepted: auto, driver, socket, off"),
        ("back_pressure: off", "receive: xdp", "accepted: auto, packet"),
        ("name: edge", "name: ../edge", "'../edge' is not a name"),
        ("  vm1:", "  ../vm1:", "'../vm1' is not a name"),
        ("ports:", "port:", "ports"),
    ],
)
def test_what_is_wrong_is_told(old: str, new: str, says: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(SpecError) as refused:
        read(tmp_path, GOOD.replace(old, new))
    assert says in str(refused.value)


@pytest.mark.parametrize("scheduler", KEYS)
def test_each_scheduler_takes_its_keys_and_no_other(scheduler: str, tmp_path: Path) -> None:
    values = {"weight": "2", "priority": "2", "rate_min": "1Mbps", "rate_max": "2Mbps"}
    text = "isolane: 1\nname: x\nuplinks: {e: {scheduler: %s}}\nports: {p: {mac: %s, %s: %s}}\n"
    for key, value in values.items():
        written = text % (scheduler, '"02:00:00:00:00:01"', key, value)
        if key in KEYS[scheduler]:  # type: ignore[index]
            read(tmp_path, written)
        else:
            with pytest.raises(SpecError, match=f"does not look at {key}"):
                read(tmp_path, written)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_files_are_read_and_follow_the_schema(path: Path) -> None:
    found = load_netback(path)
    schema = json.loads(netback_schema_text())
    validator = import_module("jsonschema").Draft202012Validator
    validator.check_schema(schema)
    text = import_module("ruamel.yaml").YAML(typ="safe", pure=True).load(path.read_text())
    assert list(validator(schema).iter_errors(text)) == []
    assert set(text["ports"]) == set(found.ports)


def test_the_schema_in_the_repository_is_the_current_one() -> None:
    text = (ROOT / "schema" / "netback.json").read_text(encoding="utf-8")
    assert text == netback_schema_text(), "renew it: make schema"
