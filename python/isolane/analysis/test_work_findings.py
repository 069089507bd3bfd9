"""Work of routers in what a run finds: it is an attack, whatever the loads are."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.analysis.first_findings import first_findings
from isolane.analysis.published import Measured
from isolane.analysis.summary import summarise
from isolane.analysis.test_cells import cell
from isolane.analysis.test_victim_findings import receiving
from isolane.report import test_data as data
from isolane.report.points import across
from isolane.results.results import Summary, Trial
from isolane.run.generator_search import heaviest
from isolane.run.null_blocks import null_blocks
from isolane.spec import Experiment
from isolane.spec.work_models import NO_WORK

TEXT = """\
isolane: 1
name: busy
routers:
  - {name: victim, path: direct, role: victim}
  - {name: aggressor, path: direct, role: aggressor, work: [WORK]}
load: {victim: 0.27x, aggressor: [LOAD]}
trial: {repeats: REPEATS}
"""
WORKS = [
    ("none, cpu", "0.1x, 0.1x"),
    ("cpu, none", "0.1x, 0.1x"),
    ("none, cpu", "0.2x, 0x"),
    ("cpu, none", "0x, 0.2x"),
]
REPEATS = 5


def experiment(folder: Path, work: str, load: str) -> Experiment:
    text = TEXT.replace("WORK", work).replace("LOAD", load)
    return data.experiment(folder, text, REPEATS)


def trials(it: Experiment, kept: float) -> list[Trial]:
    """Trials in which the victim keeps so much beside work, and all without."""
    found = [data.capacity_trial(it, number) for number in range(3)]
    for repeat in range(REPEATS):
        for point in it.points():
            made = data.trial("direct", point, repeat, len(found))
            share = kept if point.group("aggressor")[0].work != NO_WORK else 1.0
            routers = [receiving(r, share) if r.role == "victim" else r for r in made.routers]
            found.append(made.model_copy(update={"routers": tuple(routers)}))
    return found


def summary_of(it: Experiment, made: list[Trial]) -> Summary:
    return summarise(it, made, [], 0.0, 1.0, complete=True)


@pytest.mark.parametrize(("work", "load"), WORKS)
@pytest.mark.parametrize(("kept", "finding"), [(0.5, "not isolated"), (1.0, "isolated")])
def test_the_point_without_work_is_the_reference_whatever_the_loads(
    work: str, load: str, kept: float, finding: str, tmp_path: Path
) -> None:
    it = experiment(tmp_path, work, load)
    made = trials(it, kept)
    found = summary_of(it, made)
    quiet, busy = (0, 1) if work.startswith("none") else (1, 0)
    assert found.verdict.arms[0].finding == finding
    assert cell(found, "direct", busy, "victim").reference == quiet
    assert cell(found, "direct", busy, "victim").working == 1
    assert cell(found, "direct", quiet, "victim").working == 0
    assert "and working besides" in found.verdict.model_dump_json()
    assert across(found).kind == "point", "loads alone do not tell these points from each other"
    assert found.answer is not None
    assert found.answer.total_at == it.points()[busy].label
    told = first_findings([t for t in made if t.purpose == "measure"], ["direct"], 1, 5)
    assert told is not None
    assert f"keeps {100 * kept:.0f} % on direct" in told


@pytest.mark.parametrize(("work", "load"), WORKS)
def test_a_missing_point_with_work_is_no_isolation(work: str, load: str, tmp_path: Path) -> None:
    it = experiment(tmp_path, work, load)
    quiet = [t for t in trials(it, 1.0) if all(r.work == NO_WORK for r in t.routers)]
    found = summary_of(it, quiet)
    assert found.verdict.arms[0].finding == "no verdict"
    (missing,) = found.missing or ()
    assert missing.attack[0] == 1


def test_what_is_measured_beside_the_rounds_is_measured_without_work(tmp_path: Path) -> None:
    it = experiment(tmp_path, "none, cpu", "0.1x, 0.2x")
    (block,) = null_blocks(it, set())
    points = [task.point for task in block.tasks]
    assert [point.index for point in points] == [0, 1]
    capacity = summary_of(it, trials(it, 1.0)).capacity
    for point in (*points, heaviest(it, capacity)):
        assert {router.work for router in point.routers} == {NO_WORK}


def test_published_figures_stand_beside_the_point_without_work(tmp_path: Path) -> None:
    it = experiment(tmp_path, "cpu, none", "0.1x, 0.1x")
    found = summary_of(it, trials(it, 0.5))
    measured = Measured(found.cells, (), (), found.capacity)
    assert measured.point("direct", {"victim": 0.27, "aggressor": 0.1}, None) == 1
