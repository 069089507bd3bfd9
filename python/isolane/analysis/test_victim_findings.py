"""What is delivered, what is refused, and which finding follows from the intervals."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.analysis.delivery import weights_of
from isolane.analysis.summary import summarise
from isolane.analysis.test_cells import cell, summary_of
from isolane.analysis.verdict import basis, evidence
from isolane.report import test_data as data
from isolane.results.results import ArmVerdict, RouterTrial, Summary, Trial
from isolane.spec import parse_experiment

Share = Callable[[Trial], float]


def receiving(router: RouterTrial, share: float) -> RouterTrial:
    """The router, with so much of what it is offered delivered."""
    return router.model_copy(
        update={
            "received_pps": share * router.offered_pps,
            "received_frames": round(share * router.offered_frames),
            "loss_ratio": 1 - share,
        }
    )


def victims(share: Share) -> Callable[[Trial], Trial]:
    """Change trials so that their victims get a share of what they are offered."""

    def change(trial: Trial) -> Trial:
        if trial.purpose == "capacity":
            return trial
        routers = tuple(
            receiving(r, share(trial)) if r.role == "victim" else r for r in trial.routers
        )
        return trial.model_copy(update={"routers": routers})

    return change


def judged(folder: Path, share: Share, repeats: int = 5) -> tuple[Summary, ArmVerdict]:
    """A run on which all arms have the same victim, and what is found on direct."""
    found = summary_of(folder, repeats=repeats, change=victims(share))
    return found, found.verdict.arms[0]


def noisy(middle: float, spread: float) -> Share:
    """Deliver `middle` under attack, evenly spread, and everything at the reference point."""

    def share(trial: Trial) -> float:
        if trial.point == 0:
            return 1.0
        chance = random.Random(f"{trial.point} {trial.repeat}")
        return min(1.0, middle + spread * chance.uniform(-1, 1))

    return share


def test_delivered_is_received_of_offered(tmp_path: Path) -> None:
    found, _ = judged(tmp_path, lambda trial: 1 - trial.point / 10)
    for point in range(5):
        delivered = cell(found, "direct", point, "victim").delivered
        assert delivered is not None
        assert delivered.median == pytest.approx(1 - point / 10, abs=1e-5)
    assert cell(found, "direct", 0, "aggressor").delivered is None, "it was offered nothing"


@pytest.mark.parametrize(
    ("middle", "spread", "finding"),
    [
        (1.0, 0.0, "isolated"),
        (0.998, 0.002, "isolated"),
        (0.995, 0.01, "nearly isolated"),
        (0.97, 0.005, "nearly isolated"),
        (0.99, 0.08, "undecided"),
        (0.95, 0.01, "undecided"),
        (0.94, 0.2, "undecided"),
        (0.90, 0.01, "not isolated"),
        (0.40, 0.1, "not isolated"),
    ],
)
def test_the_finding_follows_the_interval(
    middle: float, spread: float, finding: str, tmp_path: Path
) -> None:
    found, arm = judged(tmp_path, noisy(middle, spread))
    assert arm.finding == finding
    assert arm.delivered is not None
    assert arm.points == 4
    if finding == "isolated":
        assert arm.delivered.low >= 0.99
    if finding == "not isolated":
        assert arm.delivered.high < 0.95
        assert found.verdict.level == "bad"
    if finding == "undecided":
        assert found.verdict.level == "neutral"
        assert "Undecided on direct, bridge and macvlan" in found.verdict.sentence


@pytest.mark.parametrize(
    ("times", "finding", "told"),
    [
        (1.0, "isolated", "p99 stays within twice"),
        (1.9, "isolated", "use macvlan"),
        (2.6, "not isolated", "waits more than twice as long"),
    ],
)
def test_a_load_balancers_victim_that_is_late_is_not_isolated(
    times: float, finding: str, told: str, tmp_path: Path
) -> None:
    def late(trial: Trial) -> Trial:
        if trial.purpose == "capacity":
            return trial
        routers = []
        for router in victims(lambda _trial: 1.0)(trial).routers:
            assert router.delay is not None or router.role != "victim"
            changes: dict[str, object] = {"mode": "http"}
            if router.role == "victim" and router.delay is not None:
                p99_ns = 1e6 * (times if trial.point else 1.0)
                changes["delay"] = router.delay.model_copy(update={"p99_ns": p99_ns})
            routers.append(router.model_copy(update=changes))
        return trial.model_copy(update={"routers": tuple(routers)})

    found = summary_of(tmp_path, repeats=6, change=late)
    arm = found.verdict.arms[0]
    assert arm.finding == finding
    assert arm.inflation is not None
    assert arm.inflation.median == pytest.approx(times)
    assert found.answer is not None
    assert told in " ".join(found.answer.sentences)
    assert f"{times:g} [" in found.verdict.sentence
    assert "times alone" in dict(evidence(found.verdict))["direct"]
    assert "p99 over p99 alone" in str(basis(found.verdict))
    (tmp_path / "few").mkdir()
    few = summary_of(tmp_path / "few", repeats=4, change=late)
    assert few.verdict.arms[0].finding == "undecided", "too few rounds have no interval"


def test_a_good_median_alone_isolates_nobody(tmp_path: Path) -> None:
    """Two of five trials go wrong: the median is perfect, and nothing is known."""
    found, arm = judged(tmp_path, lambda t: 0.7 if t.point == 4 and t.repeat < 2 else 1.0)
    delivered = cell(found, "direct", 4, "victim").delivered
    assert delivered is not None
    assert delivered.median == 1.0
    assert arm.finding == "undecided"


def test_one_repeat_decides_nothing(tmp_path: Path) -> None:
    found, arm = judged(tmp_path, lambda trial: 0.2 if trial.point else 1.0, repeats=1)
    assert (arm.finding, arm.delivered) == ("undecided", None)
    assert "One repeat only" in found.verdict.sentence
    assert basis(found.verdict) is None


def test_a_reference_that_loses_frames_is_refused_with_its_reason(tmp_path: Path) -> None:
    """The bridge at 0.27x: it loses half alone, and half under attack; that is no isolation."""
    found, arm = judged(tmp_path, lambda _: 0.5)
    for point in range(5):
        it = cell(found, "direct", point, "victim")
        assert it.retained is None
        assert it.delay_inflation is None
        assert it.reference == 0
        assert it.retained_reason == (
            "at the reference point, aggressor 0x, 50 % of its frames are lost already "
            "(more than 0.1 %)"
        )
        assert it.delivered is not None
    assert arm.finding == "overloaded alone"
    assert found.verdict.level == "neutral"
    assert "50 % of what it is offered" in found.verdict.sentence
    assert "is not told on direct, bridge and macvlan" in found.verdict.sentence
    assert any(gap.what.startswith("What the victim retains") for gap in found.not_measured)


def test_losing_a_thousandth_alone_is_still_a_reference(tmp_path: Path) -> None:
    found, _ = judged(tmp_path, lambda trial: 0.9992 if trial.point == 0 else 0.5)
    it = cell(found, "direct", 4, "victim")
    assert it.retained_reason is None
    assert it.retained is not None
    assert it.retained.median == pytest.approx(0.5 / 0.9992)


def test_what_an_attack_takes_from_an_overloaded_victim_is_still_found(tmp_path: Path) -> None:
    _, arm = judged(tmp_path, lambda trial: 0.18 if trial.point == 4 else 0.5)
    assert arm.finding == "not isolated"


def test_a_victim_that_gets_all_under_attack_needs_no_perfect_reference(tmp_path: Path) -> None:
    _, arm = judged(tmp_path, lambda trial: 0.995 if trial.point == 0 else 1.0)
    assert arm.finding == "isolated"


def test_differences_between_invocations_widen_the_interval(tmp_path: Path) -> None:
    """Within each invocation all repeats agree; the invocations do not."""
    spec = data.experiment(tmp_path, data.NOISY, 3)
    share = victims(lambda t: 1.0 if t.point == 0 else (0.96, 1.0, 0.9)[t.repeat // 3])
    trials = [share(trial) for trial in data.trials_of(spec, 9)]
    spread = [t.model_copy(update={"invocation": t.repeat // 3}) for t in trials]
    first = summarise(spec, trials[: 3 + 3 * 15], (), 1, 2, complete=True)
    every = summarise(spec, spread, (), 1, 2, complete=True)
    narrow = cell(first, "direct", 4, "victim").delivered
    wide = cell(every, "direct", 4, "victim").delivered
    assert narrow is not None
    assert wide is not None
    assert narrow.high - narrow.low < 0.001
    assert (wide.low, wide.high) == pytest.approx((0.9, 1.0), abs=1e-4)
    assert (wide.n, wide.invocations, wide.coverage) == (9, 3, 0.75)
    assert first.verdict.arms[0].finding == "nearly isolated"
    assert every.verdict.arms[0].finding == "undecided"
    assert "of one invocation" in (basis(first.verdict) or "")
    assert "in 3 invocations" in (basis(every.verdict) or "")
    gaps = [gap.why for gap in every.not_measured if gap.what == "95 % confidence intervals"]
    assert "3 invocations: even the range of so many holds the median only 75 %" in gaps[0]
    assert any("one invocation" in gap.why for gap in first.not_measured)
    assert not any("one invocation" in gap.why for gap in every.not_measured)


def test_of_points_with_the_same_median_the_least_certain_is_the_worst(tmp_path: Path) -> None:
    """It is why the arm is only nearly isolated, so it is what a reader is shown."""
    _, direct = judged(
        tmp_path, lambda t: 0.98 if (t.point, t.repeat) == (2, 3) else 1.0, repeats=8
    )
    assert direct.finding == "nearly isolated"
    assert direct.point_label == "aggressor 1x"
    assert direct.delivered is not None
    assert direct.delivered.median == 1.0
    assert direct.delivered.low < 0.99


def test_the_point_that_decides_is_shown_though_another_has_less_in_the_median(
    tmp_path: Path,
) -> None:
    """A reader who sees [99.2, 100] beside "nearly isolated" cannot tell why."""

    def share(trial: Trial) -> float:
        if trial.point == 3:
            return 0.997
        return 0.97 if (trial.point, trial.repeat) == (2, 3) else 1.0

    _, direct = judged(tmp_path, share, repeats=8)
    assert direct.finding == "nearly isolated"
    assert direct.point_label == "aggressor 1x"
    assert direct.delivered is not None
    assert direct.delivered.low < 0.99


def test_the_evidence_names_the_worst_point(tmp_path: Path) -> None:
    found, _ = judged(tmp_path, lambda trial: 1 - trial.point / 10)
    told = dict(evidence(found.verdict))
    assert told["direct"].startswith("60 % ")
    assert "delivered at aggressor 4x, the worst of its points under attack" in told["direct"]


WEIGHTED = """\
isolane: 1
name: weighted
routers:
  - {name: heavy, role: victim, policy: {cpu_weight: 200}}
  - {name: light, role: aggressor, policy: {cpu_weight: 100}}
load: {heavy: 600kpps, light: 600kpps}
arms: [{name: bridge, path: bridge}, {name: isolane, path: isolane},
  {name: links, path: isolane, policy: {heavy: {cpu_weight: 100, link_weight: 3}}}]
trial: {duration: 500ms, repeats: 2}
"""


def test_share_errors_take_the_weights_of_a_policy() -> None:
    spec = parse_experiment(WEIGHTED)
    assert weights_of(spec) == {
        "bridge": {"heavy": 100, "light": 100},
        "isolane": {"heavy": 200, "light": 100},
        "links": {"heavy": 3, "light": 1},
    }
    point = spec.points()[0]
    trials: list[Trial] = []
    for arm in ("bridge", "isolane"):
        for repeat in range(2):
            made = data.trial(arm, point, repeat, len(trials))
            heavy, light = made.routers
            routers = (receiving(heavy, 2 / 3), receiving(light, 1 / 3))
            trials.append(made.model_copy(update={"routers": routers}))
    found = summarise(spec, trials, (), 1, 2, complete=True)
    errors = {
        c.arm: c.share_error.median for c in found.cells if c.role == "victim" and c.share_error
    }
    assert errors == pytest.approx({"bridge": 100 / 6, "isolane": 0}, abs=1e-3)
