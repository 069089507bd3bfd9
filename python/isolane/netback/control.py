"""What a running back-end is asked, and what it answers: a line of JSON each."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isolane.errors import MeasurementError, TestbedError
from isolane.netback.folders import DIRECTORY, control_of, names

LIMIT_S: Final = 10.0
STATUS: Final = {"command": "status"}


@dataclass(frozen=True)
class PortStatus:
    """A port, and what became of its frames since the back-end was started."""

    name: str
    uplink: str
    socket: str
    transmitted: int
    """Frames that the guest transmitted, whatever became of them."""
    wrong_source: int
    """Of these: with another source address than the port's."""
    malformed: int
    """Of these: too short, too long, or with work left to the NIC that it did not offer."""
    sent: int
    """Of these: handed to the uplink, or to other ports."""
    output_full: int
    """Of these: lost because the uplink had no space for them."""
    waiting: int
    """Of these: waiting to be scheduled."""
    delivered: int
    """Frames for the guest that lie in its receive ring."""
    ring_full: int
    """Frames for the guest that found no receive buffer."""
    too_long: int
    """Frames for the guest that none of its buffers would hold."""
    no_guest: int
    """Frames for the guest while there was none, or its NIC was not ready."""
    attached: bool
    """Whether a virtual machine is attached."""
    cut_offs: int
    """How often one was cut off for what it did."""
    last_cut_off: str | None
    """Why the last one was."""


@dataclass(frozen=True)
class UplinkStatus:
    """An uplink, and what became of its frames since the back-end was started."""

    name: str
    scheduler: str
    received: int
    """Frames that arrived."""
    ring_full: int
    """Frames that arrived and found the back-end's ring full."""
    too_long: int
    """Frames that arrived and were longer than 1522 bytes, or merged segments."""
    sent: int
    """Frames handed to the interface."""
    refused: int
    """Frames that the interface refused for their form."""


@dataclass(frozen=True)
class Status:
    """A running back-end."""

    name: str
    ports: tuple[PortStatus, ...]
    uplinks: tuple[UplinkStatus, ...]

    @classmethod
    def of(cls, data: dict[str, Any]) -> Status:
        """Return what a back-end has answered."""
        return cls(
            data["name"],
            tuple(PortStatus(**port) for port in data["ports"]),
            tuple(UplinkStatus(**uplink) for uplink in data["uplinks"]),
        )


def status_of(back_end: str, directory: Path = DIRECTORY) -> Status:
    """Ask a running back-end for its counters.

    Raises
    ------
    TestbedError
        If none of that name runs.
    MeasurementError
        If it does not answer.
    """
    return Status.of(_asked(back_end, STATUS, directory))


def _asked(back_end: str, question: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the answer to a question."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            ours.settimeout(LIMIT_S)
            ours.connect(str(control_of(back_end, directory)))
            ours.sendall(json.dumps(question).encode() + b"\n")
            with ours.makefile("rb") as lines:
                line = lines.readline()
    except (FileNotFoundError, ConnectionRefusedError):
        there = ", ".join(names(directory)) or "none"
        raise TestbedError(f"no network back-end named {back_end} runs; running: {there}") from None
    except OSError as error:
        raise MeasurementError(f"network back-end {back_end} does not answer: {error}") from None
    if not line:
        raise MeasurementError(f"network back-end {back_end} ended before it answered")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise MeasurementError(f"network back-end {back_end}: {answer['error']}")
    return answer
