"""What ``isolane calibrate`` tells of a fit: tables for a reader, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import typer

from isolane.analysis.wording import plural

if TYPE_CHECKING:
    from isolane.calibrate.check import Check
    from isolane.calibrate.fit import Fit
    from isolane.calibrate.identify import CostInterval, Identification
    from isolane.calibrate.problem import Problem

LEFT = {"arm", "trial", "metric", "load", "router", "cost", "the figures say", "informative"}
"""Columns of words; the others hold numbers."""


@dataclass(frozen=True)
class Outcome:
    """A fit and all that was found out about it."""

    problem: Problem
    fit: Fit
    naive: Sequence[float | None]
    """Relative error of the naive model for each target; None: it says nothing of that figure."""
    found: Identification | None
    """None: not asked for, or interrupted."""
    check: Check | None
    """Predictions of a run's other trials."""
    error: str
    """The sentence on predictions that the profile holds; empty: there were none."""

    @property
    def informative(self) -> Sequence[bool | None]:
        """For each target whether it responds to a cost; None: not known."""
        return self.found.informative if self.found else [None] * len(self.fit.errors)

    def print(self, *, details: bool) -> None:
        """Print how good the fit is; with `details` each figure and each cost, too."""
        for line in self.score():
            typer.echo(line)
        if self.error:
            typer.echo(self.error)
        if details:
            _print_figures(self)
            _print_costs(self)
            if self.check:
                _print_check(self.check)
            return
        for line in self._in_short():
            typer.echo(line)

    def _in_short(self) -> Iterator[str]:
        """Yield where the fit is worst, and the costs that the figures do not tell."""
        rows = zip(self.fit.errors, self.problem.targets, strict=True)
        error, target = max(rows, key=lambda row: abs(row[0]))
        figure = target.figure
        yield (
            f"furthest off: {figure.metric} of {figure.router} on {figure.arm}, trial "
            f"{figure.point} ({100 * error:+.1f} %)"
        )
        unknown = [k for k, one in _intervals(self).items() if one.state != "determined"]
        if unknown:
            yield f"not determined by these figures: {', '.join(unknown)}"
        yield f"{plural(len(self.fit.errors), 'figure')} and the fitted costs: --details"

    def score(self) -> list[str]:
        """Return sentences on how good the fit is."""
        fit, found = self.fit, self.found
        before = 100 * sum(map(abs, fit.start_errors)) / max(1, len(fit.start_errors))
        simulations = fit.simulations + (found.simulations if found else 0)
        whole = (
            f"mean absolute error {100 * fit.mean:.2f} % (was {before:.2f}), largest "
            f"{100 * fit.largest:.1f} %, after {simulations} simulations"
        )
        lines = [whole]
        if found:
            own, naive = self._beside_naive()
            lines.append(
                f"over the {sum(found.informative)} of {len(found.informative)} figures that "
                f"respond to a cost: mean {100 * found.mean(fit.errors):.2f} %, largest "
                f"{100 * found.largest(fit.errors):.1f} %"
            )
            if own:
                lines.append(
                    f"naive model, over {len(own)} of these: mean {_percent(naive, 2)}, median "
                    f"{_median(naive)}, where the fit has {_percent(own, 2)} and {_median(own)}"
                )
        return lines

    def _beside_naive(self) -> tuple[list[float], list[float]]:
        """Return the errors of informative figures that the naive model predicts, of both."""
        rows = zip(self.fit.errors, self.naive, self.informative, strict=True)
        both = [(own, naive) for own, naive, told in rows if told and naive is not None]
        return [own for own, _ in both], [naive for _, naive in both]

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data; errors are shares of 1, costs ns."""
        fit, found = self.fit, self.found
        own, naive = self._beside_naive()
        return {
            "figures": [
                {
                    "experiment": target.figure.experiment,
                    "arm": target.figure.arm,
                    "trial": target.figure.point,
                    "router": target.figure.router,
                    "metric": target.figure.metric,
                    "target": target.value,
                    "error": error,
                    "naive_error": naive_error,
                    "informative": told,
                }
                for target, error, naive_error, told in zip(
                    self.problem.targets, fit.errors, self.naive, self.informative, strict=True
                )
            ],
            "costs": [_cost_as_data(self, key) for key in fit.values],
            "score": {
                "mean_error": fit.mean,
                "largest_error": fit.largest,
                "informative_figures": sum(found.informative) if found else None,
                "informative_mean_error": _mean(found.mean(fit.errors) if found else None),
                "informative_largest_error": _mean(found.largest(fit.errors) if found else None),
                "compared_with_naive": len(own),
                "mean_error_of_these": _mean_of(own),
                "naive_mean_error_of_these": _mean_of(naive),
                "median_error_of_these": median(map(abs, own)) if own else None,
                "naive_median_error_of_these": median(map(abs, naive)) if naive else None,
            },
            "predictions": [] if self.check is None else [
                {**vars(p), "error": p.error} for p in self.check.predictions
            ],
            "complete": fit.complete,
        }  # fmt: skip


def _cost_as_data(outcome: Outcome, key: str) -> dict[str, Any]:
    one = _intervals(outcome).get(key)
    more = None if one is None else {
        "low": one.low, "high": one.high, "state": one.state, "at_limit": one.at_limit,
        "figures": one.figures,
    }  # fmt: skip
    before = outcome.problem.profile.figure(key)
    limits = outcome.problem.profile.fitted[key]
    return {
        "key": key,
        "value_ns": outcome.fit.values[key],
        "was_ns": before,
        "limits_ns": [limits.low, limits.high],
        "interval": more,
    }


def _intervals(outcome: Outcome) -> dict[str, CostInterval]:
    found = outcome.found
    return {one.key: one for one in found.intervals} if found else {}


def _mean(value: float | None) -> float | None:
    """Return a number that JSON has."""
    return None if value is None or value != value else value  # noqa: PLR0124 - NaN


def _mean_of(errors: Sequence[float]) -> float | None:
    return sum(map(abs, errors)) / len(errors) if errors else None


def _percent(errors: Sequence[float], digits: int) -> str:
    return f"{100 * sum(map(abs, errors)) / len(errors):.{digits}f} %"


def _median(errors: Sequence[float]) -> str:
    return f"{100 * median(map(abs, errors)):.2f} %"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 150
    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False, box=None)
    for name in names:
        table.add_column(name, justify="left" if name in LEFT else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _print_figures(outcome: Outcome) -> None:
    rows = []
    for target, error, naive, told in zip(
        outcome.problem.targets, outcome.fit.errors, outcome.naive, outcome.informative, strict=True
    ):
        figure = target.figure
        about = (figure.arm, f"{figure.point}", f"{figure.metric} of {figure.router}")
        beside = "-" if naive is None else f"{100 * naive:+.1f} %"
        word = {True: "yes", False: "no", None: "-"}[told]
        rows.append((*about, f"{target.value:.4g}", f"{100 * error:+.1f} %", beside, word))
    _table(("arm", "trial", "metric", "target", "error", "naive", "informative"), rows)


def _print_costs(outcome: Outcome) -> None:
    typer.echo("")
    intervals = _intervals(outcome)
    rows = []
    for key, value in outcome.fit.values.items():
        one = intervals.get(key)
        was = f"{outcome.problem.profile.figure(key):g}"
        ends = ("-", "-") if one is None else (_end(one.low), _end(one.high))
        at_limit = ", at a limit" if one is not None and one.at_limit else ""
        state = "-" if one is None else f"{one.state}{at_limit}"
        rows.append(
            (key, f"{value:g}", was, *ends, "-" if one is None else f"{one.figures}", state)
        )
    columns = ("cost", "ns", "was", "95 % from", "to", "figures", "the figures say")
    _table(columns, rows)


def _end(value: float | None) -> str:
    return "open" if value is None else f"{value:g}"


def _print_check(check: Check) -> None:
    names = ("arm", "load", "router", "live", "min", "max", "simulated", "error", "naive")
    rows = []
    for p in check.predictions:
        cells = [f"{rate:,.0f}" for rate in (p.live_pps, p.low_pps, p.high_pps, p.simulated_pps)]
        beside = "-" if p.naive_error is None else f"{100 * p.naive_error:+.1f} %"
        rows.append((p.arm, p.point, p.router, *cells, f"{100 * p.error:+.1f} %", beside))
    typer.echo("")
    _table(names, rows, "Throughput of the trials outside the fit, pps")
