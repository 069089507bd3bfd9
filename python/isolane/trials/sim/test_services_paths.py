"""Simulated routers with services: whose frames become dearer, by how much, and who pays for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.results.folder import RunFolder
from isolane.results.results import RouterTrial
from isolane.spec import parse_experiment
from isolane.spec.hostmodel import PathData, ProfileData
from isolane.spec.kinds import SIMULATED
from isolane.spec.loader import load_file
from isolane.spec.services_models import Services
from isolane.trials.sim.catalogue import HERE, own_path
from isolane.trials.sim.services_paths import costs_of, serving
from isolane.trials.sim.sim_backend import SimBackEnd
from isolane.trials.sim.test_sim_backend import run

pytestmark = pytest.mark.native

TEXT = """\
isolane: 1
name: rules
traffic: {{frame_size: 64, line_rate: 10Gbps}}
routers:
  - {{name: victim, path: {path}, role: victim{policy}}}
  - {{name: noise, path: {path}, role: aggressor{policy}{services}}}
load: {{victim: {victim}, noise: {noise}}}
trial: {{duration: 100ms, warmup: 20ms, repeats: 1}}
"""
PATHS = ("direct", "bridge", "macvlan", "isolane")


@pytest.mark.parametrize(
    ("services", "costs"),
    [
        ({"nftables": 3}, ["nft-chain", "nft-rule", "nft-rule", "nft-rule"]),
        ({"conntrack": True}, ["conntrack"]),
        ({"nat": True}, ["conntrack", "nat"]),
        ({"nftables": 1, "nat": True}, ["conntrack", "nat", "nft-rule"]),
    ],
)
@pytest.mark.parametrize("name", SIMULATED["container"])
def test_a_path_has_what_services_cost_once_and_for_one_router(
    name: str, services: dict[str, object], costs: list[str]
) -> None:
    path = own_path("container", name, None)
    assert path is not None
    made = serving(path, Services.model_validate(services))
    PathData.model_validate({key: getattr(made, key) for key in PathData.model_fields})
    before = [cost for _, stage in path.ordered() for cost in stage.cost]
    after = [(cost, stage.shared) for _, stage in made.ordered() for cost in stage.cost]
    assert sorted(cost for cost, _ in after) == sorted([*before, *costs])
    assert not any(shared for cost, shared in after if cost in costs)
    assert serving(path, None) == path


def trial(folder: Path, path: str, services: str = "", **values: str) -> tuple[RouterTrial, ...]:
    """Return what victim and neighbour did, each frame accounted for."""
    given = {"victim": "100kpps", "noise": "100kpps", "policy": "", **values}
    has = f", services: {{{services}}}" if services else ""
    run(parse_experiment(TEXT.format(path=path, services=has, **given)), folder, profile="veth")
    (found,) = [one for one in RunFolder.open(folder).trials() if one.purpose == "measure"]
    assert found.conserved
    return found.routers


@pytest.mark.parametrize("path", PATHS)
def test_each_service_takes_what_the_profile_says_from_whose_frames_they_are(
    path: str, tmp_path: Path
) -> None:
    profile = load_file(HERE / "profiles" / "veth.yaml", ProfileData, "a profile")
    plain = trial(tmp_path / "plain", path)
    asked: list[dict[str, object]] = [{"nftables": 50}, {"conntrack": True}, {"nat": True}]
    for number, services in enumerate(asked):
        costs = costs_of(Services.model_validate(services))
        due_ns = sum(profile.costs[cost].frame_ns for cost in costs)
        text = ", ".join(f"{key}: {str(value).lower()}" for key, value in services.items())
        found = trial(tmp_path / str(number), path, text)
        dearer = [
            (after.cpu_caused_ns or 0) - (before.cpu_caused_ns or 0)
            for before, after in zip(plain, found, strict=True)
        ]
        frames = found[1].received_frames
        assert frames == pytest.approx(10_000, rel=0.01)
        assert dearer[1] / frames == pytest.approx(due_ns, rel=0.1)
        assert abs(dearer[0]) < 0.1 * dearer[1]


def test_a_neighbours_rules_are_paid_for_by_the_victim_unless_there_is_a_policy(
    tmp_path: Path,
) -> None:
    kept = {}
    for path, policy in (("macvlan", False), ("isolane", True)):
        for services in ("", "nftables: 1000"):
            folder = tmp_path / f"{path}-{bool(services)}"
            has = ", policy: {cpu_weight: 100}" if policy else ""
            values = {"victim": "80kpps", "noise": "100kpps", "policy": has}
            each = trial(folder, path, services, **values)
            kept[path, bool(services)] = [one.received_frames / one.offered_frames for one in each]
    for path in ("macvlan", "isolane"):
        assert min(kept[path, False]) > 0.98
    victim, noise = kept["macvlan", True]
    assert victim < 0.6
    assert victim == pytest.approx(noise, rel=0.1)
    victim, noise = kept["isolane", True]
    assert victim > 0.98
    assert noise < 0.5


def test_on_a_bridge_services_are_done_in_the_backlogs_poll_as_live(tmp_path: Path) -> None:
    plain, dear = (
        trial(tmp_path / str(number), "bridge", services)[1]
        for number, services in enumerate(("", "nftables: 50"))
    )
    assert plain.cpu_parts is not None
    assert dear.cpu_parts is not None
    assert set(dear.cpu_parts) == set(plain.cpu_parts) == {"receive", "backlog"}
    assert dear.cpu_parts["receive"] == pytest.approx(plain.cpu_parts["receive"], rel=0.1)
    assert dear.cpu_parts["backlog"] > 1.1 * plain.cpu_parts["backlog"]


def test_a_run_keeps_each_path_that_is_in_use() -> None:
    spec = parse_experiment(
        TEXT.format(
            path="direct", policy="", services=", services: {conntrack: true}",
            victim="1kpps", noise="1kpps",
        )
    )  # fmt: skip
    made = SimBackEnd(spec, "veth").made_of()
    assert set(made) == {
        "profile", "path.container-direct", "path.container-direct with conntrack",
    }  # fmt: skip
