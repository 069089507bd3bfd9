"""The tests of a run's arms and loads in words, for tables and pages."""

from __future__ import annotations

import math
from typing import Final

from isolane.analysis.wording import delay_words, digits, plural
from isolane.results.arm_test_models import (
    ArmDifference,
    ArmTests,
    FigureName,
    LoadTrend,
)
from isolane.results.results import Summary
from isolane.spec import format_ns

DIFFERENCE_COLUMNS: Final = (
    "metric", "arm a", "arm b", "rounds", "b - a", "effect", "p, corrected", "verdict",
)  # fmt: skip
TREND_COLUMNS: Final = ("metric", "arm", "loads", "tau-b", "p, corrected", "verdict")
_FIGURES: Final[dict[FigureName, str]] = {"p50": "median", "p99": "p99"}


def metric(summary: Summary, figure: FigureName) -> str:
    """Name a figure: ``round-trip time, p99``."""
    if figure not in _FIGURES:
        return figure
    victims = {cell.mode for cell in summary.cells if cell.role == "victim"}
    others = {cell.mode for cell in summary.cells if cell.role != "aggressor"}
    modes = victims or others
    kind = "delay" if modes <= {"forward"} else delay_words(modes)
    return f"{kind}, {_FIGURES[figure]}"


def difference_row(summary: Summary, found: ArmDifference) -> list[str]:
    """Write a comparison: a value for each of `DIFFERENCE_COLUMNS`."""
    first, second = found.values
    rounds = f"{found.pairs} pairs" if found.test == "Wilcoxon" else f"{first} + {second}"
    return [
        metric(summary, found.figure),
        found.first,
        found.second,
        rounds,
        _shift(found),
        _signed(found.effect, 2),
        probability(found.adjusted_p),
        found.outcome,
    ]


def trend_row(summary: Summary, found: LoadTrend) -> list[str]:
    """Write a trend: a value for each of `TREND_COLUMNS`."""
    return [
        metric(summary, found.figure),
        found.arm,
        str(found.loads),
        _signed(found.tau, 2),
        probability(found.adjusted_p),
        found.outcome,
    ]


def title(tests: ArmTests) -> str:
    """Say what is compared, of which router."""
    return f"Are the arms different? ({_whose(tests)})"


def trend_title(tests: ArmTests) -> str:
    """Say what the trends are about."""
    load = " or ".join(dict.fromkeys(found.load for found in tests.trends))
    return f"Does the {load} matter? ({_whose(tests)})"


def note(tests: ArmTests) -> str | None:
    """Say what would show a difference, where nothing can; None where all could."""
    few = sum(found.outcome == "too few rounds" for found in tests.differences)
    if not few or tests.rounds_needed is None:
        return None
    option = "--repeats" if tests.unit == "round" else "--invocations"
    return (
        f"{plural(few, 'comparison')} of too few {tests.unit}s to show any difference, however "
        f"large: {tests.rounds_needed} of each arm that tell the figure can ({option})"
    )


def probability(p: float) -> str:
    """Write a probability, ``<0.001`` for less."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _whose(tests: ArmTests) -> str:
    routers = [found.router for found in tests.differences]
    routers += [found.router for found in tests.trends]
    return ", ".join(dict.fromkeys(routers))


def _shift(found: ArmDifference) -> str:
    """Write a shift with its unit, and as a part of the first arm's value, with its interval."""
    size = "inf" if math.isinf(found.shift) else format_ns(abs(found.shift))
    text = f"{'-' if found.shift < 0 else '+'}{size}" if found.shift else "0 ns"
    if found.change is None:
        return text
    text += f" ({_signed(100 * found.change, 2)} %"
    if found.low is not None and found.high is not None:
        text += f" [{_signed(100 * found.low, 2)}, {_signed(100 * found.high, 2)}]"
    return f"{text})"


def _signed(value: float, significant: int) -> str:
    text = digits(abs(value), significant)
    return text if text == "0" else f"{'+' if value > 0 else '-'}{text}"
