"""Targets from the papers that profiles are fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from isolane.calibrate.problem import Problem, targets_of
from isolane.errors import SpecError
from isolane.reproduce.model import Options
from isolane.reproduce.trials import Figure, Key, figures_of, jobs, load
from isolane.run.sim.catalogue import find_host
from isolane.run.sim.trial import TrialJob

FITTED_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "rathore2013": ("throughput", "routers-1core", "routers-2cores", "scenario1"),
    "ahn": ("forwarding",),
}
"""Experiments of each paper whose published figures count; scenario II is left to be predicted."""


def paper_problem(paper: str, options: Options) -> Problem:
    """Return the problem of fitting a profile to a paper's figures.

    Raises
    ------
    SpecError
        If there is nothing of this paper to fit to.
    """
    if paper not in FITTED_TO:
        raise SpecError(f"no profile is fitted to {paper!r}; accepted: {', '.join(FITTED_TO)}")
    chosen = Options(options.seed, options.profile or paper, options.scale)
    todo: dict[Key, tuple[TrialJob, ...]] = {}
    figures: list[Figure] = []
    for name in FITTED_TO[paper]:
        experiment = load(paper, name)
        own = figures_of(experiment)
        figures += own
        todo |= jobs(experiment, chosen, only={figure.key for figure in own})
    return Problem(find_host(chosen.profile), todo, targets_of(figures), f"the figures of {paper}")
