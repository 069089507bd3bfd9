"""Points that were asked for and gave nothing: they stand in the summary, and nothing is green."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.analysis.summary import summarise
from isolane.analysis.table_rows import MissingRow, rows_of
from isolane.analysis.test_cells import cell, summary_of, without
from isolane.report import test_data as data
from isolane.results.results import RouterTrial, Summary, Trial

HARDEST, REFERENCE = 4, 0
WHY = "3 of 3 trials invalid, because the generator was the limit"

Which = Callable[[Trial], bool]


def invalid(trial: Trial) -> Trial:
    """A trial that was carried out and tells nothing about the device under test."""
    return trial.model_copy(
        update={"status": "no-verdict", "reason": "the generator was the limit."}
    )


def served(router: RouterTrial) -> RouterTrial:
    """A router that forwards all that it is offered."""
    return router.model_copy(
        update={
            "received_pps": router.offered_pps,
            "received_frames": router.offered_frames,
            "loss_ratio": 0.0,
        }
    )


def unharmed(trial: Trial) -> Trial:
    """A host that isolates perfectly: aggressors lose, the victim does not."""
    if trial.purpose == "capacity":
        return trial
    routers = tuple(served(r) if r.role == "victim" else r for r in trial.routers)
    return trial.model_copy(update={"routers": routers})


def isolated(folder: Path, lost: Which, make: Callable[[Trial], Trial] = invalid) -> Summary:
    return summary_of(
        folder, repeats=3, change=lambda t: make(unharmed(t)) if measured(t, lost) else unharmed(t)
    )


def measured(trial: Trial, lost: Which) -> bool:
    return trial.purpose == "measure" and lost(trial)


def findings(summary: Summary) -> dict[str, str]:
    return {arm.arm: arm.finding for arm in summary.verdict.arms}


def test_a_host_that_isolates_and_lacks_nothing_is_green(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda _: False)
    assert found.verdict.level == "good"
    assert findings(found) == dict.fromkeys(("direct", "bridge", "macvlan"), "isolated")
    assert found.missing == ()
    assert (
        "even where it does worst, with an aggressor offered up to 4x the capacity"
        in found.verdict.sentence
    )


def test_without_the_hardest_point_nothing_is_green_and_nothing_easier_takes_its_place(
    tmp_path: Path,
) -> None:
    found = isolated(tmp_path, lambda t: t.point == HARDEST)
    assert found.verdict.level == "none"
    assert set(findings(found).values()) == {"no verdict"}
    assert found.verdict.sentence.startswith(
        f"No verdict at aggressor 4x on direct, bridge and macvlan: {WHY}. "
    )
    assert "2x" not in found.verdict.sentence
    assert found.missing is not None
    assert [(p.arm, p.point, p.why) for p in found.missing] == [
        (arm, HARDEST, WHY) for arm in ("direct", "bridge", "macvlan")
    ]
    assert found.missing[0].aggressor_x == 4
    gaps = [gap.why for gap in found.not_measured if gap.what == "direct, aggressor 4x"]
    assert gaps == [f"no verdict: {WHY}"]


def test_a_point_that_is_missing_in_one_arm_costs_that_arm_alone(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda t: (t.arm, t.point) == ("bridge", HARDEST))
    assert findings(found) == {"direct": "isolated", "bridge": "no verdict", "macvlan": "isolated"}
    assert found.verdict.level == "neutral"
    assert found.verdict.sentence.startswith(f"No verdict at aggressor 4x on bridge: {WHY}. ")


def test_an_arm_without_a_valid_trial_is_named_in_its_place(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda t: t.arm == "bridge")
    assert list(findings(found)) == ["direct", "bridge", "macvlan"]
    assert findings(found)["bridge"] == "no verdict"
    assert found.verdict.level == "neutral"
    assert "Further points without a verdict are in the table." in found.verdict.sentence
    rows = rows_of(found)
    arms = [row.point.arm if isinstance(row, MissingRow) else row.arm for row in rows]
    assert arms == ["direct"] * 10 + ["bridge"] * 10 + ["macvlan"] * 10


def test_an_arm_that_is_not_isolated_stays_so_whatever_is_missing(tmp_path: Path) -> None:
    found = summary_of(
        tmp_path, repeats=3, change=lambda t: invalid(t) if measured(t, hardest) else t
    )
    assert found.verdict.level == "bad"
    assert findings(found)["bridge"] == "not isolated"
    assert found.verdict.sentence.startswith("No verdict at aggressor 4x on ")


def hardest(trial: Trial) -> bool:
    return trial.point == HARDEST


def test_no_other_point_takes_the_place_of_a_reference_that_is_missing(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda t: (t.arm, t.point) == ("direct", REFERENCE))
    assert all(cell(found, "direct", point, "victim").retained is None for point in range(1, 5))
    assert cell(found, "bridge", HARDEST, "victim").retained is not None
    assert findings(found)["direct"] == "no verdict"
    assert "compared with its throughput alone" in found.verdict.sentence


def test_rounds_that_do_not_meet_give_no_verdict(tmp_path: Path) -> None:
    """The reference is valid in one round, the attack in the others: nothing can be paired."""
    found = isolated(
        tmp_path,
        lambda t: t.arm == "direct" and t.point in {0, 4} and (t.repeat == 0) != (t.point == 0),
    )
    assert found.missing == ()
    assert cell(found, "direct", HARDEST, "victim").retained is None
    assert findings(found)["direct"] == "no verdict"
    assert found.verdict.level == "neutral"
    assert "No verdict at aggressor 4x on direct: what the victim has" in found.verdict.sentence


def test_trials_that_failed_are_told_from_invalid_ones(tmp_path: Path) -> None:
    def mixed(trial: Trial) -> Trial:
        return without(trial) if trial.repeat else invalid(trial)

    found = isolated(tmp_path, hardest, mixed)
    assert found.missing is not None
    assert found.missing[0].why == (
        "1 of 3 trials invalid, 2 failed, because the generator was the limit"
    )
    found = isolated(tmp_path, hardest, without)
    assert found.missing is not None
    assert found.missing[0].why == "3 of 3 trials failed, because the interface vanished"


def test_points_that_an_interrupted_run_did_not_come_to_are_missing(tmp_path: Path) -> None:
    spec = data.experiment(tmp_path, data.NOISY, 3)
    trials = [unharmed(t) for t in data.trials_of(spec, 3) if t.point != HARDEST]
    found = summarise(spec, trials, (), 1, 2, complete=False)
    assert found.missing is not None
    assert {point.why for point in found.missing} == {
        "no trial was made, because the run ended before it"
    }
    assert found.verdict.level == "none"


@pytest.mark.parametrize("text", [data.SWEEP, data.LADDER])
def test_without_victims_the_missing_point_comes_first_too(tmp_path: Path, text: str) -> None:
    last = 3 if text == data.SWEEP else 5
    found = summary_of(
        tmp_path, text, 3, lambda t: invalid(t) if measured(t, lambda t: t.point == last) else t
    )
    assert found.verdict.level == "neutral"
    label = "8 routers" if text == data.SWEEP else "vr 1.2x"
    assert found.verdict.sentence.startswith(f"No verdict at {label} on direct and ")


def test_a_published_figure_at_a_missing_point_keeps_its_place(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda t: t.point == 1)
    first = found.published[0]
    assert (first.point, first.point_label, first.measured) == (1, "aggressor 0.5x", None)


def test_an_aggressor_that_never_overloads_proves_nothing(tmp_path: Path) -> None:
    def harmless(trial: Trial) -> Trial:
        if trial.purpose == "capacity":
            return trial
        routers = tuple(served(r) for r in trial.routers)
        return trial.model_copy(update={"routers": routers})

    found = summary_of(tmp_path, repeats=3, change=harmless)
    assert set(findings(found).values()) == {"never overloaded"}
    assert found.verdict.level == "neutral"
    assert (
        "up to 4.26x the capacity was offered in all and nothing was lost on any arm"
        in found.verdict.sentence
    )
    assert any(gap.what == "Isolation on an overloaded host" for gap in found.not_measured)
    light = data.NOISY.replace("[0x, 0.5x, 1x, 2x, 4x]", "[0x, 0.1x, 0.2x, 0.3x, 0.4x]")
    found = summary_of(tmp_path, light[: light.index("published")], 3, harmless)
    assert found.verdict.level == "good", "it never meant to overload the host"
