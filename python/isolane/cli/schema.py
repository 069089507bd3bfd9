"""``isolane schema``: the JSON Schemas of the files that users write."""

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
  isolane schema netback > netback.schema.json

Then begin the experiment file with this line:

\b
  # yaml-language-server: $schema=experiment.schema.json
"""


class Files(StrEnum):
    """Kinds of files that have a schema."""

    EXPERIMENT = "experiment"
    POLICY = "policy"
    NETBACK = "netback"


def command(
    files: Annotated[
        Files,
        typer.Argument(
            metavar="[experiment|policy|netback]", help="Kind of file that the schema is for."
        ),
    ] = Files.EXPERIMENT,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file instead of stdout."
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of the files that you write.

    Use it to see all keys of these files, or to let an editor with a YAML language server complete
    and check them.
    """
    from isolane.spec import netback_schema_text, policy_schema_text, schema_text

    texts = {
        Files.EXPERIMENT: schema_text,
        Files.POLICY: policy_schema_text,
        Files.NETBACK: netback_schema_text,
    }
    write_text(texts[files](), output)
