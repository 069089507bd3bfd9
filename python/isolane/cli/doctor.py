"""``isolane doctor``: tells what this host can do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isolane.doctor import Finding

EPILOG = """Examples:

\b
  sudo isolane doctor                  as root, so that everything can be tried
  sudo isolane doctor --json | jq '.findings[] | select(.status != "yes")'
  sudo isolane doctor --require measure && sudo isolane run EXPERIMENT.yaml
"""


def command(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON on stdout.")
    ] = False,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Print each capability, what a missing one rules out, and its remedy.",
        ),
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB",
            help="Exit with status 3 when this host lacks what a job needs: measure, enforce or "
            "vm; repeat for several.",
        ),
    ] = None,
) -> None:
    """Tell what this host can do, and how to get what is missing.

    Use it first on a new host, and when a command says `not supported on this host`. It begins with
    what works. With --details the table says for each missing feature what it rules out and how to
    get it.

    The command really tries what it can: it creates links and qdiscs in network namespaces of its
    own, sends frames through a BPF program and starts a small virtual machine. It attaches nothing
    to real NICs and leaves nothing behind. It takes some seconds.

    A missing feature is no failure: the exit status is 0, unless --require is given.
    """
    from isolane.doctor import examine, lacking

    jobs = require or []
    for job in jobs:
        lacking(job, ())  # refuses an unknown job before it examines the host
    findings = examine()
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print(findings, details=details)
    lacks = [(job, finding) for job in jobs for finding in lacking(job, findings)]
    for job, finding in lacks:
        print(f"isolane: {job} needs {finding.lack()}", file=sys.stderr)
    if lacks:
        raise typer.Exit(3)


def _print(findings: Sequence[Finding], *, details: bool) -> None:
    from rich.console import Console

    from isolane.doctor.findings_table import render
    from isolane.doctor.short_answer import render_answer

    (render if details else render_answer)(findings, Console(highlight=False))
