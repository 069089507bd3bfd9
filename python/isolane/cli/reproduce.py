"""``isolane reproduce``: published experiments on a simulated host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.progress import by_tenths

if TYPE_CHECKING:
    from isolane.reproduce.model import Reproduction
    from isolane.reproduce.workers import Progress

EPILOG = """Examples:

\b
  isolane reproduce rathore2013                        all of its figures
  isolane reproduce rathore2013 --figure 7 --output figure7.html
  isolane reproduce ahn --json | jq '.rows[].relative_error'
"""


def command(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="rathore2013, ahn or adamczyk2012.")
    ],
    figure: Annotated[
        str | None,
        typer.Option("--figure", metavar="N", help="This figure or table only; default: all."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print rows, claims and plots as JSON, not tables.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write an HTML report there."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME|FILE", help="Another host profile."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the simulations.")
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; default: one per core.")
    ] = None,
) -> None:
    """Reproduce a published experiment on a simulated host.

    Puts each published figure beside the simulated one, and says of each claim of the paper
    whether it is reproduced. Needs no root. Ctrl-C keeps what has been simulated.
    """
    from isolane.reproduce.model import Options
    from isolane.reproduce.registry import chosen
    from isolane.reproduce.registry import paper as find
    from isolane.reproduce.workers import Pool
    from isolane.run.folder import check_writable, replace_file

    it = find(paper)
    figures = chosen(it, figure)
    if output is not None:
        check_writable(output)
    with _progress() as watch, Pool(jobs, watch) as pool:
        found = it.reproduce(figures, Options(seed=seed, profile=profile), pool)
    if output is not None:
        from isolane.report.reproduction import page

        replace_file(output, page(found).encode())
    if json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_reproduction(found)
    if output is not None:
        typer.echo(f"report: {output}", err=True)
    if not found.complete:
        raise typer.Exit(130)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Show a bar with the time left on a terminal, a line per tenth elsewhere."""
    if not sys.stderr.isatty():
        tellers: dict[str, Callable[[int, int], None]] = {}

        def tell(progress: Progress) -> None:
            if progress.label not in tellers:
                tellers[progress.label] = by_tenths(f"simulations of {progress.label}")
            tellers[progress.label](progress.done, progress.total)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("starting", total=None)

        def watch(progress: Progress) -> None:
            bars.update(
                bar, total=progress.total, completed=progress.done, description=progress.label
            )

        yield watch


def print_reproduction(found: Reproduction) -> None:
    """Print every figure, then the claims, to stdout."""
    from rich.console import Console
    from rich.table import Table

    from isolane.report.words import HEADINGS, cells, sentence

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a file has no width: nothing is to be cut
    console.print(f"{found.title}\n{found.source}\nhost profile: {found.profile}", markup=False)
    for figure in dict.fromkeys(row.figure for row in found.rows):
        console.print(f"\n{figure}", style="bold", markup=False)
        table = Table(header_style="bold", pad_edge=False, box=None)
        for name in HEADINGS:
            table.add_column(name, justify="right" if name in HEADINGS[3:6] else "left")
        for row in found.rows:
            if row.figure == figure:
                table.add_row(*cells(row))
        console.print(table, markup=False)
    console.print()
    for claim in found.claims:
        word = "reproduced" if claim.reproduced else "not reproduced"
        console.print(f"{word}: {claim.text} ({claim.figure}): {claim.evidence}", markup=False)
    for note in found.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"\n{sentence(found)}", style="bold", markup=False)
