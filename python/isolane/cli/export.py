"""``isolane export``: counters, a dashboard and units for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.output import write_text

if TYPE_CHECKING:
    from isolane.export import Format

EPILOG = """Examples:

\b
  sudo isolane export prometheus                            prints the counters once
  sudo isolane export prometheus --listen 127.0.0.1:9816    serves them to Prometheus
  sudo isolane export prometheus --every 15s \\
      --textfile /var/lib/prometheus/node-exporter/isolane.prom
  isolane export grafana --output isolane-dashboard.json
  sudo isolane export systemd --output /etc/systemd/system
"""


class What(StrEnum):
    """The program that the output is for."""

    PROMETHEUS = "prometheus"
    GRAFANA = "grafana"
    SYSTEMD = "systemd"


def command(
    what: Annotated[
        What, typer.Argument(metavar="prometheus|grafana|systemd", help="What to export.")
    ],
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS:PORT", help="prometheus: serve /metrics there, on loopback."),
    ] = None,
    textfile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="prometheus: write this file, for node_exporter."),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="prometheus: write FILE this often; default: once."),
    ] = None,
    drift: Annotated[
        bool, typer.Option("--drift", help="prometheus: also count settings that have drifted.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH",
                     help="grafana: write this file; systemd: write into this folder."),
    ] = None,
) -> None:  # fmt: skip
    """Export counters, a dashboard or systemd units.

    prometheus: prints the counters of the policy in force, and of network back-ends that run, as
    OpenMetrics, serves them over HTTP
    (--listen) or writes them for node_exporter (--textfile). The HTTP endpoint listens on loopback
    only, because it asks for no password. Needs root.

    grafana: prints a dashboard for these counters.

    systemd: prints units that apply /etc/isolane/policy.yaml at boot, apply it again when a router
    returns, and serve the counters.
    """
    _refuse_what_does_not_fit(what, listen, textfile, every, output, drift=drift)
    if what is What.GRAFANA:
        from isolane.export import dashboard

        write_text(dashboard(), output)
    elif what is What.SYSTEMD:
        _units(output)
    else:
        _prometheus(listen, textfile, every, drift=drift)


def _refuse_what_does_not_fit(
    what: What,
    listen: str | None,
    textfile: Path | None,
    every: str | None,
    output: Path | None,
    *,
    drift: bool,
) -> None:
    given = {"--listen": listen, "--textfile": textfile, "--every": every, "--drift": drift}
    for option, value in given.items():
        if what is not What.PROMETHEUS and value:
            raise typer.BadParameter(f"{option} belongs to `isolane export prometheus`")
    if what is What.PROMETHEUS and output is not None:
        raise typer.BadParameter("--output: use --textfile for a file that is replaced as a whole")
    if listen is not None and textfile is not None:
        raise typer.BadParameter("--listen and --textfile: name one of them")
    if every is not None and textfile is None:
        raise typer.BadParameter("--every needs --textfile")


def _prometheus(
    listen: str | None, textfile: Path | None, every: str | None, *, drift: bool
) -> None:
    from isolane.cli.enforcing import enforcer, need_rights
    from isolane.export import (
        exposition,
        families,
        netback_families,
        parse_address,
        read,
        serve,
        write_textfile,
    )
    from isolane.netback import statuses
    from isolane.spec import parse_duration_within

    pause_ns = parse_duration_within("--every", every, "1s", "24h") if every is not None else 0
    need_rights()
    of = enforcer()

    def collect(form: Format) -> str:
        found = [*families(read(of, drift=drift)), *netback_families(statuses())]
        return exposition(found, form)

    if listen is not None:
        address = parse_address(listen)
        where = f"[{address[0]}]" if ":" in address[0] else address[0]
        try:
            serve(address, collect, lambda port: _say(f"metrics at http://{where}:{port}/metrics"))
        except KeyboardInterrupt:
            _say("stopped serving; the kernel keeps counting")
            raise
    if textfile is None:
        typer.echo(collect("openmetrics"), nl=False)
        return
    try:
        write_textfile(textfile, collect("text"))
        if every is not None:
            _again_and_again(pause_ns / 1e9, textfile, lambda: collect("text"))
    except KeyboardInterrupt:
        if textfile.exists():
            _say(f"stopped writing; {textfile} keeps the last counters")
        raise


def _again_and_again(seconds: float, path: Path, text: Callable[[], str]) -> None:
    from isolane.cli import signals
    from isolane.errors import IsolaneError
    from isolane.export import write_textfile

    while True:
        signals.pause(seconds)
        try:
            write_textfile(path, text())
        except IsolaneError as error:  # a full disk gets free again, sooner or later
            _say(f"{error}; trying again in {seconds:g} s")


def _units(folder: Path | None) -> None:
    from isolane.errors import IsolaneError
    from isolane.export import unit_files

    executable = Path(sys.argv[0]).absolute()
    runs = executable.name == "isolane" and os.access(executable, os.X_OK)
    for name, text in unit_files(str(executable) if runs else None).items():
        if folder is None:
            typer.echo(f"# {name}\n{text}")
        else:
            if (
                folder / name
            ).is_char_device():  # a link to /dev/null, which would swallow the unit
                raise IsolaneError(
                    f"{folder / name}: the unit is masked; first run: systemctl unmask {name}"
                )
            write_text(text, folder / name)
            _say(f"wrote {folder / name}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
