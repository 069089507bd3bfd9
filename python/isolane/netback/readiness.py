"""Telling the service manager that a back-end is ready (systemd's `sd_notify(3)`)."""

from __future__ import annotations

import contextlib
import os
import socket


def tell_ready() -> None:
    """Say so where a service manager listens; nobody else is told, and nothing fails for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # An abstract address begins with a zero byte, which the environment cannot hold.
    to = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said, contextlib.suppress(OSError):
        said.sendto(b"READY=1", to)
