"""``isolane doctor``: what this host can do."""

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
  sudo isolane doctor
  sudo isolane doctor --json | jq '.findings[] | select(.status != "yes")'
  sudo isolane doctor --require measure && sudo isolane run EXPERIMENT.yaml
"""


def command(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON on stdout.")
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB",
            help="Exit 3 when this host lacks what a job needs: measure, enforce or vm. "
            "May be given more than once.",
        ),
    ] = None,
) -> None:
    """Say what this host can do. Line by line, with what each lack rules out and how to get it.

    Everything that can be tried is tried: links and queueing disciplines are made in network
    namespaces of their own, frames are sent through a BPF program, a guest is started. Nothing is
    attached to real NICs, nothing is left behind, and it takes some seconds.

    A lack is no failure: the exit status is 0, unless --require is given.
    """
    from isolane.doctor import examine, lacking

    jobs = require or []
    for job in jobs:
        lacking(job, ())  # refuses an unknown job before the examination
    findings = examine()
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print_table(findings)
    lacks = [(job, finding) for job in jobs for finding in lacking(job, findings)]
    for job, finding in lacks:
        print(f"isolane: {job} needs {finding.lack()}", file=sys.stderr)
    if lacks:
        raise typer.Exit(3)


def _print_table(findings: Sequence[Finding]) -> None:
    from rich.console import Console

    from isolane.doctor.findings_table import render

    render(findings, Console(highlight=False))
