"""Netfilter on bridges: where it holds, what is refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import parse_experiment

TEXT = """
isolane: 1
name: bridges
dut: {%s}
routers: [{name: vr}]
load: {vr: 1kpps}
arms:
  - {name: one, path: %s}
  - {name: two, path: bridge%s}
"""


def in_arms(dut: str = "cores: 1", path: str = "bridge", arm: str = "") -> list[bool | None]:
    experiment = parse_experiment(TEXT % (dut, path, arm))
    assert parse_experiment(experiment.to_yaml()) == experiment
    return [found.bridge_netfilter for found in experiment.resolved_arms()]


def test_it_is_as_on_the_host_as_the_dut_says_or_as_the_arm_says() -> None:
    assert in_arms() == [None, None]
    assert in_arms("bridge_netfilter: on") == [True, True]
    assert in_arms("bridge_netfilter: on", arm=", bridge_netfilter: off") == [True, False]
    assert in_arms(arm=", bridge_netfilter: off") == [None, False]
    assert in_arms("bridge_netfilter: off", path="direct") == [False, False]


@pytest.mark.parametrize(
    ("path", "dut", "told"),
    [
        (
            "direct, bridge_netfilter: on",
            "cores: 1",
            "of arm 'one', in which no router has",
        ),
        ("bridge, bridge_netfilter: maybe", "cores: 1", "'maybe' is neither on nor off"),
        ("bridge", "bridge_netfilter: 2", "2 is neither on nor off"),
    ],
)
def test_what_is_refused(path: str, dut: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        in_arms(dut, path)


def test_it_is_refused_where_there_is_no_bridge_at_all() -> None:
    text = TEXT.replace("path: bridge", "path: macvlan") % ("bridge_netfilter: on", "direct", "")
    with pytest.raises(SpecError, match="bridge_netfilter of dut, and no router has path bridge"):
        parse_experiment(text)
