"""``isolane watch``: the policy again for a router that returns."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """Examples:

\b
  sudo isolane apply edge.yaml
  sudo isolane watch

\b
As a service, that starts at boot:
  sudo isolane export systemd --output /etc/systemd/system
  sudo systemctl daemon-reload
  sudo systemctl enable --now isolane.service isolane-watch.service
"""


def command(
    sweep: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Search for the routers this often though nothing happened."
        ),
    ] = "60s",
) -> None:
    """Apply the policy again when a router stops, starts or returns. Runs until it is stopped.

    Looks after the policy that is in force; `isolane apply` puts one in force and `isolane clear`
    ends it, while this runs or not. Nothing needs it for traffic to flow: when it ends, everything
    stays in force. What it does is written to stderr, a line each.
    """
    import sys

    from isolane.cli.enforcing import enforcer, need_rights
    from isolane.enforce.router_watcher import Watcher
    from isolane.spec import parse_duration_within

    seconds = parse_duration_within("--sweep", sweep, "1s", "24h") / 1e9

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    need_rights()
    try:
        Watcher(enforcer(), say, sweep_s=seconds).run()
    except KeyboardInterrupt:
        say("no longer watching; whatever is in force stays in force")
        raise
