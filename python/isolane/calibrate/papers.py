"""Targets from the papers that profiles are fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from isolane.calibrate.problem import Problem, targets_of
from isolane.errors import SpecError
from isolane.reproduce.model import Options
from isolane.reproduce.trials import Figure, Key, figures_of, jobs, load
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.trial import TrialJob

FITTED_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "rathore2013": ("throughput", "routers-1core", "routers-2cores", "scenario1"),
    "ahn": ("forwarding",),
}
"""Experiments of each paper whose published figures count; scenario II is left to be predicted."""


def paper_problem(
    paper: str, options: Options, wanted: Callable[[Figure], bool] = lambda _: True
) -> Problem:
    """Return the problem of fitting a profile to a paper's figures.

    By default the fit starts from the paper's own profile, without its fitted costs.

    Parameters
    ----------
    paper
        Its name.
    options
        Seed, profile to start from, simulated time.
    wanted
        Selects the figures to fit to.

    Raises
    ------
    SpecError
        If this paper has no figures to fit to.
    """
    if paper not in FITTED_TO:
        raise SpecError(f"no profile is fitted to {paper!r}; accepted: {', '.join(FITTED_TO)}")
    chosen = Options(options.seed, options.profile or paper, options.scale)
    todo: dict[Key, tuple[TrialJob, ...]] = {}
    figures: list[Figure] = []
    for name in FITTED_TO[paper]:
        experiment = load(paper, name)
        own = [figure for figure in figures_of(experiment) if wanted(figure)]
        figures += own
        todo |= jobs(experiment, chosen, only={figure.key for figure in own})
    command = f"isolane calibrate {paper}"
    command += f" --profile {options.profile}" if options.profile else ""
    command += f" --scale {options.scale:g}" if options.scale != 1 else ""
    return Problem(
        find_host(chosen.profile),
        todo,
        targets_of(figures),
        f"the figures of {paper}",
        start="profile" if options.profile else "limits",
        command=command,
    )
