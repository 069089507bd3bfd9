"""``isolane calibrate``: fits the costs of a host profile."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.progress import Tell, progress

if TYPE_CHECKING:
    from isolane.calibrate.fit import Round
    from isolane.calibrate.problem import Problem
    from isolane.cli.fit_tables import Outcome
    from isolane.reproduce.model import Options
    from isolane.reproduce.workers import Pool

EPILOG = """Examples:

\b
  isolane calibrate runs/RUN --output my-host.yaml     fits to a live run on this host
  isolane run EXPERIMENT.yaml --on sim --profile my-host.yaml
  isolane calibrate rathore2013 --output fitted.yaml   fits to a paper's figures
"""


_Source = Annotated[
    str,
    typer.Argument(
        metavar="RUN|PAPER", help="Folder of a live run, or a paper: rathore2013 or ahn."
    ),
]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Write the profile to this file.")
]
_Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help="Start from this profile; default: veth, or the paper's.",
    ),
]
_Trials = Annotated[
    str | None,
    typer.Option(
        "--trials",
        metavar="N,N,...",
        help="Fit to these trials only, and predict the run's others.",
    ),
]
_HoldOut = Annotated[
    str | None,
    typer.Option(
        "--hold-out",
        metavar="PART",
        help="Leave a part of the paper's figures out of the fit, and predict it: "
        "'figures 7 and 8', 'tables 1 and 2', 'every other load of tables 1 and 2'.",
    ),
]
_Rounds = Annotated[
    int,
    typer.Option(
        "--rounds",
        min=1,
        max=1000,
        help="Maximum number of rounds, of all costs together and then of single costs.",
    ),
]
_Starts = Annotated[
    int,
    typer.Option("--starts", min=0, help="Random starting points to try before the first round."),
]
_Scale = Annotated[
    float,
    typer.Option(
        "--scale", min=0.01, max=100, help="Simulated time, as a multiple of the trials' time."
    ),
]
_Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the simulations.")
]
_Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Parallel processes; default: one per core.")
]
_Intervals = Annotated[
    bool,
    typer.Option(
        "--intervals/--no-intervals",
        help="Find the interval of each cost and the figures that respond to it, or save that "
        "time, about as long as a round for each cost.",
    ),
]
_Details = Annotated[
    bool, typer.Option("--details", help="Print each figure's error, and each cost.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print the figures and the costs as JSON.")]


def command(
    source: _Source,
    output: _Output,
    profile: _Profile = None,
    trials: _Trials = None,
    hold_out: _HoldOut = None,
    rounds: _Rounds = 12,
    starts: _Starts = 0,
    scale: _Scale = 1.0,
    seed: _Seed = 1,
    jobs: _Jobs = None,
    intervals: _Intervals = True,
    details: _Details = False,
    as_json: _Json = False,
) -> None:
    """Fit a host profile to a live run or to published figures.

    Use it before `isolane run --on sim`, so that the simulated host has the costs of yours. The
    fit changes the costs that the profile lists under `fitted`, within the limits given there,
    until the simulated figures match the measured ones (least squares). Ctrl-C keeps the best fit
    so far. The same seed gives the same profile. Needs no root.

    With --trials the command also predicts the run's other trials, at the loads that were really
    sent; with --hold-out the figures of the paper that were left out. It prints the errors of
    these predictions and writes them into the profile.

    Beside each error stands that of a naive model, in which everybody gets what he asks until the
    core is full. The table of costs shows the 95 % interval of each one; a cost whose interval is
    open is not determined by the figures.
    """
    from isolane.reproduce.model import Options

    options = Options(seed=seed, profile=profile, scale=scale)
    left_out = (_numbers(trials), hold_out)
    effort = _Effort(rounds, starts, jobs, intervals=intervals)
    told = _Told(as_json=as_json, details=details)
    raise typer.Exit(_fit(source, output, left_out, options, effort, told))


@dataclass(frozen=True)
class _Told:
    """What is printed."""

    as_json: bool
    details: bool


@dataclass(frozen=True)
class _Effort:
    """How long a fit may take."""

    rounds: int
    starts: int
    jobs: int | None
    intervals: bool


def _fit(
    source: str,
    output: Path,
    left_out: tuple[tuple[int, ...] | None, str | None],
    options: Options,
    effort: _Effort,
    told: _Told,
) -> int:
    """Fit, predict what was left out, write the profile; return the exit status."""
    from isolane.calibrate.noise import hint
    from isolane.calibrate.papers import FITTED_TO
    from isolane.calibrate.write import profile_text
    from isolane.errors import SpecError
    from isolane.files import check_output, write_output
    from isolane.reproduce.workers import Pool

    check_output(output)
    of_paper = source in FITTED_TO
    numbers, part = left_out
    noise = None if of_paper or part is not None else hint(Path(source))
    if noise:
        typer.echo(f"isolane: {noise}", err=True)
    if numbers is not None and (of_paper or part is not None):
        raise SpecError(
            "--trials: picks trials of a run, and this is a paper; use --hold-out to leave a part "
            "of its figures out"
        )
    with progress("rounds at most ({label})") as shown, Pool(effort.jobs) as pool:
        made = _outcome(source, left_out, options, effort, (pool, _round(shown)))
    start = options.profile or made.problem.profile.name
    try:  # a file that cannot be written does not keep the table from being printed
        text = profile_text(
            made.problem, start, made.fit, _name(output), error=made.error, found=made.found
        )
        write_output(output, text.encode())
    finally:
        if told.as_json:
            typer.echo(json.dumps(made.as_data(), indent=2))
        else:
            made.print(details=told.details)
    if not told.as_json:
        typer.echo(f"profile: {output}")
        typer.echo(f"isolane run EXPERIMENT.yaml --on sim --profile {shlex.quote(str(output))}")
    if made.fit.complete and not pool.interrupted:
        return 0
    return _interrupted(made, source, output)


def _outcome(
    source: str,
    left_out: tuple[tuple[int, ...] | None, str | None],
    options: Options,
    effort: _Effort,
    at_work: tuple[Pool, Round],
) -> Outcome:
    """Fit, find the intervals, predict; what an interruption prevents is left out."""
    from isolane.calibrate.check import predict
    from isolane.calibrate.fit import Fitter
    from isolane.calibrate.holdout import held_out
    from isolane.calibrate.identify import identify
    from isolane.calibrate.naive import NaiveModel
    from isolane.cli.fit_tables import Outcome

    (numbers, part), (pool, tell) = left_out, at_work
    error, check, found = "", None, None
    if part is not None:
        held = held_out(source, part, options, pool, (effort.starts, effort.rounds), tell)
        problem, fit, error = held.problem, held.fit, held.sentence
        fitter = Fitter(problem, pool, seed=options.seed, tell=tell)
    else:
        problem = _problem(source, options, numbers)
        fitter = Fitter(problem, pool, starts=effort.starts, seed=options.seed, tell=tell)
        fit = fitter.run(effort.rounds)
        if numbers is not None and fit.complete:
            check = predict(Path(source), numbers, fit.values, options, pool)
            error = check.sentence if check else ""
    with contextlib.suppress(KeyboardInterrupt):
        if effort.intervals and fit.complete and not pool.interrupted:
            found = identify(fitter, fit)
    model = NaiveModel.learned(problem.targets)
    naive = [
        model.error(target, problem.jobs[target.figure.key][0].setting.demands)
        for target in problem.targets
    ]
    return Outcome(problem, fit, naive, found, check, error)


def _problem(source: str, options: Options, numbers: tuple[int, ...] | None) -> Problem:
    from isolane.calibrate.live import run_problem
    from isolane.calibrate.papers import FITTED_TO, paper_problem
    from isolane.errors import SpecError

    if source in FITTED_TO:
        problem = paper_problem(source, options)
    else:
        problem = run_problem(Path(source), options, numbers)
    if not problem.free:
        raise SpecError(
            f"profile {problem.profile.name}: none of the costs under `fitted` affects "
            f"{problem.what}; list costs that do, or start from another --profile"
        )
    return problem


def _interrupted(made: Outcome, source: str, output: Path) -> int:
    from isolane.cli import signals

    what = "the profile is the best fit so far"
    if made.fit.complete:
        what = "the prediction is incomplete, or the intervals are missing"
    typer.echo(
        f"isolane: {signals.word()}; {what}; go on with: isolane calibrate {shlex.quote(source)} "
        f"--profile {shlex.quote(str(output))} --output {shlex.quote(str(output))}",
        err=True,
    )
    return signals.status()


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        message = f"--trials {text[:40]}: not a list of trials; accepted: numbers such as 0,3,7"
        raise typer.BadParameter(message)
    return tuple(int(word) for word in words)


def _name(output: Path) -> str:
    """Derive a profile's name from its file's: other characters become hyphens."""
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in output.stem.lower())
    return letters.strip("-")[:64].strip("-") or "profile"


def _round(tell: Tell) -> Round:
    """Return a function that shows a fit's rounds; a fit may end before the last one."""

    def told(done: int, rounds: int, where: str, mean: float, largest: float) -> None:
        tell(done, rounds, f"{where}: mean error {100 * mean:.2f} %, largest {100 * largest:.1f} %")

    return told
