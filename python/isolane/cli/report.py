"""``isolane report``: renders a run folder again."""

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
  isolane report runs/demo --format csv --output -   every arm, point and router
"""


class Format(StrEnum):
    """What a report can be."""

    HTML = "html"
    SVG = "svg"
    PNG = "png"
    PDF = "pdf"
    MD = "md"
    CSV = "csv"


def command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, as `isolane run` wrote it.")
    ],
    form: Annotated[Format, typer.Option("--format", "-f", help="What to write.")] = Format.HTML,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write there; - is stdout. Default: report.FORMAT in the run folder.",
        ),
    ] = None,
) -> None:
    """Render the report of a run again.

    As a page, a picture, a document, or as data. Prints the path of what it wrote. Needs neither
    root nor the host that the run was made on. An interrupted run gives a report of what was
    measured until then.
    """
    from isolane.report import render

    if output is None or str(output) != "-":
        typer.echo(render(run, form.value, output))
        return
    with tempfile.TemporaryDirectory(prefix="isolane-report-") as folder:
        written = render(run, form.value, Path(folder) / f"report.{form.value}")
        sys.stdout.buffer.write(written.read_bytes())
        sys.stdout.buffer.flush()
