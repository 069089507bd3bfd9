"""Two runs beside each other as one HTML page: what changed, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isolane.compare import Comparison, Difference
from isolane.compare import comparison_words as words
from isolane.report.assets import environment, with_plots
from isolane.report.change_plot import change_panel
from isolane.report.chart import Figure, Row, Swatch

OUTCOMES: Final = ("no difference shown", "worse", "better")
HEADINGS: Final = (
    "load", "router", "figure", "first", "second", "change [95 % interval]", "p, corrected",
    "outcome",
)  # fmt: skip
_TITLES: Final = {
    "throughput": "Throughput",
    "loss": "Loss",
    "p50": "Median delay",
    "p99": "99th percentile of the delay",
    "CPU per frame": "CPU time per frame",
}


def page(found: Comparison) -> str:
    """Write the whole page; it opens offline."""
    drawn = [_figure(found, name, number) for number, name in enumerate(_TITLES)]
    figures = [figure for figure in drawn if figure is not None]
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            found=found,
            level="bad" if found.worse else "good" if found.count("better") else "neutral",
            heading=f"{words.beyond(found)}." if found.worse else words.counts(found),
            remarks=[*([words.counts(found)] if found.worse else []), *words.remarks(found)],
            headings=HEADINGS,
            tables=[(arm, _table(found, arm)) for arm in _arms(found)],
            **with_plots(figures),
        )
    )


def _arms(found: Comparison) -> list[str]:
    return list(dict.fromkeys(each.arm for each in found.differences))


def _table(found: Comparison, arm: str) -> list[tuple[str, ...]]:
    return [
        (
            each.load, each.router, each.figure, words.value(each, each.before),
            words.value(each, each.after), words.change(each), words.probability(each),
            each.reason or each.outcome,
        )
        for each in found.differences
        if each.arm == arm
    ]  # fmt: skip


def _figure(found: Comparison, name: str, number: int) -> Figure | None:
    """Draw all changes of one figure; None where none has an interval."""
    shown = [each for each in found.differences if each.figure == name and _is_drawn(each)]
    if not shown:
        return None
    unit = "percentage points" if name == "loss" else "%"
    rows = [(f"{each.arm} · {each.load} · {each.router}", _row(each)) for each in shown]
    panel = change_panel(rows, OUTCOMES, f"change, {unit}", _said(name, shown))
    legend = tuple(Swatch(outcome, "series", i, "bar") for i, outcome in enumerate(OUTCOMES))
    return Figure(f"{number}", _TITLES[name], "", (panel,), legend, columns=1)


def _is_drawn(each: Difference) -> bool:
    return None not in (each.change, each.low, each.high)


def _row(each: Difference) -> Row:
    change, low, high = (100 * (share or 0.0) for share in (each.change, each.low, each.high))
    tip = {
        "arm": each.arm,
        "load": each.load,
        "router": each.router,
        "first": words.value(each, each.before),
        "second": words.value(each, each.after),
        "change": words.change(each),
        "outcome": each.outcome,
    }
    return Row(each.outcome, change, 0.0, low, high, tip=tip)


def _said(name: str, shown: Sequence[Difference]) -> str:
    parts = [
        f"{each.router} on {each.arm} at {each.load}: {words.change(each)}, {each.outcome}"
        for each in shown
        if each.outcome != "no difference shown"
    ]
    return f"{_TITLES[name]}. {'; '.join(parts) or 'No difference shown'}."
