"""``isolane apply``: puts a policy in force."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EPILOG = """Examples:

\b
  sudo isolane apply POLICY.yaml               put it in force; repeat after changing the file
  sudo isolane apply POLICY.yaml --dry-run     check file and host, change nothing
  sudo isolane apply POLICY.yaml --verbose     list every changed setting
  sudo isolane apply POLICY.yaml --json | jq '.waiting'

\b
A policy for two routers that share eth1:
  isolane: 1
  name: edge
  nics: {eth1: {rate: 10Gbps}}
  routers:
    gold: {docker: frr-gold, cpu_weight: 200, rate_min: 2Gbps}
    bronze: {netns: bronze, rate_max: 1Gbps}

Next: isolane status, isolane top, isolane set gold cpu_weight=300, isolane clear.
"""


def command(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="The policy file.")],
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Use cgroups with Isolane's names although somebody else made them."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check file and host, change nothing.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every changed setting.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Give running routers their shares of CPU and link.

    Puts a policy in force. Use it when several virtual routers share this host's cores and NICs
    and one must not starve the others. The command changes only the settings that differ from the
    policy, so a second apply changes nothing. When a step fails, it undoes the steps before. A
    router that does not run waits: apply again once it runs, or let `isolane watch` do so. What
    others put on the host (an XDP program, a qdisc, a cgroup) is reported and stays untouched.

    The kernel keeps the policy until `isolane clear` or a reboot; one small process, the
    pacemaker, stays to keep waits short. Needs root.
    """
    from isolane.cli.enforcing import enforcer, need_rights, print_outcome
    from isolane.spec import load_policy

    wanted = load_policy(policy)
    need_rights()
    if dry_run:
        _examine(policy, as_json=as_json)
        return
    outcome = enforcer().apply(wanted, adopt=adopt)
    if not as_json:
        typer.echo(f"policy {wanted.name} is in force")
    print_outcome(wanted.name, outcome, as_json=as_json, verbose=verbose)


def _examine(file: Path, *, as_json: bool) -> None:
    from isolane.cli.enforcing import enforcer, print_json, waiting_as_data
    from isolane.cli.printable import printable
    from isolane.enforce import MissingRouter
    from isolane.spec import load_policy

    policy = load_policy(file)
    found = enforcer().examine(policy)
    waiting = tuple(router for router in found if isinstance(router, MissingRouter))
    if as_json:
        running = [router.name for router in found if not isinstance(router, MissingRouter)]
        data = {"policy": policy.name, "running": running, "waiting": waiting_as_data(waiting)}
        print_json(data)
        return
    for router in waiting:
        typer.echo(printable(f"{router.name} would wait: {router.reason}"))
    typer.echo(
        f"{file}: the policy is valid and fits this host; dry run: nothing was changed", err=True
    )
