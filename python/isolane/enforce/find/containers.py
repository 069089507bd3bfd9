"""Finds the first process of a container by name: Docker, Podman, LXC, Incus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from isolane.enforce.find.absent import Absent
from isolane.enforce.find.external_tools import ask, ask_json

_SHORT_ID: Final = 12
"""Digits of an ID as engines show it. They accept fewer digits, too, which might match others."""


def _by_inspect(tool: str, label: str, name: str) -> int:
    """Ask Docker or Podman; what is read here of ``inspect`` is the same in both."""
    who = f"{label} container {name}"
    # Without --format: it fails if the engine spells a key otherwise.
    answer = ask_json([tool, "inspect", "--type", "container", "--", name], who)
    told = answer[0] if isinstance(answer, list) and answer else None
    if not isinstance(told, dict):
        raise Absent(f"{who} does not run (it is in an unknown state)")
    known, full = str(told.get("Name", "")).removeprefix("/"), str(told.get("Id", ""))
    if name != known and not (len(name) >= _SHORT_ID and full.startswith(name)):
        raise Absent(
            f"there is no {label} container {name}; {tool} takes it for the beginning of the ID of "
            f"{known}"
        )
    return _running(told.get("State"), who)


def _running(state: Any, who: str) -> int:
    pid = state.get("Pid") if isinstance(state, dict) else None
    if not isinstance(pid, int) or pid <= 0:
        status = state.get("Status") if isinstance(state, dict) else None
        raise Absent(f"{who} does not run (it is {status or 'in an unknown state'})")
    return pid


def docker(name: str) -> int:
    """Return the first process of a Docker container, or raise :class:`Absent`."""
    return _by_inspect("docker", "Docker", name)


def podman(name: str) -> int:
    """Return the first process of a Podman container, or raise :class:`Absent`."""
    return _by_inspect("podman", "Podman", name)


def lxc(name: str) -> int:
    """Return the first process of an LXC container, or raise :class:`Absent`."""
    who = f"LXC container {name}"
    text = ask(["lxc-info", "--no-humanize", "--pid", "--name", name], who).strip()
    if not text.isdecimal() or int(text) <= 0:
        raise Absent(f"{who} does not run")
    return int(text)


@dataclass(frozen=True)
class Instance:
    """A running Incus instance."""

    pid: int
    """First process of a container, QEMU of a virtual machine."""
    machine: bool
    """Whether it is a virtual machine."""
    macs: dict[str, str]
    """Interface of the host -> MAC address of the instance's interface behind it."""


def incus(name: str) -> Instance:
    """Ask Incus for an instance.

    Raises
    ------
    Absent
        When it does not run.
    """
    who = f"Incus instance {name}"
    path = f"/1.0/instances/{quote(name, safe='')}"
    state = ask_json(["incus", "query", f"{path}/state"], who)
    pid = state.get("pid") if isinstance(state, dict) else None
    if not isinstance(pid, int) or pid <= 0:
        status = state.get("status") if isinstance(state, dict) else None
        raise Absent(f"{who} does not run (it is {status or 'in an unknown state'})")
    instance = ask_json(["incus", "query", path], who)
    networks = (state.get("network") or {}).values()
    macs = {one["host_name"]: one["hwaddr"] for one in networks if one.get("host_name")}
    return Instance(pid, instance.get("type") == "virtual-machine", macs)


ENGINES: Final[dict[str, Callable[[str], int]]] = {"docker": docker, "podman": podman, "lxc": lxc}
"""Key of the policy -> function that finds the first process."""
