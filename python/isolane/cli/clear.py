"""``isolane clear``: ends the policy in force."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """Example:

\b
  sudo isolane clear
"""


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """End the policy in force and restore the host.

    Removes Isolane's BPF programs, qdiscs, classes and cgroups, and restores threads, cores and
    priorities; the routers share the host as without Isolane again. Also rolls back what a killed
    `isolane apply` left. The command names each setting that it cannot restore, and the next
    clear tries again. Needs root.
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
