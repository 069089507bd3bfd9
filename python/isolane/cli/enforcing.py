"""What the commands on policies share: whose policy, who may, how it is told."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from isolane.enforce import Enforcer, MissingRouter, Outcome

POLICY_VARIABLE: Final = "ISOLANE_POLICY"
"""Environment variable that names another policy than the host's one, with a state and control
groups of its own: for hosts whose NICs lie in several network namespaces, and for tests."""
_RUN: Final = Path("/run/isolane")
_RIGHTS: Final = (
    "CAP_DAC_OVERRIDE", "CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_SYS_NICE"
)  # fmt: skip
"""Files of control groups and interfaces; interfaces and BPF; namespaces of processes; entering
them; threads' cores and priorities."""
_FEW: Final = 20
"""So many changes are listed without being asked for."""


def enforcer() -> Enforcer:
    """Return what works on the policy of this command line.

    Raises
    ------
    SpecError
        If the environment names a policy that cannot be named so.
    """
    from isolane.enforce import Enforcer
    from isolane.errors import SpecError

    name = os.environ.get(POLICY_VARIABLE, "")
    if not name:
        return Enforcer()
    if not re.fullmatch(r"[a-z0-9-]{1,24}", name):
        raise SpecError(f"{POLICY_VARIABLE}={name!r}: accepted: 1 to 24 of a-z, 0-9 and -")
    return Enforcer(directory=_directory(), group=f"isolane-{name}")


def _directory() -> Path:
    name = os.environ.get(POLICY_VARIABLE, "")
    return _RUN / (f"policy-{name}" if name else "policy")


def need_rights() -> None:
    """Refuse to go on without root or the capabilities that stand for it here.

    Raises
    ------
    NotSupported
        Naming what is lacking.
    """
    from isolane.cli.rights import in_user_namespace, lacking
    from isolane.errors import NotSupported

    missing = lacking(*_RIGHTS)
    if missing:
        raise NotSupported(
            "not supported on this host: policies need root, or the capabilities "
            f"{', '.join(_RIGHTS)}; lacking: {', '.join(missing)}; run it with sudo"
        )
    if in_user_namespace():
        raise NotSupported(
            "not supported on this host: policies need root, and this is the root of a user "
            "namespace only; run it outside, with sudo"
        )


def complete_router(incomplete: str) -> list[str]:
    """Return the routers of the policy in force whose names begin so, for the shell."""
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
    """Return routers that wait, as JSON has them."""
    return [{"router": router.name, "reason": router.reason} for router in waiting]


def print_outcome(policy: str | None, outcome: Outcome, *, as_json: bool, verbose: bool) -> None:
    """Print what a command has changed, and what waits."""
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
        typer.echo(f"isolane: {note}", err=True)
    changed = len(outcome.changes)
    typer.echo(f"{_settings(changed)} changed, {outcome.unchanged} left as they were")
    shown = outcome.changes if verbose or changed <= _FEW else ()
    for change in shown:
        typer.echo(f"  {change}")
    for router in outcome.waiting:
        typer.echo(f"{router.name} waits: {router.reason}")


def _settings(count: int) -> str:
    return "1 setting" if count == 1 else f"{count} settings"


def print_json(data: Any, *, indent: int | None = 2) -> None:
    """Print data on stdout, at once."""
    import json

    typer.echo(json.dumps(data, indent=indent))
    sys.stdout.flush()
