"""The line for those who watch a run: the worst point of each arm, the best arm first."""

from pathlib import Path

from isolane.analysis.first_findings import first_findings, is_told
from isolane.report import test_data as data
from isolane.results.results import Trial

ARMS = ("direct", "bridge", "macvlan")


def trials(folder: Path, repeats: int = 1) -> list[Trial]:
    return list(data.trials_of(data.experiment(folder, data.NOISY, repeats), repeats))


def test_each_arm_is_told_by_its_worst_point(tmp_path: Path) -> None:
    found = trials(tmp_path)
    told = first_findings(found, ARMS, 1, 6)
    assert told is not None
    assert told.startswith("round 1 of 6: the victim keeps 98 % on direct, ")
    worst = {
        arm: min(
            r.received_frames / r.generated_frames
            for t in found
            for r in t.routers
            if t.arm == arm and r.role == "victim" and t.point > 0
        )
        for arm in ("macvlan", "bridge")
    }
    assert f"{100 * worst['macvlan']:.2g} % on macvlan" in told
    assert f"{100 * worst['bridge']:.2g} % on bridge" in told


def test_many_arms_are_told_by_the_best_and_the_worst(tmp_path: Path) -> None:
    found = [
        trial.model_copy(update={"arm": f"{trial.arm}-{number}"})
        for trial in trials(tmp_path)
        for number in range(3)
    ]
    told = first_findings(found, (), 1, 2)
    assert told is not None
    assert told.count(" % on ") == 5
    assert told.split(" and ")[-1].split(" on ")[1].startswith("bridge")


def test_nothing_is_told_without_an_attack_on_a_victim(tmp_path: Path) -> None:
    alone = [trial for trial in trials(tmp_path) if trial.point == 0]
    assert first_findings(alone, ARMS, 1, 6) is None
    assert first_findings([], ARMS, 1, 6) is None


def test_the_line_comes_less_and_less_often() -> None:
    assert [rounds for rounds in range(1, 20) if is_told(rounds)] == [1, 2, 4, 8, 16]
