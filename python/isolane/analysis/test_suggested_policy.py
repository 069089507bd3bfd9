"""The policy that a run suggests can be loaded, and has the values that the arm had."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.analysis.suggested_netback import suggested_netback
from isolane.analysis.suggested_policy import suggested_policy
from isolane.spec import load_experiment, parse_experiment, parse_policy
from isolane.spec.loader import parse_file
from isolane.spec.netback_models import NetbackFile
from isolane.spec.port_keys import without_port_keys

SHIPPED = sorted((Path(__file__).parents[3] / "experiments").rglob("*.yaml"))
TEXT = """
isolane: 1
name: mine
dut: {cores: 2}
traffic: {line_rate: 10Gbps}
routers:
  - {name: gold, role: victim, policy: {cpu_weight: 300, rate_min: 1Gbps, cores: [1]}}
  - {name: rest, role: aggressor, count: 2, policy: {cpu_max: 40%}}
load: {gold: 0.2x, rest: [0x, 1x]}
arms:
  - {name: kept, path: isolane}
  - {name: open, path: bridge}
"""


def test_it_has_the_values_and_the_cores_of_the_arm() -> None:
    text = suggested_policy(parse_experiment(TEXT), "kept", [2, 3])
    assert text is not None
    found = parse_policy(text)
    members = parse_experiment(TEXT).router("rest").member_names()
    assert list(found.routers) == ["gold", *members]
    gold, other = found.routers["gold"], found.routers[members[1]]
    assert (gold.cpu_weight, gold.rate_min_bps, gold.cores) == (300, 1e9, (3,))
    assert (other.cpu_max, other.cores) == (40, (2, 3))
    assert list(found.nics) == ["eth1", "eth2"]
    assert "isolane apply policy.yaml" in text


def test_an_arm_without_a_policy_suggests_none() -> None:
    assert suggested_policy(parse_experiment(TEXT), "open", [0, 1]) is None


def test_virtual_machines_are_to_be_found_as_such_and_need_no_nic() -> None:
    text = TEXT.replace(", rate_min: 1Gbps", "").replace("kept, path", "kept, kind: vm, path")
    found = suggested_policy(parse_experiment(text.replace("isolane}", "bridge}")), "kept", [2, 3])
    assert found is not None
    policy = parse_policy(found)
    assert policy.routers["gold"].identity == ("libvirt", "gold")
    assert (policy.routers["gold"].cores, policy.routers["rest-1"].cpu_max) == ((3,), 40)
    assert not policy.nics


def test_what_a_back_end_keeps_is_in_its_file() -> None:
    back_end = "kind: vm, path: netback, scheduler: hierarchical, uplink_rate: 2Gbps"
    text = TEXT.replace("kept, path: isolane", f"kept, {back_end}")
    spec = parse_experiment(text)
    policy, file = suggested_policy(spec, "kept", [2, 3]), suggested_netback(spec, "kept")
    assert policy is not None
    assert parse_policy(policy).routers["gold"].rate_min is None
    assert file is not None
    found = parse_file(file, "netback.yaml", NetbackFile, "a network back-end")
    assert found.uplinks["eth1"].rate == 2e9
    gold, *others = found.ports.values()
    assert (gold.rate_min, gold.priority, len(others)) == (1e9, 3, 2)
    assert suggested_netback(spec, "open") is None
    plain = parse_experiment(text.replace(", policy: {cpu_max: 40%}", "").replace(
        "cpu_weight: 300, ", "").replace(", cores: [1]", ""))  # fmt: skip
    assert suggested_policy(plain, "kept", [2, 3]) is None, "nothing is left for the host"


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_that_of_every_arm_that_is_shipped_can_be_loaded(file: Path) -> None:
    spec = load_experiment(file)
    for arm in spec.resolved_arms():
        text = suggested_policy(spec, arm.name, range(arm.cores))
        managed = [
            router.group
            for router in arm.routers
            if router.policy is not None
            and (router.path != "netback" or without_port_keys(router.policy).written())
        ]
        names = [name for group in managed for name in spec.router(group).member_names()]
        assert ([] if text is None else list(parse_policy(text).routers)) == names
