"""Unusual frames, live: each is passed on, or ends in the router and is counted there."""

from __future__ import annotations

from pathlib import Path

import pytest
from isolane.results.results import RouterTrial, Trial

from tests.came_through import came_through
from tests.live import assert_same_host, quiet_host
from tests.test_run_live import run

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: patterns
traffic: {{ip: {ip}, frame_size: 84}}
routers:
  - {{name: one, role: victim}}
  - {{name: two, role: aggressor, policy: {{forward: xdp}}, traffic: {{pattern: [{patterns}]}}}}
load: {{one: 5kpps, two: 5kpps}}
arms: [{{name: macvlan, path: macvlan}}, {{name: isolane, path: isolane}}]
trial: {{duration: 50ms, warmup: 10ms, repeats: 1, retries: 0, null_dut: {null_dut}}}
"""
ENDING = ("ttl-expired", "no-route", "to-router")
PASSING = {
    4: (
        "constant",
        "new-flows",
        "fragments",
        "bursts 1ms/5ms+new-flows+fragments",
        "ramp",
        "from 20ms",
    ),
    6: ("constant", "new-flows", "poisson"),
}


@pytest.mark.parametrize("ip", [4, 6])
def test_frames_are_passed_on_or_end_in_the_router(ip: int, tmp_path: Path) -> None:
    file, before, patterns = tmp_path / "patterns.yaml", quiet_host(), (*PASSING[ip], *ENDING)
    null_dut = "true" if ip == 4 else "false"
    file.write_text(TEXT.format(ip=ip, patterns=", ".join(patterns), null_dut=null_dut))
    trials = run(file, tmp_path / "run")
    assert_same_host(before)
    measured = [trial for trial in trials if trial.purpose == "measure"]
    assert len(measured) == 2 * len(patterns)
    for trial in trials:
        assert_sound(trial)
    for trial in measured:
        one, two = trial.routers
        assert one.pattern == "constant"
        if two.pattern in ENDING:
            assert two.received_total == 0
            assert came_through([one])
            assert two.lost["no_route"] == arrived(two), f"{trial.arm}, {two.pattern}"
        else:
            assert came_through(trial.routers)
            assert two.lost["no_route"] == 0
    assert {trial.routers[1].pattern for trial in measured} == set(patterns)


def assert_sound(trial: Trial) -> None:
    where = f"{trial.purpose} of {trial.arm}, {trial.point_label}: {trial.reason}"
    assert trial.status != "failed", where
    for router in trial.routers:
        assert router.offered_total == router.received_total + sum(router.lost.values()), where
        assert router.lost["unaccounted"] == 0, where


def arrived(router: RouterTrial) -> int:
    """Return the frames that came to the router's IP layer."""
    before = sum(router.lost[point] for point in ("generator", "nic_queue", "router_queue"))
    return router.offered_total - before
