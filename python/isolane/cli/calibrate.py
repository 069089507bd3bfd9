"""``isolane calibrate``: fits a host profile."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.progress import Tell, progress

if TYPE_CHECKING:
    from isolane.calibrate.check import Check
    from isolane.calibrate.fit import Fit, Round
    from isolane.calibrate.problem import Problem
    from isolane.reproduce.model import Options

EPILOG = """Examples:

\b
  isolane calibrate runs/RUN --output my-host.yaml     this host's costs, from a live run
  isolane run EXPERIMENT.yaml --on sim --profile my-host.yaml
  isolane calibrate rathore2013 --output fitted.yaml   the costs behind published figures
"""


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="RUN|PAPER", help="A live run's folder, or rathore2013 or ahn."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the profile goes.")
    ],
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME|FILE", help="Profile to start from."),
    ] = None,
    trials: Annotated[
        str | None,
        typer.Option("--trials", metavar="N,N,...", help="These trials of the run only."),
    ] = None,
    hold_out: Annotated[
        str | None,
        typer.Option(
            "--hold-out",
            metavar="PART",
            help="Leave a part of the paper's figures out, and predict it: 'figures 7 and 8', "
            "'tables 1 and 2', 'every other load of tables 1 and 2'.",
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds",
            min=1,
            max=1000,
            help="How often, at most, to improve all costs together, then single ones.",
        ),
    ] = 12,
    starts: Annotated[
        int, typer.Option("--starts", min=0, help="Points to look at before, within the limits.")
    ] = 0,
    scale: Annotated[
        float,
        typer.Option("--scale", min=0.01, max=100, help="Simulated time, times the trials' own."),
    ] = 1.0,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the simulations.")
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; default: one per core.")
    ] = None,
) -> None:
    """Fit a host profile to a run or to published figures.

    Changes the costs that the profile lists under `fitted`, within the limits given there, by
    least squares over simulations. The same seed gives the same profile. Needs no root. Ctrl-C
    keeps the best so far. With --trials, all other trials of the run are then predicted, at the
    loads that were really sent, and the errors shown and written into the profile; with --hold-out,
    the figures of the paper that were left out.
    """
    from isolane.reproduce.model import Options

    options = Options(seed=seed, profile=profile, scale=scale)
    left_out = (_numbers(trials), hold_out)
    raise typer.Exit(_fit(source, output, left_out, options, (rounds, starts, jobs)))


def _fit(
    source: str,
    output: Path,
    left_out: tuple[tuple[int, ...] | None, str | None],
    options: Options,
    effort: tuple[int, int, int | None],
) -> int:
    """Fit, predict what was left out, write the profile; return the exit status."""
    from isolane.calibrate.check import predict
    from isolane.calibrate.fit import Fitter
    from isolane.calibrate.holdout import held_out
    from isolane.calibrate.live import run_problem
    from isolane.calibrate.noise import hint
    from isolane.calibrate.papers import FITTED_TO, paper_problem
    from isolane.calibrate.write import profile_text
    from isolane.cli import signals
    from isolane.errors import SpecError
    from isolane.files import check_output, write_output
    from isolane.reproduce.workers import Pool

    check_output(output)
    of_paper = source in FITTED_TO
    noise = None if of_paper or left_out[1] is not None else hint(Path(source))
    if noise:
        typer.echo(f"isolane: {noise}", err=True)
    (numbers, part), (rounds, starts, jobs) = left_out, effort
    if numbers is not None and (of_paper or part is not None):
        raise SpecError(
            "--trials: picks trials of a run; leave out a part of a paper's figures with --hold-out"
        )
    error, check = "", None
    with progress("rounds at most ({label})") as shown, Pool(jobs) as pool:
        tell = _round(shown)
        if part is not None:
            held = held_out(source, part, options, pool, (starts, rounds), tell)
            problem, fit, error = held.problem, held.fit, held.sentence
        else:
            problem = (
                paper_problem(source, options)
                if of_paper
                else run_problem(Path(source), options, numbers)
            )
            if not problem.free:
                raise SpecError(
                    f"profile {problem.profile.name}: nothing under `fitted` takes part in "
                    f"{problem.what}"
                )
            fit = Fitter(problem, pool, starts=starts, seed=options.seed, tell=tell).run(rounds)
            if numbers is not None and not of_paper and fit.complete:
                check = predict(Path(source), numbers, fit.values, options, pool)
                error = check.sentence if check else ""
    start = options.profile or problem.profile.name
    try:  # what cannot be written to one place is not lost for the other
        write_output(output, profile_text(problem, start, fit, _name(output), error).encode())
    finally:
        _print(problem, fit)
    if check:
        _print_check(check)
    typer.echo(f"{error}\n" if error else "", nl=False)
    typer.echo(f"profile: {output}")
    if fit.complete and not pool.interrupted:
        return 0
    what = "the prediction is not complete" if fit.complete else "the profile is the best so far"
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
        message = f"--trials {text[:40]}: accepted are numbers of trials, such as 0,3,7"
        raise typer.BadParameter(message)
    return tuple(int(word) for word in words)


def _name(output: Path) -> str:
    """Make a profile's name of its file's: what is no letter or digit becomes a hyphen."""
    letters = "".join(c if c.isascii() and c.isalnum() else "-" for c in output.stem.lower())
    return letters.strip("-")[:64].strip("-") or "profile"


def _round(tell: Tell) -> Round:
    """Return what a fit tells of its rounds; it may end before the last."""

    def told(done: int, rounds: int, where: str, mean: float, largest: float) -> None:
        tell(done, rounds, f"{where}: mean error {100 * mean:.2f} %, largest {100 * largest:.1f} %")

    return told


def _print(problem: Problem, fit: Fit) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("arm", "trial", "figure", "given", "error"):
        table.add_column(name, justify="right" if name in {"given", "error"} else "left")
    for target, error in zip(problem.targets, fit.errors, strict=True):
        f = target.figure
        about = f"{f.metric} of {f.router}"
        table.add_row(f.arm, f"{f.point}", about, f"{target.value:.4g}", f"{100 * error:+.1f} %")
    console.print(table)
    for key, value in fit.values.items():
        before = problem.profile.figure(key)
        console.print(f"{key}: {value:g} ns (was {before:g})", markup=False)
    console.print(
        f"mean absolute error {100 * fit.mean:.2f} % (was "
        f"{100 * sum(map(abs, fit.start_errors)) / len(fit.start_errors):.2f}), largest "
        f"{100 * fit.largest:.1f} %, after {fit.simulations} simulations",
        markup=False,
    )


def _print_check(check: Check) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    table = Table(title="Predicted, not fitted: throughput, pps", title_justify="left", box=None)
    for name in ("arm", "load", "router", "live", "least", "greatest", "simulated", "error"):
        left = name in {"arm", "load", "router"}
        table.add_column(name, justify="left" if left else "right")
    for p in check.predictions:
        rates = (p.live_pps, p.low_pps, p.high_pps, p.simulated_pps)
        cells = [f"{rate:,.0f}" for rate in rates]
        table.add_row(p.arm, p.point, p.router, *cells, f"{100 * p.error:+.1f} %")
    console.print()
    console.print(table)
