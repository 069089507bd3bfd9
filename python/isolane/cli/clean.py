"""``isolane clean``: removes what a killed run left behind."""

from __future__ import annotations

import typer

EPILOG = """Example:

\b
  sudo isolane clean

Every `isolane run` does the same before it starts; this command is for a host that is not going
to run another one.
"""


def command() -> None:
    """Remove what a killed run left behind. Only what Isolane made, never anything else.

    Runs clean up after themselves, also after Ctrl-C, SIGTERM and errors. Only after a kill -9 or
    the like is there anything to do here. Waits until what it removes is gone, and names what it
    cannot remove. Refuses while a run is under way.
    """
    from isolane.cli.rights import need_root
    from isolane.errors import TestbedError
    from isolane.run.live.managed import clear_leftovers
    from isolane.testbed import clean, exclusive

    need_root("cleaning up needs root")
    removed: list[str] = []
    problems: list[str] = []
    with exclusive():
        for remove in (clean, clear_leftovers):
            try:
                removed += remove()
            except TestbedError as error:  # what one cannot remove does not keep the other from it
                problems.append(str(error))
    for thing in removed:
        typer.echo(f"removed {thing}")
    if problems:
        raise TestbedError("; ".join(problems))
    if not removed:
        typer.echo("nothing was left behind", err=True)
