"""Writes text to a file or to standard output."""

from __future__ import annotations

from pathlib import Path

import typer


def write_text(text: str, path: Path | None) -> None:
    """Write text to a file as :mod:`isolane.files` does, or, with None, to standard output.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    from isolane.files import write_output

    if path is None:
        typer.echo(text, nl=False)
    else:
        write_output(path, text.encode())
