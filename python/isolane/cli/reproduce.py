"""``isolane reproduce``: simulates published experiments and compares the figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.progress import progress
from isolane.cli.run_options import HtmlReport

if TYPE_CHECKING:
    from isolane.reproduce.model import Claim, Reproduction
    from isolane.reproduce.workers import Progress

EPILOG = """Examples:

\b
  isolane reproduce rathore2013                        all figures of the paper
  isolane reproduce rathore2013 --details              each value, published and simulated
  isolane reproduce rathore2013 --figure 7 --output figure7.html
  isolane reproduce ahn --json | jq '.rows[].relative_error'
  isolane reproduce adamczyk2012 --live RUN            beside a run with real frames
"""


def command(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER", help="The paper: rathore2013, ahn, adamczyk2012 or oliveira2024."
        ),
    ],
    figure: Annotated[
        str | None,
        typer.Option("--figure", metavar="N", help="Only this figure or table; default: all."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print rows, claims and plots as JSON instead of tables.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Print each figure, and the evidence of each claim.")
    ] = False,
    output: HtmlReport = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME|FILE", help="Use this host profile instead of the paper's."
        ),
    ] = None,
    live: Annotated[
        list[Path] | None,
        typer.Option(
            "--live",
            metavar="RUN",
            help="Show a run of one of the paper's experiments beside it; can be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the simulations.")
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Parallel processes; default: one per core.")
    ] = None,
) -> None:
    """Reproduce a published experiment on a simulated host.

    Use it to see how close Isolane's simulator comes to published measurements. The command
    simulates the paper's experiments, compares each published figure with the simulated one, and
    tells which claims of the paper the simulation does not reproduce. Ctrl-C keeps the figures
    that are finished. Needs no root.
    """
    from isolane.errors import SpecError
    from isolane.files import check_output
    from isolane.reproduce.model import Options
    from isolane.reproduce.registry import chosen
    from isolane.reproduce.registry import paper as find
    from isolane.reproduce.workers import Pool

    it = find(paper)
    figures = chosen(it, figure)
    if live and not it.live:
        raise SpecError(f"--live: runs cannot stand beside {paper}; accepted: adamczyk2012")
    if output is not None:
        check_output(output)
    with _progress() as watch, Pool(jobs, watch) as pool:
        found = it.reproduce(figures, Options(seed, profile, runs=tuple(live or ())), pool)
    try:  # a report that cannot be written does not keep the tables from being printed
        if output is not None:
            _write(found, output)
    finally:
        _print(found, json=json, details=details)
    if not found.complete:
        _end_early()


def _end_early() -> None:
    from isolane.cli import signals

    typer.echo(
        f"isolane: {signals.word()}; the tables show what was simulated until then; another start "
        "begins anew",
        err=True,
    )
    raise typer.Exit(signals.status())


def _write(found: Reproduction, output: Path) -> None:
    from isolane.files import write_output
    from isolane.report.reproduction import page

    write_output(output, page(found).encode())
    typer.echo(f"report: {output}", err=True)


def _print(found: Reproduction, *, json: bool, details: bool) -> None:
    from isolane.cli.reproduction_answer import print_reproduction_answer

    if json:
        typer.echo(found.model_dump_json(indent=2))
    elif details:
        print_reproduction(found)
    else:
        print_reproduction_answer(found)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    with progress("simulations of {label}", by_part=True) as tell:
        yield lambda step: tell(step.done, step.total, step.label)


def print_reproduction(found: Reproduction) -> None:
    """Print every figure, then the claims, to stdout."""
    from rich.console import Console
    from rich.table import Table

    from isolane.report.words import cells, headings, sentence

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a file has no width: print whole cells
    console.print(f"{found.title}\n{found.source}\nhost profile: {found.profile}", markup=False)
    live = found.live is not None
    for figure in dict.fromkeys(row.figure for row in found.rows):
        console.print(f"\n{figure}", style="bold", markup=False)
        table = Table(header_style="bold", pad_edge=False, box=None)
        for name in headings(live=live):
            figures = ("published", "simulated", "live", "error")
            table.add_column(name, justify="right" if name in figures else "left")
        for row in found.rows:
            if row.figure == figure:
                table.add_row(*cells(row, live=live))
        console.print(table, markup=False)
    console.print()
    for claim in found.claims:
        console.print(_claimed("", claim), markup=False)
    if found.live is not None:
        for claim in found.live.claims:
            console.print(_claimed("live, ", claim), markup=False)
        console.print(f"live: {found.live.where}: {', '.join(found.live.runs)}", markup=False)
    for note in found.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"\n{sentence(found)}", style="bold", markup=False)


def _claimed(where: str, claim: Claim) -> str:
    word = "reproduced" if claim.reproduced else "not reproduced"
    return f"{where}{word}: {claim.text} ({claim.figure}): {claim.evidence}"
