"""The experiments that are shipped: valid, documented, and true to what was published."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isolane.spec import Experiment, PublishedRow, load_experiment
from isolane.spec.patterns import FRAME_KINDS, PLAIN, TIMING_KINDS
from isolane.spec.units import read_load
from isolane.stats.intervals import MIN_UNITS

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "experiments").rglob("*.yaml"))
PAPER = ROOT / "experiments" / "papers" / "rathore2013"


def shipped(name: str) -> Experiment:
    return load_experiment(PAPER / f"{name}.yaml")


def rows(name: str, metric: str) -> Iterator[PublishedRow]:
    published = shipped(name).published
    assert published is not None
    assert published.capacity.value == 1488e3
    return (row for row in published.rows if row.metric == metric)


def table(name: str) -> list[dict[str, str]]:
    lines = (PAPER / "published" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_there_are_twenty_eight() -> None:
    assert len(SHIPPED) == 28


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_it_is_valid_and_names_its_schema(path: Path) -> None:
    load_experiment(path)
    schema = os.path.relpath(ROOT / "schema" / "experiment.json", path.parent)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema={schema}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_its_page_tells_its_command_and_loads(path: Path) -> None:
    experiment = load_experiment(path)
    page = (ROOT / "docs" / "experiments" / f"{experiment.name}.md").read_text(encoding="utf-8")
    assert f"isolane run {path.relative_to(ROOT)}" in page
    for name, loads in experiment.load.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `load.{name}`")]
        words = [word.strip(",") for word in line.split()]
        found = [
            read_load(word)
            for word in words
            if re.fullmatch(r"[0-9.]+(x|kpps|k?rps|conn)|max", word)
        ]
        assert {found[0], found[-1]} == {loads[0], loads[-1]}


def test_noisy_neighbour_fits_its_budget() -> None:
    it = load_experiment(ROOT / "experiments" / "noisy-neighbour.yaml")
    assert [arm.name for arm in it.resolved_arms()] == ["direct", "bridge", "macvlan"]
    assert {arm.receive for arm in it.resolved_arms()} == {"softirq"}
    assert [p.group("aggressor")[0].load.value for p in it.points()] == [0, 0.25, 0.5, 1, 2]
    assert {p.group("victim")[0].load.value for p in it.points()} == {0.27}
    rounds = len(it.resolved_arms()) * it.trial.repeats
    trial_s = (it.trial.duration_ns + it.trial.warmup_ns) / 1e9 + 0.25
    assert rounds * (len(it.points()) * trial_s + 1) < 50


def test_bad_neighbours_differ_in_their_frames_alone() -> None:
    it = load_experiment(ROOT / "experiments" / "bad-neighbours.yaml")
    bad = [point.group("neighbour")[0] for point in it.points()[1:]]
    assert len({router.load for router in bad}) == 1
    assert {kind for router in bad for kind in router.pattern.frames} == set(FRAME_KINDS)
    # A neighbour that begins later is no worse than one that was there before.
    assert {router.pattern.timing.kind for router in bad} == {*TIMING_KINDS} - {"from"}
    assert [bad[0].pattern, it.points()[0].group("neighbour")[0].load.value] == [PLAIN, 0]
    assert it.trial.repeats >= MIN_UNITS


def test_dear_neighbours_differ_in_their_services_alone() -> None:
    it = load_experiment(ROOT / "experiments" / "dear-neighbours.yaml")
    arms = it.resolved_arms()
    assert not any(arm.router("victim").services for arm in arms)
    each = [str(arm.router("neighbour").services or "") for arm in arms]
    assert each == ["", "nftables 200", "conntrack", "nat"] * 3
    managed = [arm.router("victim").policy is not None for arm in arms]
    assert managed == [False] * 4 + [True] * 8
    assert [point.group("neighbour")[0].load.value for point in it.points()] == [0, 0.5]
    assert it.trial.repeats >= MIN_UNITS


def test_only_the_victim_of_round_trips_answers() -> None:
    it = load_experiment(ROOT / "experiments" / "round-trips.yaml")
    for point in it.points():
        assert [router.mode for router in point.routers] == ["echo", "forward"]
        assert str(point.routers[0].load) == "10kpps"
    assert it.capacity_reference().router == "aggressor"
    assert it.trial.repeats >= MIN_UNITS


def test_load_balancers_are_compared_by_objects_and_beside_one_another() -> None:
    study = load_experiment(ROOT / "experiments" / "papers" / "haproxy2012" / "connections.yaml")
    sizes = [point.routers[0].object_bytes >> 10 for point in study.points()]
    assert sizes == [0, 1, 2, 4, 8, 16, 32, 48, 64]
    assert not study.traffic.keep_alive
    assert [arm.router("lb").kind for arm in study.resolved_arms()] == [
        "native",
        *["container"] * 3,
    ]
    two = load_experiment(ROOT / "experiments" / "load-balancers.yaml")
    assert two.web == ("victim", "neighbour")
    assert two.trial.repeats >= MIN_UNITS


def test_managed_neighbour_shows_both_sides_within_its_budget() -> None:
    it = load_experiment(ROOT / "experiments" / "managed-neighbour.yaml")
    arms = it.resolved_arms()
    assert [arm.name for arm in arms] == ["bridge", "macvlan", "isolane", "managed-direct"]
    managed = [arm.router("victim").policy is not None for arm in arms]
    assert managed == [False, False, True, True]
    assert [p.label for p in it.points()] == [f"aggressor {x}" for x in ("0x", "0.5x", "1x", "max")]
    assert it.trial.repeats >= MIN_UNITS, "enough for exact intervals"
    assert [arm.name for arm in it.arms_with_capacity] == ["isolane"]
    rounds = len(arms) * it.trial.repeats
    # What benches/overhead.py asks for: 0.15 s beside the frames of a trial, 0.5 s for a bed.
    trial_s = (it.trial.duration_ns + it.trial.warmup_ns) / 1e9 + 0.15
    assert rounds * (len(it.points()) * trial_s + 0.5) < 50


def test_scenario_2_has_a_managed_arm_with_weights_2_to_1() -> None:
    arm = shipped("scenario2").resolved_arms()[-1]
    assert arm.name == "isolane"
    policies = [router.policy for router in arm.routers]
    assert [policy and policy.cpu_weight for policy in policies] == [200, 100]


@pytest.mark.parametrize("path", ["vm-tap", "vm-macvtap"])
def test_scenario_2_with_machines_has_the_cpu_shares_of_table_5(path: str) -> None:
    it = shipped("scenario2-guests")
    arms = {arm.name: arm for arm in it.resolved_arms()}
    assert all(router.policy is None for router in arms[path].routers)
    policies = [router.policy for router in arms[f"{path}-shares"].routers]
    assert [policy and policy.cpu_weight for policy in policies] == [200, 100]
    assert it.only_simulated() == ()


@pytest.mark.parametrize("machines", ["", "-guests"])
def test_offered_loads_are_those_of_the_paper(machines: str) -> None:
    def offered(name: str, router: str) -> list[float]:
        return [load.value * 1488 for load in shipped(f"{name}{machines}").load[router]]

    assert offered("scenario1", "vr1") == pytest.approx([400, 600, 800, 1000, 1088], rel=0.01)
    assert offered("scenario1", "vr2") == pytest.approx([400], rel=0.01)
    assert offered("scenario2", "vr1") == pytest.approx([800], rel=0.01)
    ends = offered("scenario2", "vr2")
    assert [ends[0], ends[-1]] == pytest.approx([400, 688], rel=0.01)


@pytest.mark.parametrize(
    "name",
    ["fig4-throughput", "fig5-cpu", "fig6-latency", "fig7-routers-1core", "fig8-routers-2cores"],
)
def test_each_figure_has_machines_beside_the_containers(name: str) -> None:
    it = shipped(name)
    arms = {arm.name: arm.routers[0] for arm in it.resolved_arms()}
    assert {(arms[name].kind, arms[name].path) for name in ("vm-tap", "vm-macvtap")} == {
        ("vm", "tap"),
        ("vm", "macvtap"),
    }
    assert arms["direct"].kind == "container"
    assert it.only_simulated() == ()
    assert it.published is not None
    assert {row.arm for row in it.published.rows} <= set(arms), "each published figure has an arm"


def test_scenario_1_has_the_figures_of_tables_1_and_2() -> None:
    both = ("scenario1", "scenario1-guests")
    throughput = {
        (row.arm, row.load["vr1"].value, row.load["vr2"].value, row.router): row.value.value
        for row in (row for name in both for row in rows(name, "throughput"))
        if row.value
    }
    cpu = {
        (row.arm, row.load["vr1"].value, row.router): row.value.value
        for row in (row for name in both for row in rows(name, "cpu"))
        if row.value
    }
    expected: dict[tuple[str, float, float, str], float] = {}
    expected_cpu: dict[tuple[str, float, str], float] = {}
    for arm, name in (("direct", "table1-lxc-scenario1"), ("vm-tap", "table2-kvm-scenario1")):
        for line in table(name):
            vr1, vr2 = (float(line[f"offered_{vr}_kpps"]) * 1e3 for vr in ("vr1", "vr2"))
            for vr in ("vr1", "vr2"):
                expected[arm, vr1, vr2, vr] = float(line[f"throughput_{vr}_kpps"]) * 1e3
            for who in ("vr1", "vr2", "total"):
                if f"cpu_{who}_pct" in line:
                    expected_cpu[arm, vr1, who] = float(line[f"cpu_{who}_pct"]) / 100
    assert throughput == expected
    assert cpu == pytest.approx(expected_cpu)


def test_figures_4_7_and_8_have_the_figures_of_the_text() -> None:
    arms = {
        ("native", "direct"): "native",
        ("vm", "sriov-passthrough"): "vm-tap",
        ("container", "sriov"): "direct",
        ("vm", "macvtap"): "vm-macvtap",
        ("container", "macvlan"): "macvlan",
    }
    figures: dict[str, set[tuple[str, float, int, float]]] = {"4": set(), "7": set(), "8": set()}
    for line in table("throughput"):
        routers = int(line["routers"])
        offered, got = float(line["offered_kpps"]) * 1e3, float(line["throughput_kpps"]) * 1e3
        row = (arms[line["kind"], line["path"]], offered, max(routers, 1), got)
        if line["cores"] == "2":
            figures["8"].add(row)
            continue
        if routers <= 1:
            figures["4"].add(row)
        if routers >= 1 and offered == 1488e3:
            figures["7"].add(row)
    for figure, name in (
        ("4", "fig4-throughput"),
        ("7", "fig7-routers-1core"),
        ("8", "fig8-routers-2cores"),
    ):
        given = {
            (row.arm, row.load["vr"].value, row.count or 1, row.value.value)
            for row in rows(name, "throughput")
            if row.value
        }
        assert given == figures[figure]


@pytest.mark.parametrize("name", ["fig5-cpu", "fig6-latency", "scenario2", "scenario2-guests"])
def test_where_no_number_was_published_the_note_says_so(name: str) -> None:
    published = shipped(name).published
    assert published is not None
    assert published.rows
    for row in published.rows:
        assert row.value is None
        assert row.note


def test_two_dut_cores_are_not_for_a_host_with_two() -> None:
    two = shipped("fig8-routers-2cores")
    assert "share a core" in str(two.not_runnable_on(2))
    assert two.not_runnable_on(3) is None
    for path in SHIPPED:
        if path.stem != "fig8-routers-2cores":
            assert load_experiment(path).not_runnable_on(2) is None
