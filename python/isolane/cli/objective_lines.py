"""What `isolane run` says of an experiment's objectives, and the exit status that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isolane.results.objective_models import ObjectiveFinding
    from isolane.results.results import Summary


def print_objectives(summary: Summary) -> None:
    """Print a line for each objective in each arm, on stdout."""
    from isolane.analysis.objective_words import objective_lines

    for line in objective_lines(summary):
        typer.echo(line)


def judge_objectives(findings: Sequence[ObjectiveFinding]) -> None:
    """Raise the error whose exit status fits: 4 where one was missed, 1 where one is open."""
    from isolane.errors import MeasurementError, TargetMissed

    outcomes = [finding.outcome for finding in findings]
    missed, met = outcomes.count("missed"), outcomes.count("met")
    if missed:
        raise TargetMissed(f"{missed} of {len(outcomes)} objectives missed")
    if met < len(outcomes):
        raise MeasurementError(
            f"{len(outcomes) - met} of {len(outcomes)} objectives are neither met nor missed; more "
            "repeats decide more (--repeats, --time-limit)"
        )
