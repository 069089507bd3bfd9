"""Runs that are made up, of which it is known what changed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isolane.compare import Comparison, Difference, compare
from isolane.compare.comparison_words import value
from isolane.errors import SpecError
from isolane.report import test_data as data
from isolane.report.comparison import page
from isolane.results.quality_models import CoreProbe
from isolane.results.results import RouterTrial, Trial
from isolane.results.web_results import WebTrial
from isolane.spec import Experiment

Change = Callable[[Trial, RouterTrial], dict[str, object]]
REPEATS = 8


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.run_folder(tmp_path_factory.mktemp("first") / "run", repeats=REPEATS).path


def made(
    folder: Path, change: Change | None = None, *, seed: int = 2, text: str = data.NOISY
) -> Path:
    """A second run: other noise, and of each router what `change` says."""
    folder.mkdir()
    found = data.experiment(folder, text, REPEATS)
    return data.run_folder(
        folder / "run", text, REPEATS, list(trials(found, change, seed, REPEATS))
    ).path


def trials(found: Experiment, change: Change | None, seed: int, repeats: int) -> Iterator[Trial]:
    number = 0
    for repeat in range(repeats):
        for arm in found.resolved_arms():
            for point in found.points():
                one = data.trial(arm.name, point, repeat, number, seed)
                number += 1
                routers = [
                    router.model_copy(update=change(one, router) if change else {})
                    for router in one.routers
                ]
                yield one.model_copy(update={"routers": tuple(routers)})


def of(found: Comparison, arm: str, load: str, router: str, figure: str) -> Difference:
    (one,) = (
        each
        for each in found.differences
        if (each.arm, each.load, each.router, each.figure) == (arm, load, router, figure)
    )
    return one


def at_4x(trial: Trial) -> bool:
    return trial.point_label == "aggressor 4x"


def test_a_run_does_not_differ_from_itself(before: Path) -> None:
    found = compare(before, before, 0.01)
    assert {each.outcome for each in found.differences} == {"no difference shown"}
    assert not found.worse
    assert found.changed == found.only_before == found.only_after == ()
    assert len(found.differences) == 3 * (1 + 4 * 2) * 5, "the aggressor is not offered 0x"


def test_of_equal_runs_few_figures_are_called_different(before: Path, tmp_path: Path) -> None:
    shown = total = 0
    for seed in range(2, 4):
        found = compare(before, made(tmp_path / f"{seed}", seed=seed), 0.0)
        shown += found.count("better") + found.count("worse")
        total += len(found.differences)
    assert shown / total <= 0.05


def test_what_changed_is_found_and_what_did_not_is_not(before: Path, tmp_path: Path) -> None:
    def change(trial: Trial, router: RouterTrial) -> dict[str, object]:
        if trial.arm != "bridge" or not at_4x(trial) or router.role != "victim":
            return {}
        assert router.delay is not None
        slower = {"p99_ns": 1.3 * router.delay.p99_ns}
        return {
            "received_pps": 0.9 * router.received_pps,
            "loss_ratio": 1 - 0.9 * (1 - (router.loss_ratio or 0.0)),
            "delay": router.delay.model_copy(update=slower),
            "cpu_caused_ns_per_frame": 0.8 * (router.cpu_caused_ns_per_frame or 0.0),
        }

    found = compare(before, made(tmp_path / "second", change), 0.05)
    about = ("bridge", "aggressor 4x", "victim")
    expected = {"throughput": -0.1, "p99": 0.3, "CPU per frame": -0.2}
    for figure, size in expected.items():
        one = of(found, *about, figure)
        assert one.outcome == ("better" if figure == "CPU per frame" else "worse"), figure
        assert one.change == pytest.approx(size, abs=0.03)
        assert one.low is not None
        assert one.high is not None
        assert one.low <= size + 0.03
        assert one.high >= size - 0.03
    assert of(found, *about, "loss").outcome == "worse"
    assert {(each.arm, each.load, each.router) for each in found.worse} == {about}
    assert of(found, *about, "p50").outcome == "no difference shown"
    assert "figures worse by more than 5 %" in page(found)


@pytest.mark.parametrize(("tolerance", "beyond"), [(0.05, True), (0.4, False)])
def test_the_tolerance_is_kept_by_the_whole_interval(
    tolerance: float, beyond: bool, before: Path, tmp_path: Path
) -> None:
    def slower(_: Trial, router: RouterTrial) -> dict[str, object]:
        if router.delay is None:
            return {}
        return {"delay": router.delay.model_copy(update={"p99_ns": 1.3 * router.delay.p99_ns})}

    found = compare(before, made(tmp_path / "second", slower), tolerance)
    one = of(found, "direct", "aggressor 2x", "victim", "p99")
    assert one.outcome == "worse"
    assert one.beyond_tolerance == beyond


def test_delays_of_what_is_lost_are_infinite(before: Path, tmp_path: Path) -> None:
    def lost(_: Trial, router: RouterTrial) -> dict[str, object]:
        if router.role != "victim" or router.delay is None:
            return {}
        return {"delay": router.delay.model_copy(update={"p99_ns": math.inf})}

    second = made(tmp_path / "second", lost)
    one = of(compare(before, second, 0.5), "direct", "aggressor 1x", "victim", "p99")
    assert (one.after, one.change) == (math.inf, None)
    assert (one.outcome, one.beyond_tolerance) == ("worse", True)
    same = of(compare(second, second, 0.5), "direct", "aggressor 1x", "victim", "p99")
    assert (same.change, same.outcome) == (None, "no difference shown")
    assert json.loads(compare(before, second, 0.5).model_dump_json())["differences"]


def test_invocations_are_what_counts_where_there_are_several(tmp_path: Path) -> None:
    def two(folder: Path, seed: int) -> Path:
        folder.mkdir()
        found = data.experiment(folder, data.NOISY, REPEATS)
        halves = [
            one.model_copy(update={"invocation": one.repeat // 2})
            for one in trials(found, None, seed, REPEATS)
        ]
        return data.run_folder(folder / "run", data.NOISY, REPEATS, halves).path

    found = compare(two(tmp_path / "one", 1), two(tmp_path / "two", 2), 0.01)
    assert {each.values for each in found.differences} == {(4, 4)}


def test_other_loads_and_arms_are_not_compared(before: Path, tmp_path: Path) -> None:
    fewer = data.NOISY.replace("  - {name: macvlan, path: macvlan}\n", "").replace("2x, ", "")

    def more(trial: Trial, router: RouterTrial) -> dict[str, object]:
        return {"generated_pps": 1.1 * router.generated_pps} if at_4x(trial) else {}

    found = compare(before, made(tmp_path / "second", more, text=fewer), 0.01)
    assert "macvlan at aggressor 4x" in found.only_before
    assert "direct at aggressor 2x" in found.only_before
    assert found.only_after == ()
    one = of(found, "direct", "aggressor 4x", "victim", "throughput")
    assert one.outcome == "not compared"
    assert one.reason is not None
    assert one.reason == "194 kpps were sent, then 214 kpps", "1x was the same"
    assert one.p is None
    loss = of(found, "direct", "aggressor 4x", "victim", "loss")
    assert loss.outcome == "no difference shown", "it is that at a multiple of the capacity"
    assert {each.load for each in found.differences if each.reason} == {"aggressor 4x"}
    with pytest.raises(SpecError, match="have no arm at the same load in common: the first has"):
        compare(before, made(tmp_path / "ladder", text=data.LADDER), 0.01)


def test_a_victim_is_not_compared_under_two_attacks(before: Path, tmp_path: Path) -> None:
    """An aggressor's load in x is what each run has found; the victim's own is the same."""

    def heavier(trial: Trial, router: RouterTrial) -> dict[str, object]:
        if not at_4x(trial):
            return {}
        if router.role != "victim":
            more = {name: 1.1 * getattr(router, name) for name in ("generated_pps", "offered_pps")}
            return {**more, "loss_ratio": 0.99}
        return {"received_pps": 0.5 * router.received_pps, "loss_ratio": 0.5}

    found = compare(before, made(tmp_path / "second", heavier), 0.01)
    throughput = of(found, "direct", "aggressor 4x", "victim", "throughput")
    assert throughput.reason is not None
    assert throughput.reason.startswith("to the other routers ")
    assert throughput.reason.endswith("(--capacity-from gives two runs the same 1x)")
    assert of(found, "direct", "aggressor 4x", "aggressor", "loss").outcome == "worse"
    assert not found.worse, "a figure at another load decides nothing"


def test_a_single_zero_does_not_make_a_change_endless(tmp_path: Path) -> None:
    def some(trial: Trial, router: RouterTrial) -> dict[str, object]:
        nothing = router.role == "victim" and trial.repeat == 0
        return {"received_pps": 0.0} if nothing else {}

    def slower(_: Trial, router: RouterTrial) -> dict[str, object]:
        return {"received_pps": 0.97 * router.received_pps} if router.role == "victim" else {}

    first = made(tmp_path / "one", some)
    one = of(
        compare(first, made(tmp_path / "two", slower), 0.2),
        "direct", "aggressor 1x", "victim", "throughput",
    )  # fmt: skip
    assert one.change == pytest.approx(-0.03, abs=0.02)
    assert not one.beyond_tolerance


def test_what_else_is_different_is_told(
    before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"kernel": "Linux 6.19.0", "cores": 4, "bridge_netfilter": "off"}
    monkeypatch.setattr(data, "HOST", data.HOST.model_copy(update=changes))
    told = compare(before, made(tmp_path / "second"), 0.01).changed
    assert told == (
        "kernel Linux 6.18.0 (synthetic), then Linux 6.19.0",
        "cores 2, then 4",
        "netfilter on bridges ip6tables, iptables, then off",
    )
    older = data.HOST.model_copy(update={"kernel": "Linux 6.18.0 (synthetic)", "cores": 2})
    monkeypatch.setattr(data, "HOST", older.model_copy(update={"bridge_netfilter": None}))
    assert compare(before, made(tmp_path / "older"), 0.01).changed == ()


def as_web(closed: bool) -> Change:
    """Make web requests of a run's frames; a closed loop was asked twice as much."""
    web = WebTrial(
        closed=closed, object_bytes=1024, failed={}, statuses={}, content_bps=1e6, connections=9,
        connect_p50_ns=None, connect_p99_ns=None, max_in_flight=1,
    )  # fmt: skip

    def change(_: Trial, router: RouterTrial) -> dict[str, object]:
        times = 2.0 if closed else 1.0
        rates = ("offered_pps", "generated_pps")
        return {
            "mode": "http", "web": web, "load_x": None,
            **{rate: times * getattr(router, rate) for rate in rates},
        }  # fmt: skip

    return change


def test_runs_of_web_requests_are_compared_in_requests(tmp_path: Path) -> None:
    first = made(tmp_path / "one", as_web(closed=False), seed=1)
    found = compare(first, made(tmp_path / "two", as_web(closed=False)), 0.01)
    rates = [each for each in found.differences if each.figure == "throughput"]
    assert {each.mode for each in rates} == {"http"}
    assert {value(each, each.before).split()[-1] for each in rates} <= {"rps", "krps", "Mrps"}
    assert not any(each.reason for each in rates)


def test_closed_loops_are_compared_whatever_they_were_asked(tmp_path: Path) -> None:
    first = made(tmp_path / "one", as_web(closed=True), seed=1)

    def faster(trial: Trial, router: RouterTrial) -> dict[str, object]:
        changes = as_web(closed=True)(trial, router)
        return changes | {"generated_pps": 3 * router.generated_pps}

    found = compare(first, made(tmp_path / "two", faster), 0.01)
    assert not any(each.reason for each in found.differences)


def test_requests_and_frames_have_nothing_in_common(before: Path, tmp_path: Path) -> None:
    assert compare(before, made(tmp_path / "web", as_web(closed=False)), 0.01).differences == ()


def test_a_machine_that_was_slower_the_second_time_is_told(tmp_path: Path) -> None:
    def probed(folder: Path, unit_ns: float, transfer_ns: float) -> Path:
        folder.mkdir()
        found = data.experiment(folder, data.NOISY, REPEATS)
        probe = CoreProbe(
            core=0, unit_ns=unit_ns, stalled=0.0, longest_stall_ns=0, transfer_ns=transfer_ns
        )
        some = [
            one.model_copy(update={"probe": (probe,)}) for one in trials(found, None, 1, REPEATS)
        ]
        return data.run_folder(folder / "run", data.NOISY, REPEATS, some).path

    first, second = probed(tmp_path / "one", 100, 300), probed(tmp_path / "two", 120, 1200)
    told = compare(first, second, 0.01).changed
    assert "the DUT's cores 20 % slower the second time" in told
    assert any("a cache line takes 300 ns, then 1200 ns" in each for each in told)


def test_a_folder_without_a_trial_is_refused(before: Path, tmp_path: Path) -> None:
    empty = data.run_folder(tmp_path / "empty" / "run", trials=[], complete=False).path
    with pytest.raises(SpecError, match="no trial of this run counts"):
        compare(before, empty, 0.01)
    with pytest.raises(SpecError, match="there is no such run folder"):
        compare(before, tmp_path / "absent", 0.01)
