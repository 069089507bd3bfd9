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
    the like is there anything to do here. Refuses while a run is under way.
    """
    from isolane.cli.rights import need_root
    from isolane.run.live.managed import clear_leftovers
    from isolane.testbed import clean, exclusive

    need_root("cleaning up needs root")
    with exclusive():
        removed = clean()
        if clear_leftovers():
            removed.append("control groups of a test bed's policy")
    for thing in removed:
        typer.echo(f"removed {thing}")
    if not removed:
        typer.echo("nothing was left behind", err=True)
