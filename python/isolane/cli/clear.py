"""``isolane clear``: ends the policy in force."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """Example:

\b
  sudo isolane clear
"""


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print what changed as JSON.")] = False,
) -> None:
    """End the policy in force and put everything back.

    Programs, queueing disciplines, classes, control groups, threads, cores and priorities. Also
    rolls back what a killed `isolane apply` left. What cannot be put back is named, and tried
    again by the next clear. Frames go the usual way from then on. Needs root.
    """
    from isolane.cli.enforcing import enforcer, need_rights, print_json

    need_rights()
    outcome = enforcer().clear()
    if as_json:
        print_json({"changes": list(outcome.changes), "notes": list(outcome.notes)})
        return
    for change in (*outcome.notes, *outcome.changes):
        typer.echo(change)
    if not (outcome.changes or outcome.notes):
        typer.echo("no policy was in force", err=True)
