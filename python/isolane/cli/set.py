"""``isolane set``: changes keys of one router in the policy in force."""

from __future__ import annotations

from typing import Annotated

import typer

from isolane.cli.enforcing import complete_router

EPILOG = """Examples:

\b
  sudo isolane set gold cpu_weight=300
  sudo isolane set gold rate_min=200Mbps rate_max=1Gbps
  sudo isolane set bronze 'rate_max={ingress: 100kpps, egress: 300Mbps}'
  sudo isolane set bronze rate_max=none        no value: back to the default

\b
Keys: cpu_weight cpu_max cores rate_min rate_max priority link_weight burst forward queue
Values have the form that they have in the policy file.
"""


def command(
    router: Annotated[
        str,
        typer.Argument(
            metavar="ROUTER",
            help="Name of a router in the policy in force.",
            autocompletion=complete_router,
        ),
    ],
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE", help="Key and new value; several are changed together."
        ),
    ],
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every changed setting.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Change the shares of one router while it runs.

    No frame is lost. Use it to try other values before you write them into the policy file: the
    command leaves the file as it is, and the next `isolane apply` of the file undoes the change.
    Values are checked like those of the file; a wrong one (an unknown key, guarantees above the
    link's rate) changes nothing. Needs root.
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
            message = f"{text!r} is not of the form KEY=VALUE, such as cpu_weight=300"
            raise typer.BadParameter(message)
        if key in pairs:
            message = f"{key} is given twice; accepted: each key once"
            raise typer.BadParameter(message)
        pairs[key] = value
    return pairs
