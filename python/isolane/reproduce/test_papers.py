"""Papers reproduced, with the real simulator."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from isolane.errors import SpecError
from isolane.report.words import cells
from isolane.reproduce.model import Item, Options, Reproduction, Result, Row
from isolane.reproduce.rathore2013 import figure_rows, rathore_claims
from isolane.reproduce.registry import chosen, paper
from isolane.reproduce.relative_errors import errors
from isolane.reproduce.trials import load, simulate
from isolane.reproduce.workers import Pool

pytestmark = pytest.mark.native

PUBLISHED = Path(__file__).parents[3] / "experiments" / "papers" / "rathore2013" / "published"


def reproduce(
    name: str,
    figures: Sequence[str] | None = None,
    seed: int = 1,
    scale: float = 1.0,
    jobs: int = 1,
) -> Reproduction:
    it = paper(name)
    with Pool(jobs) as pool:
        return it.reproduce(figures or tuple(it.figures), Options(seed=seed, scale=scale), pool)


@pytest.fixture(scope="module")
def rathore() -> Reproduction:
    return reproduce("rathore2013")


def table(name: str) -> list[dict[str, str]]:
    lines = (PUBLISHED / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def published(rows: Iterable[Row], figure: str) -> list[float]:
    return sorted(r.published for r in rows if r.figure == figure and r.published is not None)


@pytest.mark.slow
def test_the_published_figures_are_those_of_the_reference(rathore: Reproduction) -> None:
    for name, figure in (("table1-lxc-scenario1", "table 1"), ("table2-kvm-scenario1", "table 2")):
        given = [
            float(value)
            for line in table(name)
            for key, value in line.items()
            if not key.startswith("offered")
        ]
        assert published(rathore.rows, figure) == sorted(given)
    given = [float(line["throughput_kpps"]) for line in table("throughput")]
    shown = [value for n in ("4", "7", "8") for value in published(rathore.rows, f"figure {n}")]
    assert sorted(shown) == sorted(given)


@pytest.mark.slow
def test_rathore_is_met_within_4_percent_on_average_and_12_at_most(rathore: Reproduction) -> None:
    found = errors(rathore.rows)
    assert found.count >= 45
    assert found.mean <= 0.04
    assert found.largest <= 0.12, found.worst
    five = next(
        row for row in rathore.rows if row.published == 0 and row.configuration == "macvtap (KVM)"
    )
    assert five.simulated is not None
    assert five.simulated < 5


@pytest.mark.slow
def test_scenario_ii_is_predicted_and_not_fitted(rathore: Reproduction) -> None:
    own = [row for row in rathore.rows if row.figure == "scenario II"]
    assert {row.offered["vr2"] for row in own} == {400, 500, 600, 688}
    assert {row.offered["vr1"] for row in own} == {800}
    assert len({row.configuration for row in own}) == 3
    assert all(row.published is None and row.simulated is not None for row in own)
    assert not any(row.fitted for row in own)


@pytest.mark.slow
def test_each_claim_of_rathore_is_decided(rathore: Reproduction) -> None:
    assert len(rathore.claims) >= 14
    missed = [claim.text for claim in rathore.claims if not claim.reproduced]
    assert len(missed) <= 3, missed
    assert {plot.figure for plot in rathore.plots} >= {f"figure {n}" for n in range(4, 9)}


def test_ahn_is_met_within_3_percent() -> None:
    found = reproduce("ahn", scale=0.1)
    assert errors(found.rows).largest <= 0.03
    assert all(claim.reproduced for claim in found.claims)
    parts = [row for row in found.rows if row.figure == "figure 1"]
    assert len(parts) == 15
    for words in {row.configuration for row in parts}:
        own = [row.simulated or 0.0 for row in parts if row.configuration == words]
        assert sum(own) == pytest.approx(100, abs=1)


def test_the_same_seed_gives_the_same_reproduction() -> None:
    given = ("rathore2013", ["8"], 3, 0.05)
    one, two = reproduce(*given, jobs=1), reproduce(*given, jobs=2)
    assert one.model_dump_json() == two.model_dump_json()
    rows = json.loads(one.model_dump_json())["rows"]
    wanted = {"paper", "figure", "configuration", "offered", "quantity", "unit"}
    wanted |= {"published", "simulated", "relative_error"}
    assert all(wanted <= set(row) for row in rows)


def test_an_unknown_paper_or_figure_is_named_with_those_there_are() -> None:
    with pytest.raises(SpecError, match="paper 'x' is not known; accepted: rathore2013, ahn"):
        paper("x")
    with pytest.raises(SpecError, match=r"rathore2013 has no figure '3'; accepted: 4 \(through"):
        chosen(paper("rathore2013"), "3")


class Interrupted:
    """Workers that the user has interrupted before the first result."""

    interrupted = True

    def map(
        self,
        function: Callable[[Item], Result],  # noqa: ARG002 - the protocol's
        items: Iterable[Item],  # noqa: ARG002
        label: str = "",  # noqa: ARG002
    ) -> list[Result]:
        return []


def test_an_interrupted_reproduction_says_so_and_keeps_what_it_has() -> None:
    it = paper("rathore2013")
    found = it.reproduce(["4", "8"], Options(), Interrupted())
    assert not found.complete
    assert all(row.simulated is None for row in found.rows)
    assert published(found.rows, "figure 8") == [1488, 1488]
    assert found.claims == ()


def test_errors_leave_out_what_cannot_be_compared() -> None:
    base = {"paper": "p", "figure": "f", "configuration": "c", "offered": {}, "quantity": "q"}
    rows = [
        Row(**base, unit="kpps", published=theirs, simulated=ours, fitted=fitted)
        for theirs, ours, fitted in (
            (100, 90, True),
            (100, 120, False),
            (None, 5, False),
            (0, 3, True),
        )
    ]
    assert errors(rows).count == 2
    assert errors(rows).mean == pytest.approx(0.15)
    assert errors(rows, fitted=True).largest == pytest.approx(0.1)
    assert rows[3].relative_error is None
    assert errors([]).count == 0


def test_a_trial_that_is_invalid_gives_no_figure_and_decides_no_claim() -> None:
    """A line too slow for the paper's loads: beyond it the generator is the limit."""
    given = load("rathore2013", "throughput")
    slow = given.traffic.model_copy(update={"line_rate_bps": 0.5e9})
    with Pool(1) as pool:
        found = simulate(
            [given.model_copy(update={"traffic": slow})], Options(scale=0.02), pool, "slow"
        )
    top = given.points()[-1].index
    key = (given.name, "native", top)
    assert key not in found.found
    why = found.missing[key]
    assert re.match(
        r"5 of 5 trials invalid, because the generator was the limit: the wire carried \S+ \S+ of "
        r"the \S+ \S+ for ",
        why,
    )
    rows = [r for r in figure_rows.of(found, ("4",), fitted=True) if r.simulated is None]
    assert rows
    assert all(row.note.startswith("5 of 5 trials invalid") for row in rows)
    assert "no result" in cells(rows[0])
    assert rathore_claims.of(found, ("4",)) == ()
    assert any(note.startswith("no verdict for native, ") for note in found.notes())
