"""What the policy commands share: which policy they work on, rights, output."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from isolane.cli.printable import printable

if TYPE_CHECKING:
    from isolane.enforce import Enforcer, MissingRouter, Outcome

POLICY_VARIABLE: Final = "ISOLANE_POLICY"
"""Environment variable that names a second policy, with a state and cgroups of its own: for hosts
whose NICs are in several network namespaces, and for tests."""
_RUN: Final = Path("/run/isolane")
_RIGHTS: Final = (
    "CAP_DAC_OVERRIDE", "CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_SYS_NICE"
)  # fmt: skip
"""In this order for: files of cgroups and interfaces; interfaces and BPF; reading the namespaces of
processes; entering them; cores and priorities of threads."""
_FILES: Final = 1 << 16
"""What as many routers as there can be take, with some 7 for each namespace; not without a limit,
since programs that this one starts may close all that they may have open, one by one."""
_FEW: Final = 20
"""Up to this many changes are listed without --verbose."""


def enforcer() -> Enforcer:
    """Return the enforcer for the policy that this command works on.

    Raises
    ------
    SpecError
        If the environment variable holds no valid name.
    """
    from isolane.enforce import Enforcer
    from isolane.errors import SpecError
    from isolane.open_files import allow_open_files

    allow_open_files(_FILES)
    name = os.environ.get(POLICY_VARIABLE, "")
    if not name:
        return Enforcer()
    if not re.fullmatch(r"[a-z0-9-]{1,24}", name):
        raise SpecError(
            f"{POLICY_VARIABLE}={name!r}: not a name; accepted: 1 to 24 of a-z, 0-9 and -"
        )
    return Enforcer(directory=_directory(), group=f"isolane-{name}")


def _directory() -> Path:
    name = os.environ.get(POLICY_VARIABLE, "")
    return _RUN / (f"policy-{name}" if name else "policy")


def need_rights() -> None:
    """Refuse to go on without root or the capabilities that the policy commands need.

    Raises
    ------
    NotSupported
        Names the missing capabilities.
    """
    from isolane.cli.rights import in_user_namespace, lacking
    from isolane.errors import NotSupported

    missing = lacking(*_RIGHTS)
    if missing:
        raise NotSupported(
            "not supported on this host: policies need root, or the capabilities "
            f"{', '.join(_RIGHTS)}; missing: {', '.join(missing)}; run the command with sudo"
        )
    if in_user_namespace():
        raise NotSupported(
            "not supported on this host: policies need root of the host, and this is only the root "
            "of a user namespace; run the command outside of it, with sudo"
        )


def complete_router(incomplete: str) -> list[str]:
    """Return the routers of the policy in force whose names begin so, for shell completion."""
    try:
        text = (_directory() / "policy.yaml").read_text()
    except OSError:
        return []
    from isolane.errors import IsolaneError
    from isolane.spec import parse_policy

    try:
        names = parse_policy(text).routers
    except IsolaneError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def waiting_as_data(waiting: tuple[MissingRouter, ...]) -> list[dict[str, str]]:
    """Return the waiting routers as JSON data."""
    return [{"router": router.name, "reason": router.reason} for router in waiting]


def print_outcome(policy: str | None, outcome: Outcome, *, as_json: bool, verbose: bool) -> None:
    """Print which settings a command changed, and which routers wait."""
    if as_json:
        data = {
            "policy": policy,
            "changes": list(outcome.changes),
            "unchanged": outcome.unchanged,
            "waiting": waiting_as_data(outcome.waiting),
            "notes": list(outcome.notes),
        }
        print_json(data)
        return
    for note in outcome.notes:
        typer.echo(printable(f"isolane: {note}"), err=True)
    changed = len(outcome.changes)
    typer.echo(f"{_settings(changed)} changed, {outcome.unchanged} left as they were")
    shown = outcome.changes if verbose or changed <= _FEW else ()
    for change in shown:
        typer.echo(printable(f"  {change}"))
    for router in outcome.waiting:
        typer.echo(printable(f"{router.name} waits: {router.reason}"))


def _settings(count: int) -> str:
    return "1 setting" if count == 1 else f"{count} settings"


def print_json(data: Any, *, indent: int | None = 2) -> None:
    """Print data on stdout and flush it."""
    import json

    typer.echo(json.dumps(data, indent=indent))
    sys.stdout.flush()
