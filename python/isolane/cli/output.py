"""Text that goes to a file or to standard output."""

from __future__ import annotations

from pathlib import Path

import typer


def write_text(text: str, path: Path | None) -> None:
    """Write to a file; None: standard output.

    Raises
    ------
    IsolaneError
        If the file cannot be written.
    """
    from isolane.errors import IsolaneError

    if path is None:
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise IsolaneError(f"cannot write {path}: {error.strerror}") from None
