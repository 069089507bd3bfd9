"""``isolane set``: changes keys of one router of the policy in force."""

from __future__ import annotations

from typing import Annotated

import typer

from isolane.cli.enforcing import complete_router

EPILOG = """Examples:

\b
  sudo isolane set gold cpu_weight=300
  sudo isolane set gold rate_min=200Mbps rate_max=1Gbps
  sudo isolane set bronze 'rate_max={ingress: 100kpps, egress: 300Mbps}'
  sudo isolane set bronze rate_max=none        back to the default

\b
Keys: cpu_weight cpu_max cores rate_min rate_max priority link_weight burst forward queue
Values are written as in the policy file; the file itself stays as it is.
"""


def command(
    router: Annotated[
        str,
        typer.Argument(
            metavar="ROUTER", help="A router of the policy.", autocompletion=complete_router
        ),
    ],
    changes: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE", help="What is to be changed.")
    ],
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every setting that was changed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what changed as JSON.")] = False,
) -> None:
    """Change what a router is entitled to, while it runs.

    Checked like the policy file; a value that does not fit (an unknown key, guarantees above the
    link) changes nothing. Holds until the next `isolane apply`. Needs root.
    """
    from isolane.cli.enforcing import enforcer, need_rights, print_outcome

    wanted = _pairs(changes)
    need_rights()
    outcome = enforcer().set_keys(router, wanted)
    print_outcome(None, outcome, as_json=as_json, verbose=verbose)


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            message = f"{text!r} is not KEY=VALUE, such as cpu_weight=300"
            raise typer.BadParameter(message)
        if key in pairs:
            message = f"{key} is given twice"
            raise typer.BadParameter(message)
        pairs[key] = value
    return pairs
