"""Reads QEMU's command line: the tap of each guest interface, and where the monitor is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

Options = dict[str, str]

_IMPLIED: Final = {
    "netdev": "type",
    "nic": "type",
    "net": "type",
    "device": "driver",
    "chardev": "backend",
    "mon": "chardev",
}
"""Option -> key of its first value, which QEMU lets users leave out."""


@dataclass(frozen=True)
class Wiring:
    """One interface of the guest, and the tap on the host that it is connected to."""

    mac: str | None
    """MAC address on the command line; None where QEMU takes its default."""
    ifname: str | None = None
    """Name of the tap, if it is on the command line."""
    descriptors: tuple[int, ...] = ()
    """File descriptors of the tap, if QEMU was given those instead."""


@dataclass(frozen=True)
class CommandLine:
    """Guest interfaces and monitors of a command line."""

    wirings: tuple[Wiring, ...]
    """Interfaces with a tap; those of other kinds (user, socket, vhost-user) are left out."""
    monitors: tuple[str, ...]
    """Paths of sockets that speak QMP."""


@dataclass
class _Parts:
    netdevs: dict[str, Options] = field(default_factory=dict)
    guests: list[tuple[str, str | None]] = field(default_factory=list)
    """(netdev, MAC) of each interface of the guest."""
    chardevs: dict[str, Options] = field(default_factory=dict)
    controls: list[str] = field(default_factory=list)
    """Identifiers of the chardevs that speak QMP."""
    sockets: list[str] = field(default_factory=list)
    hub_macs: list[str | None] = field(default_factory=list)
    hub_taps: list[Options] = field(default_factory=list)


def read_options(text: str, implied: str) -> Options:
    """Return the keys and values of one option: ``tap,id=n0,ifname=tap0`` or libvirt's JSON.

    Doubled commas stand for one. A word without ``=`` that is not the first is a switch: ``on``.
    """
    if text.startswith("{"):
        try:
            return {key: _as_text(value) for key, value in json.loads(text).items()}
        except (ValueError, AttributeError):
            return {}
    words = [word for word, _ in re.findall(r"((?:[^,]|,,)+)(,|$)", text)]
    options: Options = {}
    for number, word in enumerate(words):
        key, is_pair, value = word.replace(",,", ",").partition("=")
        if is_pair:
            options[key] = value
        else:
            options[implied if number == 0 else key] = key if number == 0 else "on"
    return options


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else json.dumps(value)


def _pairs(arguments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each word that begins with a dash, and the next word, which may be an option."""
    for word, following in pairwise((*arguments[1:], "")):
        if word.startswith("-"):
            yield word.lstrip("-"), following


def read_command_line(arguments: tuple[str, ...]) -> CommandLine:
    """Return what a QEMU command line says of taps and monitors."""
    parts = _Parts()
    for name, value in _pairs(arguments):
        _take(parts, name, value)
    wirings = [
        _wiring(parts.netdevs[netdev], mac)
        for netdev, mac in parts.guests
        if netdev in parts.netdevs
    ]
    # `-net` connects all to one hub; with one guest interface and one tap, they belong together.
    if len(parts.hub_macs) == len(parts.hub_taps) == 1:
        wirings.append(_wiring(parts.hub_taps[0], parts.hub_macs[0]))
    chardevs = (parts.chardevs.get(name, {}) for name in parts.controls)
    sockets = (chardev.get("path", "") for chardev in chardevs)
    found = dict.fromkeys(path for path in (*parts.sockets, *sockets) if path)
    return CommandLine(tuple(wiring for wiring in wirings if wiring is not None), tuple(found))


def _take(parts: _Parts, name: str, value: str) -> None:
    if name in ("qmp", "qmp-pretty") and value.startswith("unix:"):
        parts.sockets.append(read_options(value.removeprefix("unix:"), "path").get("path", ""))
        return
    if name not in _IMPLIED:
        return
    options = read_options(value, _IMPLIED[name])
    if name == "netdev":
        parts.netdevs[options.get("id", "")] = options
    elif name == "device" and "netdev" in options:
        parts.guests.append((options["netdev"], options.get("mac")))
    elif name == "nic":
        own = f"-nic {len(parts.guests)}"
        parts.netdevs[own] = options
        parts.guests.append((own, options.get("mac")))
    elif name == "net":
        _take_net(parts, options)
    elif name == "chardev":
        parts.chardevs[options.get("id", "")] = options
    elif name == "mon" and options.get("mode") == "control":
        parts.controls.append(options.get("chardev", ""))


def _take_net(parts: _Parts, options: Options) -> None:
    if options.get("type") == "nic":
        mac = options.get("macaddr")
        if "netdev" in options:
            parts.guests.append((options["netdev"], mac))
        else:
            parts.hub_macs.append(mac)
    elif options.get("type") in ("tap", "bridge"):
        parts.hub_taps.append(options)


def _wiring(netdev: Options, mac: str | None) -> Wiring | None:
    if netdev.get("type") not in ("tap", "bridge"):
        return None
    given = netdev.get("fds") or netdev.get("fd") or ""
    descriptors = tuple(int(word) for word in given.split(":") if word.isdecimal())
    return Wiring(mac and mac.lower(), netdev.get("ifname"), descriptors)
