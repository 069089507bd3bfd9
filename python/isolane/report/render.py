"""Renders the report of a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from isolane.errors import SpecError
from isolane.files import check_output, write_output
from isolane.report.loaded_run import Run, read_run
from isolane.report.text import cells_csv, markdown


def _html(run: Run) -> bytes:
    from isolane.report.html import page  # noqa: PLC0415 - loads Vega: 2 s that text can do without

    return page(run).encode()


def _paper(kind: str) -> Callable[[Run], bytes]:
    def write(run: Run) -> bytes:
        from isolane.report.paper import convert, sheet  # noqa: PLC0415 - the same

        svg = sheet(run)
        return svg.encode() if kind == "svg" else convert(svg, kind)

    return write


FORMATS: dict[str, Callable[[Run], bytes]] = {
    "html": _html,
    "svg": _paper("svg"),
    "png": _paper("png"),
    "pdf": _paper("pdf"),
    "md": lambda run: markdown(run).encode(),
    "csv": lambda run: cells_csv(run).encode(),
}


def render(run_folder: Path, format: str = "html", output: Path | None = None) -> Path:  # noqa: A002 - the option's name
    """Render a run folder, without root and without a network.

    Parameters
    ----------
    run_folder
        Made by ``isolane run``; a run that was interrupted or killed will do.
    format
        One of `FORMATS`.
    output
        The file to write; by default ``report.<format>`` in the run folder.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    SpecError
        If the format is unknown, or `run_folder` holds no run.
    MeasurementError
        If something in the folder cannot be read.
    OutputError
        If the output cannot be written.
    """
    if format not in FORMATS:
        raise SpecError(f"--format {format}: accepted are {', '.join(FORMATS)}")
    run = read_run(run_folder)
    target = output or run_folder / f"report.{format}"
    check_output(target)
    write_output(target, FORMATS[format](run))
    return target
