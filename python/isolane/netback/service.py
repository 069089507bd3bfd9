"""The process of a network back-end, from its file to its end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from isolane import _native
from isolane.errors import MeasurementError, NotSupported, TestbedError
from isolane.netback.folders import DIRECTORY, control_of, own_folder, socket_of
from isolane.spec.netback_models import NetbackFile, PortEntry

_BACKLOG: Final = 8
_LINE: Final = 1 << 16
_ASKING_S: Final = 1.0
"""How long somebody may take to ask: the next one waits for that."""


def serve(plan: NetbackFile, ready: Callable[[], None], directory: Path = DIRECTORY) -> None:
    """Run a back-end until it is interrupted.

    Parameters
    ----------
    plan
        What to run. Its uplinks are interfaces of the calling thread's network namespace.
    ready
        Is called once virtual machines can attach.
    directory
        Gets a folder with its sockets, which is removed again.

    Raises
    ------
    TestbedError
        If a back-end of that name runs, an uplink does not exist or cannot be opened.
    MeasurementError
        If it ended by itself.
    """
    uplinks = {name: _index_of(name) for name in plan.uplinks}
    with own_folder(plan.name, directory), contextlib.ExitStack() as opened:
        listeners = {name: _listen(socket_of(plan.name, name, directory)) for name in plan.ports}
        asked = opened.enter_context(_listen(control_of(plan.name, directory)))
        if plan.core is not None:
            _move_to(plan.core)
        try:
            native = _native.Netback(json.dumps(_settings(plan, uplinks, listeners)))
        except _native.NativeError as error:
            raise TestbedError(f"the network back-end did not start: {error}") from None
        _native.give_up_rights()
        with _at_work(native) as ended:
            ready()
            _answer(plan, native, asked, ended, directory)


def _index_of(uplink: str) -> int:
    try:
        return socket.if_nametoindex(uplink)
    except OSError:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise TestbedError(f"uplink {uplink}: no such interface here; there are {known}") from None


def _listen(path: Path) -> socket.socket:
    """Listen where only the owner can connect: the folder is closed to others."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise TestbedError(f"{path}: {error.strerror or error}") from None
    return listener


def _move_to(core: int) -> None:
    try:
        os.sched_setaffinity(0, {core})
    except OSError:
        raise NotSupported(f"not supported on this host: there is no core {core}") from None


def _settings(
    plan: NetbackFile, indices: Mapping[str, int], listeners: Mapping[str, socket.socket]
) -> dict[str, Any]:
    order = list(plan.uplinks)
    return {
        "uplinks": [
            {
                "ifindex": indices[name],
                "scheduler": uplink.scheduler,
                "back_pressure": uplink.back_pressure,
            }
            for name, uplink in plan.uplinks.items()
        ],
        "ports": [
            {
                "name": name,
                "mac": [int(octet, 16) for octet in port.mac.split(":")],
                "mtu": port.mtu,
                "uplink": order.index(plan.uplink_of(port)),
                "check_source": port.check_source,
                "listener": listeners[name].detach(),
                "shares": _shares(port),
            }
            for name, port in plan.ports.items()
        ],
    }


def _shares(port: PortEntry) -> dict[str, Any]:
    return {
        "weight": port.weight,
        "priority": port.priority,
        "rate_min_bps": round(port.rate_min or 0),
        "rate_max_bps": None if port.rate_max is None else round(port.rate_max),
    }


@contextlib.contextmanager
def _at_work(native: _native.Netback) -> Iterator[socket.socket]:
    """Have a thread move frames; yields what can be read once it has ended by itself."""
    ended, ending = socket.socketpair()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            native.run()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            problems.append(error)
        ending.close()

    thread = threading.Thread(target=work, name="netback")
    thread.start()
    try:
        yield ended
    finally:
        native.stop()
        thread.join()
        ended.close()
    for problem in problems:
        raise MeasurementError(f"the network back-end has ended: {problem}")


def _answer(
    plan: NetbackFile,
    native: _native.Netback,
    asked: socket.socket,
    ended: socket.socket,
    directory: Path,
) -> None:
    """Answer questions until the back-end ends, or this process is interrupted."""
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is ended:
                    return
                with contextlib.suppress(OSError):  # whoever asked has gone
                    _answer_one(plan, native, asked, directory)


def _answer_one(
    plan: NetbackFile, native: _native.Netback, asked: socket.socket, directory: Path
) -> None:
    theirs, _ = asked.accept()
    with theirs:
        theirs.settimeout(_ASKING_S)
        with theirs.makefile("rb") as lines:
            line = lines.readline(_LINE)
        answer = _answered(line, plan, native, directory)
        theirs.sendall(json.dumps(answer).encode() + b"\n")


def _answered(
    line: bytes, plan: NetbackFile, native: _native.Netback, directory: Path
) -> dict[str, Any]:
    try:
        question = json.loads(line)
    except ValueError:
        return {"error": "a question is a line of JSON"}
    if not isinstance(question, dict) or question.get("command") != "status":
        return {"error": "accepted: {'command': 'status'}"}
    counters = json.loads(native.counters())
    ports = zip(plan.ports.items(), counters["ports"], strict=True)
    uplinks = zip(plan.uplinks.items(), counters["uplinks"], strict=True)
    return {
        "name": plan.name,
        "ports": [
            {
                "name": name,
                "uplink": plan.uplink_of(port),
                "socket": str(socket_of(plan.name, name, directory)),
                **counts,
            }
            for (name, port), counts in ports
        ],
        "uplinks": [
            {"name": name, "scheduler": uplink.scheduler, **counts}
            for (name, uplink), counts in uplinks
        ],
    }
