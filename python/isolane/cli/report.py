"""``isolane report``: writes the report of a run."""

from __future__ import annotations

import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EPILOG = """Examples:

\b
  isolane report runs/demo                           writes runs/demo/report.html
  isolane report runs/demo --format pdf --output noisy-neighbour.pdf
  isolane report runs/demo --format csv --output -   one row per arm, point and router
"""


class Format(StrEnum):
    """Formats of a report."""

    HTML = "html"
    SVG = "svg"
    PNG = "png"
    PDF = "pdf"
    MD = "md"
    CSV = "csv"


def command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder that `isolane run` wrote.")
    ],
    form: Annotated[
        Format, typer.Option("--format", "-f", help="Format of the report.")
    ] = Format.HTML,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write to this file; - is stdout. Default: report.FORMAT in the run folder.",
        ),
    ] = None,
) -> None:
    """Write the report of a run again, also in another format.

    `isolane run` has already written report.html. Use this command for a picture (svg, png), a
    document (pdf, md) or a table of all figures (csv), and after an interrupted run, for a report
    of the trials that were finished. It prints the path of the file. It needs no root, and works
    on any host.
    """
    from isolane.report import render

    if output is None or str(output) != "-":
        typer.echo(render(run, form.value, output))
        return
    with tempfile.TemporaryDirectory(prefix="isolane-report-") as folder:
        written = render(run, form.value, Path(folder) / f"report.{form.value}")
        sys.stdout.buffer.write(written.read_bytes())
        sys.stdout.buffer.flush()
