"""The answer as it is printed: 12 lines at 100 columns, figures whole, names cut short."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.text import Text

from isolane.analysis.test_answer import by_arm
from isolane.analysis.test_cells import summary_of
from isolane.cli.answer_table import (
    LINES,
    WIDTH,
    best_and_worst,
    fitting,
    print_answer,
    wrapped,
)
from isolane.results.results import Capacity, Interval, Summary

BELOW = 2


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summary_of(tmp_path_factory.mktemp("mixed"), repeats=5, change=by_arm)


def printed(summary: Summary, width: int | None = None) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width or 200, force_terminal=width is not None, no_color=True)
    print_answer(summary, console, below=BELOW)
    return [Text.from_ansi(line).plain for line in out.getvalue().splitlines()]


def test_the_best_arm_stands_on_top(mixed: Summary) -> None:
    lines = printed(mixed)
    assert lines[0].startswith(mixed.title)
    headings = "arm finding victim keeps worst at p99 (alone) together (of best)"
    assert " ".join(lines[1].split()) == headings
    assert lines[2].startswith("direct")
    assert "isolated  " in lines[2]
    assert "100 % [100, 100]" in lines[2]
    assert "not isolated" in lines[4]
    assert lines[5].startswith("On this host, use direct: its victim keeps 100 % at worst.")


@pytest.mark.parametrize(("at_least", "words"), [(False, "1x = "), (True, "1x = at least ")])
def test_a_lower_bound_of_1x_is_told_as_one(mixed: Summary, at_least: bool, words: str) -> None:
    pps = Interval(median=2e6, low=2e6, high=2e6, n=3)
    capacity = Capacity(arm="direct", router="one", pps=pps, at_least=at_least)
    lines = printed(mixed.model_copy(update={"capacity": capacity}))
    assert lines[0].endswith(f"; {words}2 Mpps")


def with_arms(summary: Summary, number: int) -> Summary:
    """The same answer with many arms of long names."""
    assert summary.answer is not None
    one = summary.answer.rows[0]
    rows = tuple(
        one.model_copy(update={"arm": f"an-arm-of-24-letters-{n:03}", "keeps_at": "l" * 60})
        for n in range(number)
    )
    return summary.model_copy(
        update={"answer": summary.answer.model_copy(update={"rows": rows}), "trials_failed": 2}
    )


@pytest.mark.parametrize("arms", [1, 3, 5, 6, 40])
def test_it_is_read_at_a_glance(mixed: Summary, arms: int) -> None:
    lines = printed(with_arms(mixed, arms))
    assert len(lines) + BELOW <= LINES
    assert max(map(len, lines)) <= WIDTH
    shown = sum(line.startswith("an-arm") for line in lines)
    rest = [line for line in lines if line.endswith("--details") and "more arm" in line]
    assert shown == arms or rest == [f"{arms - shown} more arms between these: --details"]
    assert lines[-1] == f"Of {mixed.trials} trials 2 failed: --details says why"


@pytest.mark.parametrize("arms", [1, 4, 5, 40])
def test_nor_is_it_longer_where_much_is_to_be_said_of_trials(mixed: Summary, arms: int) -> None:
    lost = {"trials_without_verdict": 7, "trials_repeated": 6, "trials_disturbed": 12}
    lines = printed(with_arms(mixed, arms).model_copy(update=lost))
    assert len(lines) + BELOW <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines[-2:]) == (
        f"Of {mixed.trials} trials 1 gave no verdict, 6 were made again, 2 failed; "
        "others disturbed 12, which count: --details says why"
    )


@pytest.mark.parametrize(
    ("fit", "shown"), [(9, range(9)), (8, (0, 1, 2, 3, 6, 7, 8)), (4, (0, 1, 8)), (3, (0, 8))]
)
def test_where_not_all_arms_fit_the_best_and_the_worst_are_told(
    mixed: Summary, fit: int, shown: Sequence[int]
) -> None:
    answer = with_arms(mixed, 9).answer
    assert answer is not None
    assert list(best_and_worst(answer.rows, fit)) == [answer.rows[number] for number in shown]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_figure_is_cut_short(mixed: Summary, width: int) -> None:
    lines = printed(mixed, width)
    (best,) = [line for line in lines if line.startswith("direct")]
    assert "100 % [100, 100]" in best
    assert "(" in best
    assert "…" not in best
    assert max(map(len, lines)) <= min(width, WIDTH)


def test_sentences_that_do_not_fit_are_left_to_the_report() -> None:
    told = ["One of nine.", "Two of nine.", "A third one that is longer."]
    assert fitting(told, 1, 30) == ["One of nine. Two of nine."]
    assert fitting(told, 9, 30) == ["One of nine. Two of nine. A", "third one that is longer."]
    assert fitting(["The first one is told whole."], 1, 20) == ["The first one is", "told whole."]
    assert fitting([], 1, 20) == []


def test_no_figure_is_parted_from_its_unit() -> None:
    assert wrapped("it keeps 14 % there", 11) == ["it keeps", "14 % there"]
    assert wrapped("", 10) == []


def test_a_prediction_is_called_one(mixed: Summary) -> None:
    lines = printed(mixed.model_copy(update={"simulated": "veth"}))
    assert "predicted by simulation, profile veth" in lines[0]
