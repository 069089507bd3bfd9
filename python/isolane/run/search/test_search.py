"""Searches on imaginary routers of known limits, with a clock that trials advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from isolane.errors import MeasurementError, SpecError
from isolane.report import test_data as data
from isolane.results.cpu_results import CoreTrial
from isolane.results.folder import RunFolder
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.results import (
    DROP_POINTS,
    Delay,
    Drawing,
    DropPoint,
    HostFacts,
    NotMeasured,
    RouterTrial,
)
from isolane.run.search import FoundRate, Search, SearchOptions, SearchSummary, subjects_of
from isolane.spec import Arm, PointRouter, parse_experiment
from isolane.trials.backend import Bench, Observation, Setting

TEXT = """\
isolane: 1
name: two
routers: [{name: one, role: victim}, {name: two, role: aggressor}]
load: {one: 1kpps, two: 1kpps}
arms: [{name: direct, path: direct}]
trial: {warmup: 0ms}
"""
LIMIT_PPS = 100e3
SHORT = InvalidReason(InvalidKind.GENERATOR_LIMIT, "it sent less than it was asked for")


def shaped(load: float) -> float:
    """A router behind a shaper."""
    return min(load, LIMIT_PPS)


def livelocking(load: float) -> float:
    return load if load <= 280e3 else 150e3


@dataclass
class Host:
    """A back end of arithmetic."""

    forwards: Callable[[float], float] = shaped
    sends: float = 1e9
    """The most that its generator sends, frames/s."""
    delay_ns: Callable[[float], float] = lambda _load: 1e4
    trouble: Callable[[int, float], tuple[InvalidReason, ...]] = lambda _number, _load: ()
    held_up: Callable[[int], float] = lambda _number: 1.0
    """The share of a trial in which the generator has its core, by the number of the trial."""
    cores: tuple[CoreTrial, ...] = ()
    """What became of the cores' time; those of the data of the report's tests if empty."""
    loses_at: Callable[[int], DropPoint] = lambda _number: "router_queue"
    """Where frames are lost, by the number of the trial: a router without time loses them there."""
    now_s: float = 0.0
    settings: list[Setting] = field(default_factory=list)

    def awake(self) -> float:
        return self.held_up(len(self.settings))

    def check(self, arms: Sequence[Arm]) -> None:
        pass

    def host(self) -> HostFacts:
        return data.HOST

    def overload_pps(self, arm: Arm) -> float:  # noqa: ARG002 - the same in every arm
        return 2e6

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        yield ArithmeticBench(self, arm.name, [router.name for router in routers])


@dataclass
class ArithmeticBench:
    host: Host
    arm: str
    routers: list[str]

    def trial(self, setting: Setting) -> Observation:
        host, load = self.host, load_of(setting)
        invalid = host.trouble(len(host.settings), load)
        if host.sends < 0.998 * load:
            invalid = (*invalid, SHORT)
        host.settings.append(setting)
        host.now_s += setting.window_ns / 1e9
        sample = data.trial("direct", parse_experiment(TEXT).points()[0], 0, 0)
        assert sample.generator is not None
        sent = {"requested_pps": load, "achieved_pps": min(load, host.sends)}
        return Observation(
            routers=tuple(_router(host, setting, i) for i in range(len(setting.demands))),
            cores=host.cores or sample.cores, generator=sample.generator.model_copy(update=sent),
            placement=sample.placement, conserved=True, invalid=invalid,
        )  # fmt: skip

    def drawing(self) -> Drawing:
        return data.drawing(self.arm, self.routers)

    def limits(self) -> tuple[NotMeasured, ...]:
        return ()

    def nics(self) -> tuple[dict[str, str], ...]:
        return ()


def load_of(setting: Setting) -> float:
    return sum(demand.offered_pps for demand in setting.demands)


def _router(host: Host, setting: Setting, number: int) -> RouterTrial:
    demand, window_s = setting.demands[number], setting.window_ns / 1e9
    total = load_of(setting)
    share = demand.offered_pps / total
    offered = round(demand.offered_pps * window_s)
    sent = min(offered, int(host.sends * share * window_s))
    sent, awake_s = int(sent * host.awake()), window_s * host.awake()
    received = min(sent, round(host.forwards(min(total, host.sends)) * share * awake_s))
    delay = dict.fromkeys(("mean", "p50", "p90", "p99", "p999", "p9999", "max"), 0.0)
    delays = {f"{name}_ns": host.delay_ns(total) for name in delay}
    return RouterTrial(
        router=demand.router.name, group=demand.router.group, role=demand.router.role,
        kind="container", path="direct", load_x=None, offered_pps=demand.offered_pps,
        generated_pps=sent / window_s, received_pps=received / window_s, offered_frames=offered,
        generated_frames=sent, received_frames=received, offered_total=offered,
        received_total=received,
        lost=dict.fromkeys(DROP_POINTS, 0) | {host.loses_at(len(host.settings)): sent - received},
        loss_ratio=1 - received / sent if sent else None,
        delay=Delay(count=received, **delays), reordered=0, duplicated=0, cpu_ns=None,
        cpu_share=None, cpu_ns_per_frame=None, cpu_reason="imaginary",
    )  # fmt: skip


def search(
    folder: Path, host: Host, options: SearchOptions | None = None, *, together: bool = False
) -> SearchSummary:
    spec = parse_experiment(TEXT)
    opened = RunFolder.create(folder / "search", TEXT, host.host())
    subjects = subjects_of(spec, together=together)
    found = Search(
        spec, host, opened, options or SearchOptions(), subjects, clock=lambda: host.now_s
    ).execute()
    assert opened.search() == found
    return found


def rates(summary: SearchSummary) -> dict[str, FoundRate]:
    (searched,) = summary.searched
    return {
        f"{r.name}{'' if r.max_delay_ns is None else f' {r.max_delay_ns}'}": r
        for r in searched.rates
    }


def test_a_known_limit_is_found_within_half_a_percent_and_a_minute(tmp_path: Path) -> None:
    host = Host()
    summary = search(tmp_path, host)
    assert summary.complete
    found = rates(summary)
    assert list(found) == ["NDR", "PDR", "MFR", "FRMOL"]
    for rate in found.values():
        assert rate.status == "found"
        assert rate.throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
        assert rate.throughput_bps == pytest.approx(LIMIT_PPS * 8 * 64, rel=0.005)
    ndr = found["NDR"]
    assert ndr.load_pps is not None
    assert ndr.failing_load_pps is not None
    assert ndr.load_pps <= LIMIT_PPS < ndr.failing_load_pps <= ndr.load_pps / (1 - 0.005) + 1
    pdr = found["PDR"]
    assert pdr.load_pps == pytest.approx(LIMIT_PPS / (1 - 0.005), rel=0.005)
    assert host.now_s < 40, "time in trials, s; the rest is for what is between them"


def test_a_livelocking_router_has_four_different_rates(tmp_path: Path) -> None:
    found = rates(search(tmp_path, Host(livelocking)))
    for name in ("NDR", "PDR", "MFR"):
        assert found[name].throughput_pps == pytest.approx(280e3, rel=0.005)
    assert found["FRMOL"].throughput_pps == pytest.approx(150e3, rel=0.001)
    assert found["FRMOL"].load_pps == 2e6


def test_rates_are_never_taken_for_each_other(tmp_path: Path) -> None:
    """Loses 0.3 % from 5 kpps on, and a tenth from 100 kpps on, but forwards more and more."""

    def leaky(load: float) -> float:
        return load * (0.997 if load <= 100e3 else 0.9)

    found = rates(search(tmp_path, Host(leaky), SearchOptions(min_pps=5e3)))
    assert found["NDR"].status == "none"
    assert found["NDR"].throughput_pps is None
    assert "loses more than" in (found["NDR"].reason or "")
    assert found["PDR"].throughput_pps == pytest.approx(99.7e3, rel=0.005)
    assert found["MFR"].throughput_pps == pytest.approx(1.8e6, rel=0.001)
    assert found["FRMOL"].throughput_pps == pytest.approx(1.8e6, rel=0.001)


def test_the_generators_limit_is_a_lower_bound_and_never_a_capacity(tmp_path: Path) -> None:
    found = rates(search(tmp_path, Host(lambda load: load, sends=450e3)))
    for name in ("NDR", "PDR", "MFR"):
        assert found[name].status == "at-least"
        assert found[name].reason == "the generator was the limit: it sent 450 kpps"
        assert found[name].throughput_pps == pytest.approx(0.95 * 450e3, rel=0.001)


def test_a_single_stray_loss_decides_nothing(tmp_path: Path) -> None:
    """In every third trial a frame is lost, whatever the load."""

    def stray(load: float) -> float:
        lost = len(host.settings) % 3 == 1
        return shaped(load) - (10 if lost else 0)

    host = Host(stray)
    found = rates(search(tmp_path / "default", host))
    assert found["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    host = Host(stray)
    found = rates(search(tmp_path / "strict", host, SearchOptions(exceed_ratio=0.0)))
    ndr = found["NDR"].throughput_pps
    assert ndr is None or ndr < 0.9 * LIMIT_PPS, "none of the trials may lose a frame"


def test_the_generators_limit_close_above_the_routers_does_no_harm(tmp_path: Path) -> None:
    found = rates(search(tmp_path, Host(sends=150e3)))
    assert found["NDR"].status == found["MFR"].status == "found"
    assert found["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)


def test_the_highest_rate_that_was_asked_for_is_a_lower_bound(tmp_path: Path) -> None:
    host = Host()
    found = rates(search(tmp_path, host, SearchOptions(max_pps=50e3)))
    assert {name: rate.status for name, rate in found.items()} == {
        "NDR": "at-least", "PDR": "at-least", "MFR": "at-least", "FRMOL": "found",
    }  # fmt: skip
    assert "--max-rate" in (found["NDR"].reason or "")
    assert max(map(load_of, host.settings)) <= 50e3


def test_a_rate_counts_only_if_the_delay_objective_is_met(tmp_path: Path) -> None:
    host = Host(delay_ns=lambda load: 1e4 if load <= 40e3 else 1e6)
    options = SearchOptions(max_delays_ns=(100_000, 1_000))
    found = rates(search(tmp_path, host, options))
    assert found["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    assert found["NDR 100000"].throughput_pps == pytest.approx(40e3, rel=0.005)
    assert found["PDR 100000"].throughput_pps == pytest.approx(40e3, rel=0.005)
    assert found["NDR 100000"].delay_p99_ns == 1e4
    assert found["NDR 1000"].status == "none"
    assert "p99 delay above 1 µs" in (found["NDR 1000"].reason or "")


def test_routers_together_have_equal_shares(tmp_path: Path) -> None:
    host = Host()
    summary = search(tmp_path, host, together=True)
    assert summary.searched[0].together
    assert summary.searched[0].routers == ("one", "two")
    assert rates(summary)["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    assert all(len({d.offered_pps for d in s.demands}) == 1 for s in host.settings)


DISTURBED = InvalidReason(InvalidKind.DISTURBED, "others took the core")
ELSEWHERE = InvalidReason(InvalidKind.MISPLACED, "frames were received elsewhere")


def test_trials_without_verdict_are_done_again(tmp_path: Path) -> None:
    host = Host(trouble=lambda number, _load: (ELSEWHERE,) if number % 3 == 1 else ())
    summary = search(tmp_path, host)
    assert summary.complete
    assert summary.searched[0].trials_without_verdict > 3
    assert rates(summary)["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    kept = RunFolder.open(tmp_path / "search").trials()
    assert [trial.purpose for trial in kept] == ["search"] * len(host.settings)
    assert sum(trial.status == "no-verdict" for trial in kept) > 3


def test_a_search_beside_others_finds_what_is_forwarded_beside_them(tmp_path: Path) -> None:
    host = Host(trouble=lambda _number, _load: (DISTURBED,))
    summary = search(tmp_path, host)
    assert summary.complete
    assert summary.searched[0].trials_without_verdict == 0
    assert rates(summary)["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    kept = RunFolder.open(tmp_path / "search").trials()
    assert {trial.invalid for trial in kept} == {(InvalidKind.DISTURBED,)}, "it is noted"


PAUSED = InvalidReason(InvalidKind.PAUSED, "the hypervisor took 4 % of core 1")


@pytest.mark.parametrize("of", [1, 3])
def test_paused_trials_are_made_again_and_count_only_where_all_are(tmp_path: Path, of: int) -> None:
    host = Host(trouble=lambda number, _load: (PAUSED,) if number % of == 0 else ())
    summary = search(tmp_path, host)
    found = summary.searched[0]
    assert summary.complete
    assert rates(summary)["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    paused = sum(number % of == 0 for number in range(len(host.settings)))
    assert found.trials_without_verdict == pytest.approx(paused, abs=2)


def test_an_arm_without_a_valid_trial_ends_with_the_reason(tmp_path: Path) -> None:
    host = Host(trouble=lambda _number, load: (ELSEWHERE,) if 50e3 < load < 120e3 else ())
    summary = search(tmp_path, host)
    assert not summary.complete
    assert "frames were received elsewhere" in (summary.searched[0].reason or "")
    assert rates(summary)["MFR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    assert rates(summary)["NDR"].status == "unfinished"


def test_the_time_limit_ends_a_search_with_what_it_has(tmp_path: Path) -> None:
    host = Host()
    summary = search(tmp_path, host, SearchOptions(limit_s=3.0))
    assert not summary.complete
    assert summary.searched[0].reason == "the time limit of 3 s was reached"
    assert host.now_s < 4
    assert rates(summary)["MFR"].status == "found"
    pdr = rates(summary)["PDR"]
    assert pdr.status == "unfinished"


@pytest.mark.parametrize("number", [0, 3, 18])
def test_ctrl_c_keeps_what_was_found(number: int, tmp_path: Path) -> None:
    def trouble(done: int, _load: float) -> tuple[InvalidReason, ...]:
        if done == number:
            raise KeyboardInterrupt
        return ()

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, Host(trouble=trouble))
    folder = RunFolder.open(tmp_path / "search")
    kept = folder.search()
    assert kept is not None
    assert not kept.complete
    assert kept.searched[0].reason == "the search was interrupted"
    assert len(folder.trials()) == number
    assert {rate.status for rate in kept.searched[0].rates} <= {"unfinished", "found"}


def test_a_trial_that_fails_ends_its_arm_only(tmp_path: Path) -> None:
    def trouble(done: int, _load: float) -> tuple[InvalidReason, ...]:
        if done == 2:
            raise MeasurementError("the generator died")
        return ()

    summary = search(tmp_path, Host(trouble=trouble))
    assert not summary.complete
    assert summary.searched[0].reason == "the generator died"
    assert RunFolder.open(tmp_path / "search").trials()[-1].status == "failed"


def test_by_default_each_sort_of_router_is_searched_once() -> None:
    spec = parse_experiment(TEXT)
    assert [s.label for s in subjects_of(spec)] == ["one"]
    text = TEXT.replace("role: aggressor", "role: aggressor, traffic: {frame_size: 512}")
    assert [s.label for s in subjects_of(parse_experiment(text))] == ["one", "two"]
    assert [s.label for s in subjects_of(spec, ["two"])] == ["two"]
    with pytest.raises(SpecError, match=r"--router six: .* it has one, two"):
        subjects_of(spec, ["six"])


def test_frames_that_end_in_a_router_are_not_searched() -> None:
    ending = "role: aggressor, traffic: {pattern: ttl-expired}"
    spec = parse_experiment(TEXT.replace("role: aggressor", ending))
    assert [s.label for s in subjects_of(spec)] == ["one"]
    for names, together in ((["two"], False), ([], True)):
        with pytest.raises(SpecError, match="router two: with pattern ttl-expired none"):
            subjects_of(spec, names, together=together)
    passing = parse_experiment(
        TEXT.replace("role: aggressor", ending).replace("ttl-expired", "fragments")
    )
    assert [s.label for s in subjects_of(passing)] == ["one", "two"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss_ratios": ()}, "--loss-ratio: none"),
        ({"loss_ratios": (0.0, 1.0)}, "--loss-ratio 1: accepted"),
        ({"loss_ratios": (0.01, 0.01)}, "twice"),
        ({"max_pps": 500.0}, "--max-rate 500pps: is not above"),
        ({"final_ns": 40_000_000}, "--duration: is shorter"),
        ({"sum_ns": 100_000_000}, "--duration-sum: is shorter"),
        ({"relative_width": 0.0}, "--width 0"),
        ({"exceed_ratio": 1.0}, "--exceed-ratio 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        replace(SearchOptions(), **change)  # type: ignore[arg-type]
