"""Bridges that hand frames to netfilter, simulated: what it costs, and where nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.calibrate.live import run_problem
from isolane.errors import NotSupported
from isolane.reproduce.model import Options
from isolane.results.folder import RunFolder
from isolane.spec import parse_experiment
from isolane.trials.sim.bridge_filter import BRIDGE, NETFILTER, bridging
from isolane.trials.sim.catalogue import own_path
from isolane.trials.sim.test_sim_backend import run

pytestmark = pytest.mark.native

TEXT = """\
isolane: 1
name: filtered
traffic: {{frame_size: 64, line_rate: 10Gbps}}
routers: [{{name: one}}, {{name: two, role: aggressor}}]
load: {{one: 50kpps, two: {two}}}
arms:
  - {{name: as-it-is, path: bridge}}
  - {{name: plain, path: bridge, bridge_netfilter: off}}
  - {{name: filtered, path: bridge, bridge_netfilter: on}}
trial: {{duration: 100ms, warmup: 20ms, repeats: 1, null_dut: false}}
"""


@pytest.mark.parametrize(
    ("key", "bridges"),
    [
        (("container", "bridge", None), 2),
        (("vm", "bridge", "virtio"), 1),
        (("container", "direct", None), 0),
    ],
)
def test_it_is_asked_wherever_a_bridge_has_a_frame(
    key: tuple[str, str, str | None], bridges: int
) -> None:
    path = own_path(*key)
    assert path is not None
    costs = [stage.cost for stage in bridging(path, filtered=True).stages.values()]
    assert [NETFILTER in cost for cost in costs] == [BRIDGE in cost for cost in costs]
    assert sum(NETFILTER in cost for cost in costs) == bridges
    assert bridging(path, filtered=False) == bridging(path, filtered=None) == path


def test_frames_cost_more_with_it_and_all_that_comes_of_that(tmp_path: Path) -> None:
    run(parse_experiment(TEXT.format(two="900kpps")), tmp_path / "run", "veth")
    trials = {trial.arm: trial for trial in RunFolder.open(tmp_path / "run").trials()}
    assert all(trial.conserved for trial in trials.values())
    passed = {
        arm: sum(router.received_pps for router in trial.routers) for arm, trial in trials.items()
    }
    assert passed["as-it-is"] == passed["plain"]
    # Live, 255 kpps for 370 at most, and in overload 4.4 us of CPU time for 6.4.
    assert 0.6 < passed["filtered"] / passed["plain"] < 0.8


def test_a_fit_to_both_finds_what_it_costs(tmp_path: Path) -> None:
    run(parse_experiment(TEXT.format(two="300kpps")), tmp_path / "run", "veth")
    free = run_problem(tmp_path / "run", Options(seed=1, profile="veth")).free
    assert {f"costs.{cost}.frame_ns" for cost in (BRIDGE, NETFILTER)} <= set(free)


@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_profile_that_does_not_know_it_cannot_tell(switch: str, tmp_path: Path) -> None:
    text = TEXT.format(two="1kpps").replace("  - {name: as-it-is, path: bridge}\n", "")
    other = {"on": "off", "off": "on"}[switch]
    spec = parse_experiment(
        text.replace(f"bridge_netfilter: {other}", f"bridge_netfilter: {switch}")
    )
    with pytest.raises(
        NotSupported, match="bridge_netfilter cannot be simulated with profile rath"
    ):
        run(spec, tmp_path / "run", "rathore2013")
    assert not (tmp_path / "run").exists()
