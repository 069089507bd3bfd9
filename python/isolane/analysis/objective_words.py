"""Objectives in words, for terminal and report."""

from __future__ import annotations

import math
from typing import Final

from isolane.analysis import wording
from isolane.results.objective_models import ObjectiveFinding, Outcome
from isolane.results.results import Summary
from isolane.spec.objectives import SHARES, Objective, read_objective
from isolane.spec.units import format_ns, format_pps

_ORDER: Final[tuple[Outcome, ...]] = ("missed", "undecided", "not measured", "met")


def objective_lines(summary: Summary) -> tuple[str, ...]:
    """Return a line for each objective in each arm; those that were missed come first."""
    return tuple(map(told, sorted(summary.objectives, key=lambda one: _ORDER.index(one.outcome))))


def told(finding: ObjectiveFinding) -> str:
    """Tell in one line what became of an objective in an arm."""
    figure = figure_told(finding)
    where = f" ({figure} at {finding.point_label})" if figure else ""
    return f"{finding.outcome}: {_without_arms(finding.objective)} on {finding.arm}{where}"


def figure_told(finding: ObjectiveFinding) -> str:
    """Return the worst figure with its interval; empty where nothing was measured."""
    if finding.figure is None:
        return ""
    objective, figure = read_objective(finding.objective), finding.figure
    low, high = _written(objective, figure.low), _written(objective, figure.high)
    return f"{_written(objective, figure.median)} [{low}, {high}]"


def _without_arms(text: str) -> str:
    return text.partition(" on ")[0]


def _written(objective: Objective, value: float) -> str:
    if not math.isfinite(value):
        return "inf"
    if objective.relative:
        return f"{wording.digits(value)}x"
    if objective.metric in SHARES:
        return f"{wording.percent(value)} %"
    return format_pps(value) if objective.metric == "throughput" else format_ns(value)
