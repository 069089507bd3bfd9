"""``isolane status``: shows the policy in force, and whether the kernel still has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isolane.cli.printable import printable

if TYPE_CHECKING:
    from isolane.enforce import Drift, InForce

EPILOG = """Examples:

\b
  sudo isolane status
  sudo isolane status --json | jq '.drift'
  sudo isolane status >/dev/null || sudo isolane apply POLICY.yaml    repairs a drift

\b
Exit status: 0 every setting is as applied; 1 somebody else changed a setting (a drift).
"""


def command(
    details: Annotated[
        bool, typer.Option("--details", help="Print what the policy says beside what is in force.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
) -> None:
    """Show the policy in force, and whether the kernel has it.

    For each router the table shows what is in force, or why the router waits. The command reads
    every setting back from the kernel and changes none. A setting that somebody else has changed
    or removed since `isolane apply` is listed as a drift; the next apply repairs it. Needs root.
    """
    from isolane.cli.enforcing import enforcer, need_rights, print_json

    need_rights()
    status = enforcer().status()
    if as_json:
        print_json(_as_data(status))
    else:
        _print(status, details=details)
    if status.drift:
        raise typer.Exit(1)


def _as_data(status: InForce) -> dict[str, Any]:
    return {
        "policy": status.policy.name if status.policy else None,
        "applied_at": status.applied_at,
        "settings": status.settings,
        "routers": [asdict(router) for router in status.routers],
        "drift": [_drift_as_data(drift) for drift in status.drift],
        "notes": list(status.notes),
    }


def _drift_as_data(drift: Drift) -> dict[str, Any]:
    """Return a drift by its keys in ``status --json``, which never change."""
    fields = asdict(drift)
    return {"piece": fields.pop("setting"), **fields}


def _print(status: InForce, *, details: bool) -> None:
    from rich.console import Console

    from isolane.enforce.setting import shown

    if status.policy is None:
        typer.echo("no policy is in force; put one in force with: isolane apply POLICY.yaml")
        return
    for line in headline(status):
        typer.echo(line)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160  # a file has no width: print whole cells
    console.print(_table(status, details=details))
    for note in status.notes:
        typer.echo(printable(f"note: {note}"))
    for drift in status.drift:
        whose = f"{drift.router}: " if drift.router not in drift.setting else ""
        found = "nothing" if drift.found is None else shown(drift.found)
        said = f"drift: {whose}{drift.setting}: applied {shown(drift.wanted)}, found {found}"
        typer.echo(printable(said))


def headline(status: InForce) -> list[str]:
    """Say first whether all is as it was applied, then which policy that is."""
    from isolane.analysis.wording import plural

    running = sum(router.present for router in status.routers)
    all_run = f"{running} of {len(status.routers)} routers run"
    if status.drift:
        changed = plural(len(status.drift), "setting")
        first = f"{changed} of {status.settings} changed since, see below; isolane apply repairs it"
    else:
        first = f"all {status.settings} settings are as applied"
    name = status.policy.name if status.policy else ""
    return [f"policy {name}: {all_run}, {first}", f"applied {status.applied_at}"]


def _table(status: InForce, *, details: bool) -> Any:
    from rich.table import Table

    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("router", "state", "frames by"):
        table.add_column(name, no_wrap=True)
    if details:
        table.add_column("policy")
    table.add_column("in force")
    for router in status.routers:
        words = _words(router.in_force) if router.present else printable(router.reason or "")
        state = "runs" if router.present else "waits"
        said = [_words(router.entitlement)] if details else []
        table.add_row(router.name, state, router.steer, *said, words)
    return table


def _words(values: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(values.items()))
