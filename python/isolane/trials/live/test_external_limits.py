"""What is said to be missing where routers are external."""

from __future__ import annotations

import pytest

from isolane.spec import TrialPlan, parse_experiment
from isolane.trials.live.external_limits import external_limits

TEXT = """\
isolane: 1
name: there
routers:
  - name: edge
    kind: external
    external:
      ingress: {interface: eth1, mac: "52:54:00:00:00:01", address: 192.0.2.1/24}
      egress: {interface: eth2, mac: "52:54:00:00:00:02", address: 198.51.100.1/24}
load: {edge: 1kpps}
"""


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (TrialPlan(), []),
        (TrialPlan(capture_points=True), ["Where the time goes on {}"]),
        (TrialPlan(capture=True), ["Where the time goes on {}, and capture files"]),
    ],
)
def test_parts_of_the_path_are_said_to_be_missing_where_they_were_asked_for(
    plan: TrialPlan, parts: list[str]
) -> None:
    (arm,) = parse_experiment(TEXT).resolved_arms()
    told = [gap.what for gap in external_limits(arm, plan)]
    assert [what for what in told if "time goes" in what] == [
        part.format(arm.name) for part in parts
    ]
    assert "Where external routers lose frames" in told
