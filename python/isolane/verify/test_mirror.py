"""The experiment that mirrors a policy: the same as one that is read from a file."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from isolane.spec import Load, parse_experiment, parse_policy
from isolane.verify.mirror import mirror

POLICY = parse_policy("""\
isolane: 1
name: edge
nics: {eth1: {rate: 1Gbps}}
routers:
  gold: {netns: gold, cpu_weight: 200, cores: [3, 5], cpu_max: 150%, rate_min: 200Mbps}
  silver: {netns: silver, cores: [5], rate_max: {ingress: 100kpps, egress: [1Gbps, 2Mpps]}}
  tin: {netns: tin, priority: 1, link_weight: 3, queue: 32, burst: 9kB, forward: xdp}
""")


@pytest.mark.parametrize("fold", [False, True])
def test_it_is_the_experiment_that_its_text_is_read_as(*, fold: bool) -> None:
    made = mirror(POLICY, tuple(POLICY.routers), frame_bytes=64, line_bps=2.5e9, fold=fold)
    assert parse_experiment(made.experiment.to_yaml()) == made.experiment
    (arm,) = made.experiment.resolved_arms()
    keys = [router.policy for router in arm.routers]
    assert (
        [policy and policy.cores for policy in keys] == [(), (), ()] if fold else [(0, 1), (1,), ()]
    )
    assert keys[0] is not None
    assert keys[0].cpu_max == (100 if fold else 150)
    assert arm.cores == (1 if fold else 2)
    silver = arm.router(made.names["silver"]).policy
    assert silver is not None
    assert silver.rate_max == POLICY.routers["silver"].rate_max
    assert made.experiment.load == dict.fromkeys(made.names.values(), (Load(1.0, "pps"),))


def test_it_is_checked_like_any_experiment() -> None:
    with pytest.raises(ValidationError, match="rate_min"):
        mirror(POLICY, ("gold",), frame_bytes=64, line_bps=1e8, fold=True)
