"""``isolane schema``: the JSON Schema of experiment files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EPILOG = """Examples:

\b
  isolane schema > experiment.schema.json

An editor with a YAML language server completes and checks an experiment that starts with:

\b
  # yaml-language-server: $schema=experiment.schema.json
"""


def command(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there instead of to stdout."),
    ] = None,
) -> None:
    """Print the JSON Schema of experiment files. Editors complete and check with it."""
    from isolane.errors import IsolaneError
    from isolane.spec import schema_text

    text = schema_text()
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise IsolaneError(f"cannot write {output}: {error.strerror}") from error
