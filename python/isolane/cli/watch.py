"""``isolane watch``: applies the policy again when a router returns."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """Examples:

\b
  sudo isolane apply edge.yaml
  sudo isolane watch

\b
As a service that starts at boot:
  sudo isolane export systemd --output /etc/systemd/system
  sudo systemctl daemon-reload
  sudo systemctl enable --now isolane.service isolane-watch.service
"""


def command(
    sweep: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Search for routers at least this often."),
    ] = "60s",
) -> None:
    """Apply the policy again when a router returns.

    Use it when containers or virtual machines restart while the policy is in force: a restarted
    router has new interfaces, and without this command it waits until the next `isolane apply`.
    The command runs until Ctrl-C and writes a line to stderr for each change. Traffic does not
    depend on it: when it ends, the policy stays in force. You can apply another policy, or clear
    it, while the command runs. Needs root.
    """
    import sys

    from isolane.cli.enforcing import enforcer, need_rights
    from isolane.cli.printable import printable
    from isolane.enforce.router_watcher import Watcher
    from isolane.spec import parse_duration_within

    seconds = parse_duration_within("--sweep", sweep, "1s", "24h") / 1e9

    def say(line: str) -> None:
        print(printable(line), file=sys.stderr, flush=True)

    need_rights()
    try:
        Watcher(enforcer(), say, sweep_s=seconds).run()
    except KeyboardInterrupt:
        say("stopped watching; the policy stays in force")
        raise
