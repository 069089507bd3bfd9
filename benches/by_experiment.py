"""Experiments that a bench carries out as `isolane run` does, and keeps the trials of.

All arms are in one shuffled schedule, loads are multiples of one capacity for all of them, invalid
trials are repeated in their place, and those that stay invalid are left out.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from isolane.results.folder import RunFolder
from isolane.results.results import Cell, Interval, Summary, Trial
from isolane.run.runner import Run
from isolane.spec import parse_experiment
from isolane.testbed import clean, exclusive
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import Options

FOLDER = Path(__file__).parent / "experiments"
NAN = float("nan")


@dataclass(frozen=True)
class Measured:
    """What came of an experiment."""

    summary: Summary
    trials: tuple[Trial, ...]
    """Those of points: repeated and invalid ones, too."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Names, in the order of the file."""
        return tuple(dict.fromkeys(cell.arm for cell in self.summary.cells))

    @property
    def points(self) -> tuple[int, ...]:
        """Numbers of the points with results."""
        return tuple(sorted({cell.point for cell in self.summary.cells}))

    def cell(self, arm: str, point: int, router: str) -> Cell | None:
        """Return a router's results; None when all trials of that point were invalid."""
        return next(
            (
                cell
                for cell in self.summary.cells
                if (cell.arm, cell.point, cell.router) == (arm, point, router)
            ),
            None,
        )

    def figure(
        self, arm: str, point: int, router: str, of: Callable[[Cell], Interval | None]
    ) -> float:
        """Return a median; NaN where there is none."""
        cell = self.cell(arm, point, router)
        found = of(cell) if cell else None
        return found.median if found else NAN

    def total_pps(self, arm: str, point: int) -> float:
        """Return what all routers forwarded together, the median, frames/s."""
        for found in self.summary.aggregates:
            if (found.arm, found.point) == (arm, point):
                return found.throughput_pps.median
        return NAN

    def load_x(self, point: int, router: str) -> float:
        """Return what a router is offered at a point, in capacities."""
        return next(
            cell.load_x
            for cell in self.summary.cells
            if cell.point == point and cell.router == router and cell.load_x is not None
        )

    def note(self) -> str:
        """Say how many trials were left out."""
        invalid = sum(trial.status != "ok" for trial in self.trials)
        made = len(self.trials)
        return f"{self.summary.name}: {invalid} of {made} trials were invalid and left out."


def carry_out(name: str, options: Options) -> Measured:
    """Carry out ``benches/experiments/NAME.yaml`` on this host.

    The options' rounds are its repeats, their seconds its window. With ``keep`` the trials are
    stored in that folder as ``NAME.parquet``.
    """
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    window = f"{round(1000 * options.seconds)}ms"
    for key, value in {"duration": window, "repeats": str(options.rounds)}.items():
        text, found = re.subn(rf"\b{key}: \w+", f"{key}: {value}", text)
        assert found == 1, f"{name}: {key} stands there {found} times"
    experiment = parse_experiment(text, name)
    with (
        tempfile.TemporaryDirectory() as temporary,
        exclusive() as journal,
        closing(LiveBackEnd(experiment, journal)) as back_end,
    ):
        clean()
        back_end.check(experiment.resolved_arms())
        folder = RunFolder.create(Path(temporary) / name, text, back_end.host())
        summary = Run(experiment, back_end, folder).execute()
        trials = [trial for trial in folder.trials() if trial.purpose == "measure"]
        if options.keep:
            shutil.copyfile(folder.path / "trials.parquet", options.keep / f"{name}.parquet")
    return Measured(summary, tuple(trials))


def known(value: float) -> bool:
    """Whether there is a figure."""
    return not math.isnan(value)
