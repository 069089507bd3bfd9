"""The process of a network back-end, from its file to its end."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from isolane import _native, rtnl
from isolane.errors import MeasurementError, NotSupported, SpecError, TestbedError
from isolane.netback.control import Step
from isolane.netback.folders import DIRECTORY, control_of, own_folder, socket_of
from isolane.spec.netback_changes import AT_START, with_netback_changes
from isolane.spec.netback_models import NetbackFile, PortEntry, UplinkEntry
from isolane.spec.schedulers import KEYS

_BACKLOG: Final = 8
_OF_A_PORT: Final = 12
"""Open files of a port and its guest: two sockets, those of its rings, what it sends besides."""
_DESCRIPTORS: Final = 128
"""All others."""
_LINE: Final = 1 << 20
_ASKING_S: Final = 1.0
"""How long somebody may take to ask: the next one waits for that."""
_HEARD_S: Final = 1.0
"""How late a signal may be heard that came just before a system call."""


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
    for name in (*plan.uplinks, *(port.interface for port in plan.ports.values())):
        if name is not None:
            _refuse_part(name)
    allow_descriptors(len(plan.ports))
    with own_folder(plan.name, directory), contextlib.ExitStack() as opened:
        listeners = {
            name: _listen(socket_of(plan.name, name, directory))
            for name, port in plan.ports.items()
            if port.interface is None
        }
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
            _Answers(plan, native, directory).give(asked, ended)


def allow_descriptors(ports: int) -> None:
    """See to it that this process may have as many open files as so many ports need.

    Raises
    ------
    NotSupported
        If it may not.
    """
    needed = _DESCRIPTORS + _OF_A_PORT * ports
    allowed, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(limit, needed)))
    except (OSError, ValueError):
        raise NotSupported(
            f"not supported on this host: {ports} ports need {needed} open files, and {limit} are "
            "allowed (ulimit -Hn)"
        ) from None


def _index_of(uplink: str) -> int:
    try:
        return socket.if_nametoindex(uplink)
    except OSError:
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise TestbedError(f"uplink {uplink}: no such interface here; there are {known}") from None


def _refuse_part(interface: str) -> None:
    """Refuse an interface whose frames somebody else forwards as well."""
    shown = Path("/sys/class/net", interface)
    with contextlib.suppress(OSError):  # it is not part of anything, or not there yet
        if int((shown / "ifindex").read_text()) != socket.if_nametoindex(interface):
            return  # /sys is that of another network namespace
        master = (shown / "master").readlink().name
        raise TestbedError(
            f"interface {interface} is part of {master}, so that frames would go both ways; take "
            f"it out: ip link set {interface} nomaster"
        )


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
            {"ifindex": indices[name], **arrival_of(uplink, indices[name])}
            for name, uplink in plan.uplinks.items()
        ],
        "ports": [
            {
                "mac": [int(octet, 16) for octet in port.mac.split(":")],
                "mtu": port.mtu,
                "uplink": order.index(plan.uplink_of(port)),
                "check_source": port.check_source,
                "offloads": port.offloads,
                "vlan": port.vlan,
                "max_wait_ns": port.max_wait_ns,
                "listener": listeners[name].detach() if name in listeners else None,
                "interface": port.interface,
            }
            for name, port in plan.ports.items()
        ],
        "sharing": _sharing(plan),
    }


def arrival_of(uplink: UplinkEntry, ifindex: int) -> dict[str, Any]:
    """Return where it drops early at best, and how many receive queues have sockets of their own.

    A program in a veth's driver takes segmentation from its other end, which costs streams more.
    """
    try:
        with rtnl.IPRoute() as links:
            link = links.get_links(ifindex)[0]
    except rtnl.NetlinkError:  # it has just gone, which the next step tells
        return {"early_drop": "off", "receive_queues": 0}
    kind = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND")
    auto = "socket" if kind == "veth" else "driver"
    return {
        "early_drop": auto if uplink.early_drop == "auto" else uplink.early_drop,
        "receive_queues": 0 if uplink.receive == "packet" else link.get("IFLA_NUM_RX_QUEUES") or 1,
    }


def _sharing(plan: NetbackFile) -> dict[str, Any]:
    """Return what may change while it runs."""
    return {
        "uplinks": [_link(uplink) for uplink in plan.uplinks.values()],
        "ports": [_guarantee(port) for port in plan.ports.values()],
    }


def _link(uplink: UplinkEntry) -> dict[str, Any]:
    return {
        "scheduler": uplink.scheduler,
        "back_pressure": uplink.back_pressure,
        "rate_bps": None if uplink.rate is None else round(uplink.rate),
        "burst_ns": uplink.burst,
    }


def _guarantee(port: PortEntry) -> dict[str, Any]:
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


class _Answers:
    """What a running back-end answers, and what it is to share by."""

    def __init__(self, plan: NetbackFile, native: _native.Netback, directory: Path) -> None:
        self._timetable = [(0, plan)]
        self._native = native
        self._directory = directory
        self._netns = Path("/proc/thread-self/ns/net").stat().st_ino

    def _plan(self) -> NetbackFile:
        """Return what it shares by now."""
        now_ns = _native.monotonic_ns()
        return next(plan for at_ns, plan in reversed(self._timetable) if at_ns <= now_ns)

    def give(self, asked: socket.socket, ended: socket.socket) -> None:
        """Answer questions until the back-end ends, or this process is interrupted."""
        with selectors.DefaultSelector() as selector:
            selector.register(asked, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(_HEARD_S):
                    if key.fileobj is ended:
                        return
                    with contextlib.suppress(OSError):  # whoever asked has gone
                        self._give_one(asked)

    def _give_one(self, asked: socket.socket) -> None:
        theirs, _ = asked.accept()
        with theirs:
            theirs.settimeout(_ASKING_S)
            with theirs.makefile("rb") as lines:
                line = lines.readline(_LINE)
            theirs.sendall(json.dumps(self._to(line)).encode() + b"\n")

    def _to(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line)
        except ValueError:
            return {"error": "a question is a line of JSON"}
        match question:
            case {"command": "status"}:
                return self._status()
            case {"command": "set", "steps": list(steps)}:
                if (read := _read(steps)) is not None:
                    return self._set(read)
        return {"error": "accepted: {'command': 'status' or 'set'}"}

    def _set(self, steps: list[Step]) -> dict[str, Any]:
        """Carry out all steps or none; what was to come later before is cancelled."""
        plan = first = self._plan()
        later: list[tuple[int, NetbackFile]] = []
        told = []
        for step in steps:
            try:
                changed = with_netback_changes(plan, step.name, step.changes)
            except SpecError as error:
                return {"refused": str(error)}
            old, new = (_shares_of(one, step.name) for one in (plan, changed))
            pairs = {key: [old.get(key), new.get(key)] for key in {**old, **new}}
            told.append({key: pair for key, pair in pairs.items() if pair[0] != pair[1]})
            plan = changed
            if step.at_ns is None:
                first = plan
            else:
                later.append((step.at_ns, plan))
        try:
            self._native.share(json.dumps(_sharing(first)))
            for at_ns, plan in later:
                self._native.share(json.dumps(_sharing(plan)), at_ns)
        except _native.NativeError as error:  # it is just ending
            return {"error": str(error)}
        self._timetable = [(0, first), *later]
        return {"changed": told}

    def _status(self) -> dict[str, Any]:
        plan, counters = self._plan(), json.loads(self._native.counters())
        ports = zip(plan.ports.items(), counters["ports"], strict=True)
        uplinks = zip(plan.uplinks.items(), counters["uplinks"], strict=True)
        return {
            "name": plan.name,
            "process": os.getpid(),
            "netns": self._netns,
            "ports": [
                {
                    "name": name,
                    "uplink": plan.uplink_of(port),
                    "vlan": port.vlan,
                    "interface": port.interface,
                    "socket": None
                    if port.interface
                    else str(socket_of(plan.name, name, self._directory)),
                    "shares": _shares_of(plan, name),
                    **counts,
                }
                for (name, port), counts in ports
            ],
            "uplinks": [
                {"name": name, **_shares_of(plan, name), **counts} for (name, _), counts in uplinks
            ],
        }


def _read(steps: list[Any]) -> list[Step] | None:
    """Return the steps of a question; None where they are none."""
    try:
        return [Step(**step) for step in steps]
    except TypeError:
        return None


def _shares_of(plan: NetbackFile, name: str) -> dict[str, Any]:
    """Return the keys of a port that its scheduler looks at, or of an uplink, as written."""
    if name in plan.ports:
        port = plan.ports[name]
        looked_at: tuple[str, ...] = KEYS[plan.uplinks[plan.uplink_of(port)].scheduler]
        return port.model_dump(mode="json", include=set(looked_at))
    written = plan.uplinks[name].model_dump(mode="json", exclude=set(AT_START))
    return {**written, "back_pressure": "on" if written["back_pressure"] else "off"}
