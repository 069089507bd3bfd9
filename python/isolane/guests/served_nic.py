"""A NIC of a guest that a network back-end serves over vhost-user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class VhostUserNic:
    """A NIC that a network back-end serves at a socket.

    The first one is ``eth0`` in the guest, the next one ``eth1``.
    """

    socket: Path
    mac: str
    """Its address, as the back-end has it: User-Mode Linux asks for it, QEMU is told."""
