"""``isolane schema``: the JSON Schema of experiment and policy files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from isolane.cli.output import write_text

EPILOG = """Examples:

\b
  isolane schema > experiment.schema.json
  isolane schema policy > policy.schema.json

An editor with a YAML language server completes and checks an experiment that starts with:

\b
  # yaml-language-server: $schema=experiment.schema.json
"""


class Files(StrEnum):
    """What a schema is for."""

    EXPERIMENT = "experiment"
    POLICY = "policy"


def command(
    files: Annotated[
        Files, typer.Argument(metavar="[experiment|policy]", help="Which files.")
    ] = Files.EXPERIMENT,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there instead of to stdout."),
    ] = None,
) -> None:
    """Print the JSON Schema of experiment or policy files. Editors complete and check with it."""
    from isolane.spec import policy_schema_text, schema_text

    text = policy_schema_text() if files is Files.POLICY else schema_text()
    write_text(text, output)
