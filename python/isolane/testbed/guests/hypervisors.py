"""Which hypervisors there are, which of them this host has, and what its guests need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from isolane.errors import NotSupported
from isolane.procfs import memory_info
from isolane.testbed.bed_plan import Hypervisor

NAMES: Final[dict[Hypervisor, str]] = {"uml": "User-Mode Linux"}
"""What each is called for readers."""

UML = Path("/usr/bin/linux.uml")
GUEST_MEMORY_BYTES: Final = 64 << 20
"""Enough for a router; of it 20 to 40 MB become resident."""


def choose(asked: str) -> Hypervisor:
    """Return the hypervisor that ``auto``, ``kvm``, ``uml`` or ``tcg`` means on this host.

    Raises
    ------
    NotSupported
        When this host, or this version, cannot run it; the message says what is missing.
    """
    if asked in ("kvm", "tcg"):
        raise NotSupported(
            f"not supported on this host: hypervisor {asked}: this version of Isolane runs live "
            "guests by User-Mode Linux only (hypervisor: uml, or auto)"
        )
    if not UML.is_file() or not os.access(UML, os.X_OK):
        raise NotSupported(
            f"not supported on this host: virtual machines run by User-Mode Linux, and {UML} is "
            "missing: install the Debian package user-mode-linux"
        )
    if not Path("/dev/net/tun").exists():
        raise NotSupported(
            "not supported on this host: /dev/net/tun is missing, which virtual machines get "
            "their frames by: load the module tun"
        )
    return "uml"


def need_memory(guests: int) -> None:
    """Raise NotSupported, with the sum, unless the host has the memory for so many guests."""
    needed, free = guests * GUEST_MEMORY_BYTES, memory_info().get("MemAvailable", 0)
    if needed > free:
        raise NotSupported(
            f"not supported on this host: {guests} virtual machines of "
            f"{GUEST_MEMORY_BYTES >> 20} MB need {needed >> 20} MB of memory, and "
            f"{free >> 20} MB are available"
        )
