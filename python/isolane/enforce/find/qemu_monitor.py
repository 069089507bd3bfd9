"""Asks QEMU's monitor (QMP) for MAC addresses that are not on the command line."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any, Final

LIMIT_S: Final = 2.0
"""How long to wait: a monitor serves one client at a time, and libvirt may hold it for long."""
_MAX_BYTES: Final = 1 << 20
_NIC = re.compile(r"^\S+: index=\d+,type=nic,.*macaddr=([0-9A-Fa-f:]{17})")
_PEER = re.compile(r"^ \\ \S+: index=\d+,type=(?:tap|bridge),(.*)$")


def guest_interfaces(path: Path) -> list[tuple[str, str]]:
    """Ask a monitor for the guest's interfaces.

    Returns
    -------
    list of tuple
        MAC address of each interface that has a tap, and what the monitor says of the tap
        (``ifname=tap0,script=no`` or ``fd=23``); empty when the monitor does not answer.
    """
    try:
        return parse_network(_ask(path))
    except (OSError, ValueError):
        return []


def parse_network(text: str) -> list[tuple[str, str]]:
    """Read what ``info network`` prints; interfaces without a tap are left out."""
    found = []
    mac: str | None = None
    for line in text.splitlines():
        if nic := _NIC.match(line):
            mac = nic[1].lower()
        elif (peer := _PEER.match(line)) and mac is not None:
            found.append((mac, peer[1].strip()))
            mac = None
    return found


def _ask(path: Path) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as link:
        link.settimeout(LIMIT_S)
        link.connect(str(path))
        with link.makefile("rwb") as stream:
            _message(stream.readline(_MAX_BYTES))  # the greeting
            _command(stream, {"execute": "qmp_capabilities"})
            text = _command(
                stream,
                {
                    "execute": "human-monitor-command",
                    "arguments": {"command-line": "info network"},
                },
            )
    return str(text)


def _command(stream: Any, command: dict[str, Any]) -> Any:
    stream.write(json.dumps(command).encode() + b"\n")
    stream.flush()
    while True:
        answer = _message(stream.readline(_MAX_BYTES))
        if "error" in answer:
            raise ValueError(str(answer["error"]))
        if "return" in answer:  # anything else is an event
            return answer["return"]


def _message(line: bytes) -> dict[str, Any]:
    message = json.loads(line)  # a closed connection gives an empty line: ValueError
    if not isinstance(message, dict):
        raise ValueError("not a QMP message")  # noqa: TRY004 - the caller catches one kind
    return message
