"""``isolane set``: changes keys of one router in the policy in force, or of a network back-end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from isolane.cli.enforcing import complete_router

if TYPE_CHECKING:
    from isolane.netback import Target

EPILOG = """Examples:

\b
  sudo isolane set gold cpu_weight=300
  sudo isolane set gold rate_min=200Mbps rate_max=1Gbps
  sudo isolane set bronze 'rate_max={ingress: 100kpps, egress: 300Mbps}'
  sudo isolane set bronze rate_max=none        no value: back to the default

\b
Keys: cpu_weight cpu_max cores rate_min rate_max priority link_weight burst forward queue
Values have the form that they have in the policy file.

\b
Of a port or an uplink of a running `isolane netback`:
  sudo isolane set vm1 weight=3                a port, if no policy has a router vm1
  sudo isolane set edge/vm1 priority=0         that of network back-end edge
  sudo isolane set edge/eth1 scheduler=wfq rate=100Mbps

\b
Keys of a port: weight priority rate_min rate_max, as its scheduler looks at them
Keys of an uplink: scheduler back_pressure rate burst
"""


def command(
    router: Annotated[
        str,
        typer.Argument(
            metavar="ROUTER",
            help="A router in the policy in force, or a port or uplink as BACK-END/NAME.",
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
    command leaves the file as it is, and the next `isolane apply` of the file undoes the change
    (of a network back-end: its next start).
    Values are checked like those of the file; a wrong one (an unknown key, guarantees above the
    link's rate) changes nothing. Needs root.
    """
    from isolane.cli.enforcing import enforcer, need_rights, print_outcome

    wanted = _pairs(changes)
    need_rights()
    if (target := _of_back_end(router)) is not None:
        _set_there(target, wanted, as_json=as_json)
        return
    outcome = enforcer().set_keys(router, wanted)
    print_outcome(None, outcome, as_json=as_json, verbose=verbose)


def _of_back_end(name: str) -> Target | None:
    """Return the port or uplink that is meant; None: a router of the policy in force."""
    if name in complete_router(name):
        return None
    from isolane.netback import find

    return find(name)


def _set_there(target: Target, changes: dict[str, str], *, as_json: bool) -> None:
    from isolane.cli.enforcing import print_json
    from isolane.netback import Step, set_keys

    (changed,) = set_keys(target.back_end, [Step(target.name, changes)])
    if as_json:
        told: dict[str, Any] = {key: {"before": b, "now": n} for key, (b, n) in changed.items()}
        print_json({"back_end": target.back_end, "name": target.name, "changes": told})
        return
    for key, (before, now) in changed.items():
        typer.echo(f"{target.back_end}/{target.name}: {key} {_word(before)} -> {_word(now)}")
    if not changed:
        typer.echo(f"{target.back_end}/{target.name}: nothing changed")


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


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
