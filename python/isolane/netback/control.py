"""What a running back-end is asked, and what it answers: a line of JSON each."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from isolane.errors import MeasurementError, SpecError, TestbedError
from isolane.netback.folders import DIRECTORY, control_of, names
from isolane.spec.problems import listed, show
from isolane.spec.schedulers import SchedulerName

LIMIT_S: Final = 10.0
STATUS: Final = {"command": "status"}


@dataclass(frozen=True)
class PortStatus:
    """A port, and what became of its frames since the back-end was started."""

    name: str
    uplink: str
    vlan: int | None
    interface: str | None
    """Behind which the router is; None: a virtual machine attaches to the socket."""
    socket: str | None
    shares: dict[str, Any]
    """Its keys that the uplink's scheduler looks at, as they are written in the file."""
    transmitted: int
    """Frames that the guest transmitted, whatever became of them."""
    wrong_source: int
    """Of these: with another source address than the port's."""
    malformed: int
    """Of these: too short, too long, with a tag at a port with a VLAN, or with work left to the NIC
    that it did not offer or cannot do."""
    sent: int
    """Of these: handed to the uplink, or to other ports."""
    link_bytes: int
    """Bytes on the wire of what was handed to the uplink: with preamble, checksum and gap."""
    output_full: int
    """Of these: lost because the uplink had no space for them."""
    not_taken: int
    """Of these: lost because the back-end did not take them in time; behind an interface only."""
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
    """Whether a virtual machine is attached, or the interface is there."""
    cut_offs: int
    """How often one was cut off for what it did."""
    last_cut_off: str | None
    """Why the last one was."""
    process: int | None = None
    """Whose front-end is attached; None: nobody's, or that of a process which the back-end cannot
    see (another PID namespace)."""
    dropped_early: int = 0
    """Of the frames that found no receive buffer: dropped before they were copied."""


@dataclass(frozen=True)
class UplinkStatus:
    """An uplink, and what became of its frames since the back-end was started."""

    name: str
    scheduler: SchedulerName
    back_pressure: str
    rate: str | None
    """Of the link, on the wire; None: as fast as the interface takes frames."""
    received: int
    """Frames that arrived, also those that were dropped early or are for nobody here."""
    ring_full: int
    """Frames that arrived and found the back-end's ring full."""
    too_long: int
    """Frames that arrived and were longer than 1522 bytes, or merged and not to be divided."""
    sent: int
    """Frames handed to the interface."""
    refused: int
    """Frames that the interface refused for their form."""
    retried: int
    """How often the interface had no space for a frame, which was offered again and is not lost;
    the kernel counts each time among what the interface dropped (``tx_dropped``)."""
    carrier: bool
    """Whether the interface is up and has a carrier; frames wait while it does not."""
    burst: str | None = None
    """What the link takes ahead of its rate, as time; None: 4ms."""
    early_drop: str = "off"
    """Where frames that a port has no space for are dropped before they are copied: in the NIC's
    driver, at the back-end's socket, or off: not."""
    early_drop_reason: str | None = None
    """Why not earlier; None: it was not asked for."""
    receive: str = "packet"
    """How frames for its ports arrive: by a packet socket, or before the kernel makes packets of
    them, copied (xdp-copy) or not (xdp-zero-copy)."""
    receive_reason: str | None = None
    """Why by a packet socket, or on some receive queues so; None: it was not asked for."""


@dataclass(frozen=True)
class Status:
    """A running back-end."""

    name: str
    ports: tuple[PortStatus, ...]
    uplinks: tuple[UplinkStatus, ...]
    process: int | None = None
    """Its number; None: it does not tell (an older version)."""
    netns: int | None = None
    """Inode number of the network namespace that its uplinks are in."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> Status:
        """Return what a back-end has answered."""
        return cls(
            data["name"],
            tuple(PortStatus(**port) for port in data["ports"]),
            tuple(UplinkStatus(**uplink) for uplink in data["uplinks"]),
            data.get("process"),
            data.get("netns"),
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


def statuses(directory: Path = DIRECTORY, *, all_of_them: bool = False) -> tuple[Status, ...]:
    """Return the counters of all back-ends that run.

    Parameters
    ----------
    all_of_them
        Do not go on without one that runs and does not answer.

    Raises
    ------
    MeasurementError
        If one does not, and all are asked for.
    """
    found = []
    for name in names(directory):
        try:
            found.append(status_of(name, directory))
        except TestbedError:
            continue  # it has ended meanwhile
        except MeasurementError:
            if all_of_them and name in names(directory):
                raise
    return tuple(found)


@dataclass(frozen=True)
class Target:
    """A port or an uplink of a running back-end."""

    back_end: str
    name: str


def find(name: str, directory: Path = DIRECTORY) -> Target | None:
    """Return what a name stands for: ``BACK-END/NAME``, or a port's alone where one has it.

    Raises
    ------
    SpecError
        If several back-ends have a port of that name.
    """
    back_end, slash, port = name.partition("/")
    if slash:
        return Target(back_end, port)
    running = statuses(directory)
    having = [one.name for one in running if any(port.name == name for port in one.ports)]
    if len(having) > 1:
        known = listed(f"{one}/{name}" for one in having)
        raise SpecError(f"several network back-ends have a port {show(name)}; accepted: {known}")
    return Target(having[0], name) if having else None


@dataclass(frozen=True)
class Step:
    """A change of one port or uplink."""

    name: str
    changes: Mapping[str, str]
    """Key to value as on the command line."""
    at_ns: int | None = None
    """From when on, ns of the monotonic clock, each after the step before; None: at once."""


def set_keys(
    back_end: str, steps: Sequence[Step], directory: Path = DIRECTORY
) -> list[dict[str, tuple[Any, Any]]]:
    """Change keys of ports and uplinks while a back-end works; no frame is lost.

    All steps are carried out, or none. What an earlier call has planned for later is cancelled.

    Parameters
    ----------
    steps
        One after the other; those at once come first.

    Returns
    -------
    list of dict
        For each step: changed key -> its value before and after, as it is written in the file.

    Raises
    ------
    SpecError
        If a name, a key or a value is not accepted; nothing has been changed.
    TestbedError
        If no back-end of that name runs.
    MeasurementError
        If it does not answer.
    """
    question = {"command": "set", "steps": [asdict(step) for step in steps]}
    answer = _asked(back_end, question, directory)
    if "refused" in answer:
        raise SpecError(answer["refused"])
    return [
        {key: (before, after) for key, (before, after) in step.items()}
        for step in answer["changed"]
    ]


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
