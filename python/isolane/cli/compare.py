"""``isolane compare``: tells what changed from one run to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isolane.cli.run_options import HtmlReport
from isolane.cli.shares import read_share

EPILOG = """Examples:

\b
  isolane compare runs/before runs/after                  what got better, what got worse
  isolane compare runs/before runs/after --tolerance 5%   exit status 4 only beyond 5 %
  isolane compare runs/before runs/after --output changes.html
  isolane compare runs/before runs/after --json | jq '.differences[]'

\b
Exit status: 0 nothing is shown to be worse by more than the tolerance; 4 something is.
"""


def command(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Folder of the first run.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Folder of the second run.")],
    tolerance: Annotated[
        str,
        typer.Option(
            "--tolerance", metavar="SHARE", help="By how much a figure may get worse, such as 5%."
        ),
    ] = "1%",
    details: Annotated[
        bool, typer.Option("--details", help="Show all figures, and how sure each is.")
    ] = False,
    output: HtmlReport = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Tell what changed from one run to another.

    Use it after a change of a kernel, a driver, a policy or the experiment: measure before and
    after with `isolane run`, then compare. Throughput, loss, delay and CPU time of each router at
    each load are compared by a test that assumes nothing of their distribution, corrected for the
    number of figures. Each is better, worse, or no difference is shown; more repeats may then show
    one. It needs no root, and works on any host.
    """
    from isolane.cli.comparison_table import print_comparison
    from isolane.compare import compare
    from isolane.compare.comparison_words import beyond
    from isolane.errors import TargetMissed
    from isolane.files import check_output, write_output

    if output is not None:
        check_output(output)
    found = compare(before, after, read_share("--tolerance", tolerance))
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_comparison(found, details=details, below=output is not None)
    if output is not None:
        from isolane.report.comparison import page

        write_output(output, page(found).encode())
        typer.echo(f"report: {output}", err=True)
    if found.worse:
        raise TargetMissed(f"{beyond(found)} (--tolerance)")
