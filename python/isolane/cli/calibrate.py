"""``isolane calibrate``: fits the costs of a host profile."""

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
) -> None:
    """Fit a host profile to a live run or to published figures.

    Use it before `isolane run --on sim`, so that the simulated host has the costs of yours. The
    fit changes the costs that the profile lists under `fitted`, within the limits given there,
    until the simulated figures match the measured ones (least squares). Ctrl-C keeps the best fit
    so far. The same seed gives the same profile. Needs no root.

    With --trials the command also predicts the run's other trials, at the loads that were really
    sent; with --hold-out the figures of the paper that were left out. It prints the errors of
    these predictions and writes them into the profile.
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
            "--trials: picks trials of a run, and this is a paper; use --hold-out to leave a part "
            "of its figures out"
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
                    f"profile {problem.profile.name}: none of the costs under `fitted` affects "
                    f"{problem.what}; list costs that do, or start from another --profile"
                )
            fit = Fitter(problem, pool, starts=starts, seed=options.seed, tell=tell).run(rounds)
            if numbers is not None and not of_paper and fit.complete:
                check = predict(Path(source), numbers, fit.values, options, pool)
                error = check.sentence if check else ""
    start = options.profile or problem.profile.name
    try:  # a file that cannot be written does not keep the table from being printed
        write_output(output, profile_text(problem, start, fit, _name(output), error).encode())
    finally:
        _print(problem, fit)
    if check:
        _print_check(check)
    typer.echo(f"{error}\n" if error else "", nl=False)
    typer.echo(f"profile: {output}")
    if fit.complete and not pool.interrupted:
        return 0
    what = "the prediction is incomplete" if fit.complete else "the profile is the best fit so far"
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


def _print(problem: Problem, fit: Fit) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 150
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("arm", "trial", "metric", "target", "error"):
        table.add_column(name, justify="right" if name in {"target", "error"} else "left")
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
    table = Table(
        title="Throughput of the trials outside the fit, pps", title_justify="left", box=None
    )
    for name in ("arm", "load", "router", "live", "min", "max", "simulated", "error"):
        left = name in {"arm", "load", "router"}
        table.add_column(name, justify="left" if left else "right")
    for p in check.predictions:
        rates = (p.live_pps, p.low_pps, p.high_pps, p.simulated_pps)
        cells = [f"{rate:,.0f}" for rate in rates]
        table.add_row(p.arm, p.point, p.router, *cells, f"{100 * p.error:+.1f} %")
    console.print()
    console.print(table)
