"""Policies of virtual machines behind a network back-end."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, parse_experiment
from isolane.spec.port_keys import port_keys, without_port_keys
from isolane.spec.schedulers import Uplink

GOOD = """\
isolane: 1
name: two
routers:
  - {name: vr1, kind: vm, hypervisor: uml, policy: {cpu_weight: 200}}
  - {name: vr2, kind: vm, hypervisor: uml}
load: {vr1: 10kpps, vr2: 20kpps}
arms:
  - {name: tap, path: tap}
  - name: link
    path: netback
    scheduler: hierarchical
    uplink_rate: 100Mbps
    policy: {vr1: {rate_min: 40Mbps, link_weight: 3, priority: 2}, vr2: {rate_max: 80Mbps}}
"""


def keys(experiment: Experiment, router: str) -> dict[str, int | str]:
    arm = experiment.resolved_arms()[1]
    return port_keys(arm.router(router).policy, arm.uplink.scheduler)


def test_they_reach_the_ports_that_routers_send_by() -> None:
    it = parse_experiment(GOOD)
    assert it.resolved_arms()[1].uplink == Uplink("hierarchical", 100e6)
    assert keys(it, "vr1") == {"weight": 3, "priority": 2, "rate_min": "40Mbps"}
    assert keys(it, "vr2") == {"weight": 1, "priority": 3, "rate_max": "80Mbps"}
    assert port_keys(None, "strict-priority") == {"priority": 3}, "as with an empty policy"
    assert port_keys(None, "fifo") == {}


def test_the_host_keeps_the_rest() -> None:
    policy = parse_experiment(GOOD).resolved_arms()[1].router("vr1").policy
    assert policy is not None
    assert without_port_keys(policy).written() == {"cpu_weight": 200}


CHANGING = (
    GOOD
    + """\
    changes:
      - {at: 100ms, policy: {vr1: {link_weight: 5}}}
      - {at: 200ms, policy: {vr1: {rate_min: 10Mbps}, vr2: {priority: 0}}}
"""
)


def test_what_a_change_does_not_name_stays_as_it_was() -> None:
    first, second = parse_experiment(CHANGING).resolved_arms()[1].changes
    assert (first.at_ns, second.at_ns) == (100_000_000, 200_000_000)
    one, other = first.policies["vr1"], second.policies["vr1"]
    assert port_keys(one, "hierarchical") == {"weight": 5, "priority": 2, "rate_min": "40Mbps"}
    assert port_keys(other, "hierarchical") == {"weight": 5, "priority": 2, "rate_min": "10Mbps"}
    assert first.policies["vr2"].priority == 3
    assert port_keys(second.policies["vr2"], "strict-priority") == {"priority": 0}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("at: 200ms", "at: 50ms", r"changes\[1\].at: a change at 50ms; accepted: times one after"),
        ("at: 200ms", "at: 500ms", "before the trial ends"),
        ("{vr1: {link_weight: 5}}", "{vr9: {link_weight: 5}}", "of an unknown router 'vr9'"),
        ("{rate_min: 10Mbps}", "{rate_min: 110Mbps}", "policy: rate_min is 110 Mbps"),
        ("{priority: 0}", "{rate_min: 81Mbps}", "rate_min 81Mbps is above"),
        ("{link_weight: 5}", "{cpu_weight: 5}", "cpu_weight of router 'vr1', on path netback"),
        ("{vr1: {link_weight: 5}}", "{}", "policy"),
        ("path: netback\n    scheduler: hierarchical\n    uplink_rate: 100Mbps", "path: tap",
         "a change of router 'vr1', whose path is tap; accepted: path netback"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be_carried_out_are_refused(old: str, new: str, why: str) -> None:
    assert CHANGING.count(old) == 1
    with pytest.raises(SpecError, match=why):
        parse_experiment(CHANGING.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("priority: 2", "queue: 20", "queue of router 'vr1', on path netback"),
        ("scheduler: hierarchical", "scheduler: drr", "rate_min of router 'vr1', .* scheduler drr"),
        ("rate_max: 80Mbps", "rate_max: 80kpps", "rate_max of router 'vr2' in frames per second"),
        (
            "rate_min: 40Mbps",
            "rate_min: 4kbps",
            "'4kbps' is not the rate of a line, on path",
        ),
        ("rate_min: 40Mbps", "rate_min: 4kpps", "rate_min of router 'vr1' in frames per second"),
        ("rate_max: 80Mbps", "rate_max: {ingress: 8Mbps}", "rate_max.ingress of router 'vr2'"),
        ("rate_min: 40Mbps", "rate_min: 140Mbps", r"at most the line's 100 Mbps .*uplink_rate"),
        (
            "path: netback\n    scheduler: hierarchical",
            "path: tap",
            "uplink_rate of arm 'link', in",
        ),
        ("uplink_rate: 100Mbps", "uplink_rate: fast", "'fast' is not a bit rate"),
    ],
)
def test_what_nobody_keeps_is_refused(old: str, new: str, why: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(SpecError, match=why):
        parse_experiment(GOOD.replace(old, new))
