"""``isolane clean``: removes what a killed run left on the host."""

from __future__ import annotations

import typer

EPILOG = """Example:

\b
  sudo isolane clean

Every `isolane run` and `isolane verify` does the same before it starts. Use this command when you
want a clean host without another run.
"""


def command() -> None:
    """Remove what a killed run left behind.

    That is network namespaces, links and BPF programs. The command is needed only
    after a kill -9 or a crash: after Ctrl-C, SIGTERM and errors a run cleans up by itself. The
    command removes only what Isolane's journal names and what carries Isolane's mark. It waits
    until everything is gone, names what it cannot remove, and refuses to start while a
    run is under way. Needs root.
    """
    from isolane.cli.rights import need_root
    from isolane.errors import TestbedError
    from isolane.testbed import clean, exclusive
    from isolane.trials.live.testbed_policy import clear_leftovers

    need_root("cleaning up needs root")
    removed: list[str] = []
    problems: list[str] = []
    with exclusive():
        for remove in (clean, clear_leftovers):
            try:
                removed += remove()
            except TestbedError as error:  # the other one still has its turn
                problems.append(str(error))
    for thing in removed:
        typer.echo(f"removed {thing}")
    if problems:
        raise TestbedError("; ".join(problems))
    if not removed:
        typer.echo("nothing to remove: no run left anything behind", err=True)
