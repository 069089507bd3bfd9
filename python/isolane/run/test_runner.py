"""The runner on a back end that needs no host: what it asks for, keeps, and makes of trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from isolane.analysis.attempts import key_of
from isolane.errors import MeasurementError
from isolane.report import test_data as data
from isolane.results.folder import RunFolder
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.results import DROP_POINTS, Drawing, HostFacts, NotMeasured, RouterTrial, Trial
from isolane.run.runner import Run, Step
from isolane.spec import Arm, PointRouter, parse_experiment
from isolane.spec.demands import Demand
from isolane.trials.backend import BackEnd, Bench, Observation, Setting

CAPACITY_PPS = 100_000.0
ABSOLUTE = """\
isolane: 1
name: two
routers: [{name: one, role: victim}, {name: two, role: aggressor}]
load: {one: 1kpps, two: [1kpps, 2kpps, 3kpps]}
arms: [{name: direct, path: direct}, {name: bridge, path: bridge}]
trial: {duration: 100ms, warmup: 0ms, repeats: 2, retries: 0}
"""
RELATIVE = ABSOLUTE.replace("one: 1kpps", "one: 0.2x").replace("[1kpps", "[0.5x")
TRIALS = 2 * 3 * 2


def forwarded(demand: Demand, window_s: float) -> RouterTrial:
    """A router that forwards all that is offered, up to its capacity."""
    offered = round(demand.offered_pps * window_s)
    received = min(offered, round(CAPACITY_PPS * window_s))
    lost = dict.fromkeys(DROP_POINTS, 0) | {"nic_queue": offered - received}
    return RouterTrial(
        router=demand.router.name, group=demand.router.group, role=demand.router.role,
        kind="container", path="direct", load_x=demand.load_x, offered_pps=demand.offered_pps,
        generated_pps=demand.offered_pps, received_pps=received / window_s,
        offered_frames=offered, generated_frames=offered, received_frames=received,
        offered_total=offered, received_total=received, lost=lost,
        loss_ratio=1 - received / offered if offered else None, delay=None, reordered=0,
        duplicated=0, cpu_ns=None, cpu_share=None, cpu_ns_per_frame=None, cpu_reason="imaginary",
    )  # fmt: skip


@dataclass
class Imaginary:
    """A back end of arithmetic; `trouble` is asked before each trial, with its number."""

    trouble: Callable[[int], None] = lambda _number: None
    invalid: tuple[InvalidReason, ...] = ()
    spoilt: Callable[[int], bool] = lambda _number: True
    """Tells which trials `invalid` concerns."""
    overload: float = 10 * CAPACITY_PPS
    settings: list[Setting] = field(default_factory=list)
    built: list[tuple[str, int]] = field(default_factory=list)
    open_benches: int = 0

    def check(self, arms: Sequence[Arm]) -> None:
        pass

    def host(self) -> HostFacts:
        return data.HOST

    def overload_pps(self, arm: Arm) -> float:  # noqa: ARG002 - the same in every arm
        return self.overload

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        self.built.append((arm.name, len(routers)))
        self.open_benches += 1
        try:
            yield _Bench(self, arm.name, [router.name for router in routers])
        finally:
            self.open_benches -= 1


@dataclass
class _Bench:
    back_end: Imaginary
    arm: str
    routers: list[str]
    broken: bool = False

    def trial(self, setting: Setting) -> Observation:
        assert self.back_end.open_benches == 1, "one bench at a time"
        assert not self.broken, "a bench is used again after a trial that failed on it"
        number = len(self.back_end.settings)
        self.back_end.settings.append(setting)
        try:
            self.back_end.trouble(number)
        except MeasurementError:
            self.broken = True
            raise
        sample = data.trial("direct", _point(), 0, 0)
        assert sample.generator is not None
        return Observation(
            routers=tuple(forwarded(d, setting.window_ns / 1e9) for d in setting.demands),
            cores=sample.cores,
            generator=sample.generator,
            placement=sample.placement,
            conserved=True,
            invalid=self.back_end.invalid if self.back_end.spoilt(number) else (),
        )

    def drawing(self) -> Drawing:
        return data.drawing(self.arm, self.routers)

    def limits(self) -> tuple[NotMeasured, ...]:
        return (NotMeasured(what="time", why="the fake has no clock"),)

    def nics(self) -> tuple[dict[str, str], ...]:
        return ({"name": f"{self.arm}-nic"},)


def _point() -> Any:
    return parse_experiment(ABSOLUTE).points()[0]


def start(
    folder: Path, back_end: BackEnd, text: str = ABSOLUTE, steps: list[Step] | None = None
) -> Run:
    found = parse_experiment(text)
    exists = (folder / "trials.jsonl").exists()
    opened = RunFolder.open(folder) if exists else RunFolder.create(folder, text, back_end.host())
    return Run(found, back_end, opened, steps.append if steps is not None else lambda _step: None)


def journal(folder: Path) -> list[Trial]:
    return RunFolder.open(folder).trials()


def fail_at(*numbers: int, error: type[BaseException] = MeasurementError) -> Callable[[int], None]:
    def trouble(number: int) -> None:
        if number in numbers:
            raise error(f"trouble {number}")

    return trouble


def test_every_trial_is_kept_in_the_order_of_its_doing(tmp_path: Path) -> None:
    back_end, steps = Imaginary(), list[Step]()
    summary = start(tmp_path / "run", back_end, steps=steps).execute()
    trials = journal(tmp_path / "run")
    assert [trial.trial for trial in trials] == list(range(TRIALS))
    assert {trial.status for trial in trials} == {"ok"}
    assert len(back_end.built) == 4, "two arms in two rounds"
    assert summary.complete
    assert summary == RunFolder.open(tmp_path / "run").summary()
    assert (tmp_path / "run" / "trials.parquet").is_file()
    assert [drawing.arm for drawing in summary.drawings] == ["direct", "bridge"]
    nics = RunFolder.open(tmp_path / "run").host().nics
    assert {"direct-nic", "bridge-nic"} <= {nic["name"] for nic in nics}
    assert [step.done for step in steps if not step.news] == list(range(TRIALS))
    assert {step.total for step in steps} == {TRIALS}


def test_a_trial_is_on_disk_before_the_next_begins(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(_number: int) -> None:
        seen.append(len(journal(tmp_path / "run")))

    start(tmp_path / "run", Imaginary(look)).execute()
    assert seen == list(range(TRIALS))


def test_an_invalid_trial_gives_no_verdict_and_says_why(tmp_path: Path) -> None:
    reasons = tuple(InvalidReason(InvalidKind.MISPLACED, text) for text in ("one thing", "another"))
    summary = start(tmp_path / "run", Imaginary(invalid=reasons)).execute()
    trials = journal(tmp_path / "run")
    assert {(t.status, t.reason) for t in trials} == {("no-verdict", "one thing; another")}
    assert (summary.trials_without_verdict, summary.trials_failed) == (TRIALS, 0)


def test_after_a_failed_trial_the_bench_is_built_anew(tmp_path: Path) -> None:
    back_end = Imaginary(fail_at(1, 5))
    summary = start(tmp_path / "run", back_end).execute()
    trials = journal(tmp_path / "run")
    assert {t.trial: t.reason for t in trials if t.status == "failed"} == {
        1: "trouble 1", 5: "trouble 5",
    }  # fmt: skip
    assert len(trials) == TRIALS
    assert summary.trials_failed == 2
    assert len(back_end.built) >= 5
    assert back_end.open_benches == 0


def test_a_run_that_keeps_failing_ends(tmp_path: Path) -> None:
    back_end = Imaginary(fail_at(2, 3, 4))
    with pytest.raises(MeasurementError, match=r"3 trials failed in a row, .*: trouble 4"):
        start(tmp_path / "run", back_end).execute()
    assert [t.status for t in journal(tmp_path / "run")] == ["ok"] * 2 + ["failed"] * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_whatever_ends_a_run_its_results_are_summarised(
    error: type[BaseException], tmp_path: Path
) -> None:
    back_end = Imaginary(fail_at(4, error=error))
    with pytest.raises(error):
        start(tmp_path / "run", back_end).execute()
    assert back_end.open_benches == 0
    summary = RunFolder.open(tmp_path / "run").summary()
    assert summary is not None
    assert (summary.complete, summary.trials) == (False, 4)
    assert len(journal(tmp_path / "run")) == 4


@pytest.mark.parametrize("written", [False, True])
def test_a_signal_while_a_trial_is_kept_leaves_a_summary_of_what_was(
    written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = RunFolder.append_trial

    def interrupted(folder: RunFolder, trial: Trial) -> None:
        if written or trial.trial < 3:
            append(folder, trial)
        if trial.trial == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "append_trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "run", Imaginary()).execute()
    summary = RunFolder.open(tmp_path / "run").summary()
    assert summary is not None
    assert summary.trials == len(journal(tmp_path / "run")) == 3 + written


def test_a_resumed_run_does_what_is_left_and_what_had_failed(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def trouble(number: int) -> None:
        fail_at(3, 6)(number)
        fail_at(7, error=KeyboardInterrupt)(number)

    with pytest.raises(KeyboardInterrupt):
        start(folder, Imaginary(trouble)).execute()
    before, first = journal(folder), RunFolder.open(folder).summary()
    assert len(before) == 7
    assert before[-1].status == "failed"
    steps: list[Step] = []
    summary = start(folder, Imaginary(), steps=steps).execute()
    after = journal(folder)
    assert after[:7] == before
    assert [trial.trial for trial in after] == list(range(TRIALS + 2)), "numbers are used once"
    good = [(t.arm, t.point, t.repeat) for t in after if t.status == "ok"]
    assert len(good) == len(set(good)) == TRIALS
    assert summary.complete
    assert summary.trials_failed == 0
    assert first is not None
    assert summary.started_unix_s == first.started_unix_s
    assert steps[0] == Step(5, TRIALS, steps[0].label)


def test_a_resumed_run_keeps_what_its_beds_have_told(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = start(folder, Imaginary()).execute()
    assert first.told_by_beds
    assert set(first.told_by_beds) <= set(first.not_measured)
    assert start(folder, Imaginary()).execute().not_measured == first.not_measured


def test_results_that_cannot_be_kept_end_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def spoil_the_journal(number: int) -> None:
        if number == 2:
            (folder / "trials.jsonl").rename(folder / "kept")
            (folder / "trials.jsonl").mkdir()

    with pytest.raises(MeasurementError, match=r"trials\.jsonl: cannot be written: is a directory"):
        start(folder, Imaginary(spoil_the_journal)).execute()
    assert (folder / "kept").read_bytes().count(b"\n") == 2


def test_a_summary_that_cannot_be_written_does_not_hide_what_ended_the_run(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"

    def spoil_the_summary(number: int) -> None:
        if number == 2:
            (folder / "summary.json").mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        start(folder, Imaginary(spoil_the_summary)).execute()


def test_each_trial_says_its_invocation_and_each_invocation_has_beds_of_its_own(
    tmp_path: Path,
) -> None:
    back_end = Imaginary()
    run = start(tmp_path / "run", back_end)
    run.invocations = 3
    run.execute()
    trials = journal(tmp_path / "run")
    assert [trial.invocation for trial in trials] == [n for n in range(3) for _ in range(TRIALS)]
    assert len(back_end.built) == 3 * 4
    again = Imaginary()
    more = start(tmp_path / "run", again)
    more.invocations = 4
    more.execute()
    assert len(again.settings) == TRIALS, "a later session adds an invocation"
    assert journal(tmp_path / "run")[-1].invocation == 3


def test_whoever_watches_is_told_the_first_findings(tmp_path: Path) -> None:
    steps: list[Step] = []
    run = start(tmp_path / "run", Imaginary(), ABSOLUTE.replace("repeats: 2", "repeats: 5"))
    run.watch = steps.append
    run.execute()
    told = "round {} of 5: the victim keeps 100 % on direct and 100 % on bridge"
    assert [s.news for s in steps if s.news] == [told.format(rounds) for rounds in (1, 2, 4)]
    assert [s.done for s in steps] == sorted(s.done for s in steps)


ELSEWHERE = InvalidReason(InvalidKind.MISPLACED, "frames were received elsewhere")
PATIENT = ABSOLUTE.replace("retries: 0", "retries: 2")


def test_an_invalid_trial_is_repeated_in_its_place(tmp_path: Path) -> None:
    back_end = Imaginary(invalid=(ELSEWHERE,), spoilt=lambda number: number in (2, 3, 7))
    summary = start(tmp_path / "run", back_end, PATIENT).execute()
    trials = journal(tmp_path / "run")
    assert len(trials) == TRIALS + 3
    again = [key_of(t) for t in trials]
    assert again[2] == again[3] == again[4]
    assert again[7] == again[8]
    assert [t.attempt for t in trials[2:5]] == [0, 1, 2]
    assert trials[2].invalid == (InvalidKind.MISPLACED,)
    assert trials[4].invalid == ()
    good = [key_of(t) for t in trials if t.status == "ok"]
    assert len(good) == len(set(good)) == TRIALS
    assert summary.trials_without_verdict == 3
    assert len(back_end.built) == 4, "the bench stays"


def test_no_arm_has_more_attempts_than_another(tmp_path: Path) -> None:
    """On a host that is never quiet: each arm repeats at half of its points, rounded up."""
    summary = start(tmp_path / "run", Imaginary(invalid=(ELSEWHERE,)), PATIENT).execute()
    made = Counter((t.arm, t.repeat) for t in journal(tmp_path / "run"))
    assert made == dict.fromkeys([(a, r) for a in ("direct", "bridge") for r in (0, 1)], 3 + 2)
    assert summary.trials_without_verdict == 20


PAUSED = InvalidReason(InvalidKind.PAUSED, "the hypervisor took 4.6 % of core 1")


def test_a_paused_trial_is_made_again(tmp_path: Path) -> None:
    back_end = Imaginary(invalid=(PAUSED,), spoilt=lambda number: number in (2, 7))
    summary = start(tmp_path / "run", back_end, PATIENT).execute()
    trials = journal(tmp_path / "run")
    assert len(trials) == TRIALS + 2
    assert [(t.status, t.attempt) for t in trials[2:4]] == [("no-verdict", 0), ("ok", 1)]
    assert key_of(trials[2]) == key_of(trials[3])
    assert (summary.trials_without_verdict, summary.trials_disturbed) == (2, 0)


def test_where_all_trials_are_paused_the_last_attempts_count(tmp_path: Path) -> None:
    """Each of the four beds has three points, at two of which one trial is made again."""
    once = PATIENT.replace("retries: 2", "retries: 1")
    summary = start(tmp_path / "run", Imaginary(invalid=(PAUSED,)), once).execute()
    trials = journal(tmp_path / "run")
    good = [key_of(t) for t in trials if t.status == "ok"]
    assert len(good) == len(set(good)) == TRIALS
    assert (summary.trials_without_verdict, summary.trials_disturbed) == (4 * 2, TRIALS)


def test_a_simulated_trial_is_not_repeated(tmp_path: Path) -> None:
    class Simulated(Imaginary):
        def host(self) -> HostFacts:
            return data.HOST.model_copy(update={"simulated": "a profile"})

    start(tmp_path / "run", Simulated(invalid=(ELSEWHERE,)), PATIENT).execute()
    assert len(journal(tmp_path / "run")) == TRIALS


def test_a_resumed_run_does_not_begin_to_count_attempts_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def trouble(number: int) -> None:
        fail_at(2, error=KeyboardInterrupt)(number)

    with pytest.raises(KeyboardInterrupt):
        start(folder, Imaginary(trouble, invalid=(ELSEWHERE,)), PATIENT).execute()
    start(folder, Imaginary(invalid=(ELSEWHERE,)), PATIENT).execute()
    made = Counter(key_of(t) for t in journal(folder))
    assert max(made.values()) == 3
    assert len(journal(folder)) == 20
