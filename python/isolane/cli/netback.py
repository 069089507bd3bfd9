"""``isolane netback``: a network back-end for virtual machines, with a packet scheduler inside."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isolane.netback import PortStatus, Status, UplinkStatus

_WORDS = ("port", "uplink", "virtual machine", "shares")
"""Columns that hold words; the others hold numbers."""
_COLUMNS = (*_WORDS, "sent", "not sent", "delivered", "lost")

EPILOG = """Examples:

\b
  sudo isolane netback start edge.yaml           runs until Ctrl-C
  sudo isolane netback status                    of all that run
  sudo isolane netback status edge --json
  sudo isolane netback top                       each second, until Ctrl-C
  sudo isolane netback top edge --once --json
  sudo isolane export systemd --output /etc/systemd/system  # isolane-netback@edge at boot

\b
A file (edge.yaml):
  isolane: 1
  name: edge
  uplinks:
    eth1: {scheduler: drr}
  ports:
    vm1: {mac: "52:54:00:00:00:01", weight: 2}
    vm2: {mac: "52:54:00:00:00:02"}
    web: {mac: "02:42:ac:11:00:02", interface: vethweb}  # a container

\b
Virtual machines attach to /run/isolane/netback/edge/vm1.sock and vm2.sock:
  qemu-system-x86_64 ... -m 512 \\
      -object memory-backend-memfd,id=mem,size=512M,share=on -numa node,memdev=mem \\
      -chardev socket,id=c0,path=/run/isolane/netback/edge/vm1.sock,reconnect=1 \\
      -netdev vhost-user,id=n0,chardev=c0 \\
      -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01
  linux.uml ... virtio_uml.device=/run/isolane/netback/edge/vm2.sock:1:0
"""


class Action(StrEnum):
    """What to do."""

    START = "start"
    STATUS = "status"
    TOP = "top"


def command(
    action: Annotated[Action, typer.Argument(metavar="start|status|top", help="What to do.")],
    what: Annotated[
        str | None,
        typer.Argument(metavar="FILE|NAME", help="start: the file; else a back-end's name."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="status, top: print counters, or rates, as JSON.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="top: print one interval, then end.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option("--interval", "-i", min=0.1, max=3600, help="top: interval in s; default 1."),
    ] = None,
) -> None:
    """Serve routers' NICs, and decide who sends next.

    start: runs a back-end in user space that virtual machines (QEMU, User-Mode Linux) attach to
    over vhost-user, and containers by an interface of the host. It takes frames from their rings,
    sends them by an interface of this host, and shares that by the scheduler that the file names.
    Frames between its routers go straight across. It runs in the foreground, until Ctrl-C or
    SIGTERM; its routers have no network afterwards. Needs root to start, and gives its rights up
    before it takes the first frame.

    status: prints what became of all frames of the back-ends that run.

    top: shows live what each port sends, waits for and loses, and its share of the uplink.
    """
    if action is Action.START and as_json:
        raise typer.BadParameter("--json belongs to `isolane netback status` and `top`")
    if action is not Action.TOP and (once or interval is not None):
        raise typer.BadParameter("--once and --interval belong to `isolane netback top`")
    if action is Action.START:
        if what is None:
            raise typer.BadParameter("name the file: isolane netback start FILE")
        _start(Path(what))
    elif action is Action.STATUS:
        _status(what, as_json=as_json)
    else:
        from isolane.cli.netback_top import top

        top(what, interval or 1.0, once=once, as_json=as_json)


def _start(file: Path) -> None:
    import socket

    from isolane.cli.rights import need_root
    from isolane.netback import serve, socket_of, tell_ready
    from isolane.spec.netback_models import PortEntry, load_netback

    plan = load_netback(file)
    need_root("a network back-end needs root to open its uplinks")

    def where(name: str, port: PortEntry) -> str:
        if port.interface is None:
            return str(socket_of(plan.name, name))
        is_there = port.interface in (name for _, name in socket.if_nameindex())
        return f"behind {port.interface}" + ("" if is_there else ", which is not there yet")

    def ready() -> None:
        for name, port in plan.ports.items():
            typer.echo(f"port {name}: {where(name, port)}")
        typer.echo("ready")
        tell_ready()

    serve(plan, ready)


def _status(name: str | None, *, as_json: bool) -> None:
    from dataclasses import asdict

    from isolane.cli.enforcing import print_json
    from isolane.cli.rights import need_root
    from isolane.netback import status_of, statuses

    need_root("the sockets of a network back-end are root's")
    found = statuses() if name is None else (status_of(name),)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        typer.echo("no network back-end runs; start one with: isolane netback start FILE")
    for one in found:
        _print(one)


def _link(uplink: UplinkStatus) -> str:
    lossy = "" if uplink.back_pressure == "on" else ", no back-pressure"
    without = "" if uplink.carrier else ", no carrier"
    rate = f", {uplink.rate}" if uplink.rate else ""
    burst = f", burst {uplink.burst}" if uplink.burst else ""
    return f"{uplink.scheduler}{rate}{burst}{lossy}{without}"


def _guest(port: PortStatus) -> str:
    if port.process is not None:
        return f"process {port.process}"
    return "attached" if port.attached else "none"


def _print(status: Status) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160
    table = Table(title=f"network back-end {status.name}", title_justify="left", box=None)
    for heading in _COLUMNS:
        table.add_column(heading, justify="left" if heading in _WORDS else "right")
    for port in status.ports:
        unsent = port.wrong_source + port.malformed + port.output_full + port.not_taken
        lost = port.ring_full + port.too_long + port.no_guest
        numbers = (port.sent, unsent, port.delivered, lost)
        table.add_row(
            port.name,
            port.uplink if port.vlan is None else f"{port.uplink}, VLAN {port.vlan}",
            _guest(port),
            " ".join(f"{key}={value}" for key, value in port.shares.items() if value is not None),
            *(f"{n:,}" for n in numbers),
        )
    console.print(table)
    for uplink in status.uplinks:
        typer.echo(
            f"uplink {uplink.name} ({_link(uplink)}): received {uplink.received:,}, lost at its "
            f"ring {uplink.ring_full:,}; sent {uplink.sent:,}; early drop: {uplink.early_drop}, "
            f"receive: {uplink.receive}"
        )
        if uplink.early_drop_reason:
            typer.echo(f"uplink {uplink.name}: no earlier drop: {uplink.early_drop_reason}")
        if uplink.receive_reason:
            typer.echo(f"uplink {uplink.name}: no AF_XDP: {uplink.receive_reason}")
        if uplink.too_long:
            typer.echo(
                f"uplink {uplink.name}: {uplink.too_long:,} frames were too long, or merged by the "
                f"host in a way that is not undone here: ethtool -K {uplink.name} gro off lro off"
            )
    for port in status.ports:
        if port.last_cut_off:
            typer.echo(
                f"port {port.name}: cut off {port.cut_offs} times, last: {port.last_cut_off}"
            )
