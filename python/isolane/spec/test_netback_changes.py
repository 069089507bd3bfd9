"""Keys that are changed while a network back-end runs: what they come to, and what is refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec.loader import parse_file
from isolane.spec.netback_changes import with_netback_changes
from isolane.spec.netback_models import NetbackFile

TEXT = """\
isolane: 1
name: edge
uplinks:
  eth1: {scheduler: hierarchical}
  eth2: {}
ports:
  gold: {mac: "52:54:00:00:00:01", uplink: eth1, rate_min: 200Mbps, weight: 4}
  bronze: {mac: "52:54:00:00:00:03", uplink: eth1, rate_max: 100Mbps}
  plain: {mac: "52:54:00:00:00:04", uplink: eth2}
"""
PLAN = parse_file(TEXT, "edge.yaml", NetbackFile, "a network back-end")


def test_what_is_not_named_stays() -> None:
    changed = with_netback_changes(PLAN, "gold", {"weight": "9", "rate_max": "1Gbps"})
    gold = changed.ports["gold"]
    assert (gold.weight, gold.rate_min, gold.rate_max, gold.mac) == (
        9, 200e6, 1e9, "52:54:00:00:00:01",
    )  # fmt: skip
    assert gold.model_fields_set == {"mac", "uplink", "rate_min", "rate_max", "weight"}
    assert changed.ports["bronze"] == PLAN.ports["bronze"]
    assert PLAN.ports["gold"].weight == 4


def test_none_is_the_default_and_as_if_it_were_not_given() -> None:
    changed = with_netback_changes(PLAN, "bronze", {"rate_max": "none"})
    assert changed.ports["bronze"].rate_max is None
    for key in ("weight", "rate_min"):
        changed = with_netback_changes(changed, "gold", {key: "none"})
    assert changed.ports["gold"].weight == 1
    changed = with_netback_changes(changed, "eth1", {"scheduler": "none"})
    assert changed.uplinks["eth1"].scheduler == "drr", "nobody has a key left that drr ignores"


def test_uplinks_change_too() -> None:
    changes = {"rate": "100Mbps", "back_pressure": "off", "scheduler": "wfq"}
    eth2 = with_netback_changes(PLAN, "eth2", changes).uplinks["eth2"]
    assert (eth2.rate, eth2.back_pressure, eth2.scheduler) == (100e6, False, "wfq")


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("eth1", {"scheduler": "wfq"}, "ports.gold.rate_min: scheduler wfq does not look at rate_"),
        ("plain", {"priority": "1"}, "ports.plain.priority: scheduler drr does not look at prio"),
        ("gold", {"rate_max": "100Mbps"}, "rate_min is above rate_max"),
        ("gold", {"rate_max": "100kpps"}, "rate_max=100kpps: "),
        ("gold", {"weight": "0", "wieght": "1"}, "weight=0: 0 is out of range"),
        ("gold", {"weight": "0", "wieght": "1"}, "wieght=1: unknown key .* mean weight"),
        ("gold", {"mac": "52:54:00:00:00:09"}, "unknown key 'mac'"),
        ("eth1", {"weight": "2"}, "accepted: scheduler, back_pressure, rate"),
        ("eth1", {"early_drop": "off"}, "unknown key 'early_drop'"),
        ("eth1", {"receive": "packet"}, "unknown key 'receive'"),
        ("eth1", {"rate": "[1"}, "rate=.1: "),
        ("golf", {"weight": "2"}, "no port and no uplink named 'golf'; .*mean gold"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, changes: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        with_netback_changes(PLAN, name, changes)
