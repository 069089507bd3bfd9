"""Tells whether an interface still exists; the kernel goes on sending to one that is gone."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from typing import Final, Self

from isolane.testbed.host_links import in_netns

_SIOCGIFNAME: Final = 0x8910
_IFREQ_BYTES: Final = 40


class Presence:
    """Watches whether one interface exists; a context manager.

    It asks through a socket of the interface's namespace; each question is one system call.

    Parameters
    ----------
    netns
        File of the interface's network namespace; None: this process's.
    ifindex
        The interface's index there.
    """

    def __init__(self, netns: str | None, ifindex: int) -> None:
        self._netns = netns
        self._request = struct.pack("16si", b"", ifindex).ljust(_IFREQ_BYTES, b"\0")

    def __enter__(self) -> Self:
        self._socket = in_netns(
            self._netns, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        )
        self.name = self._ask() or "?"
        return self

    def __exit__(self, *_exception: object) -> None:
        self._socket.close()

    def gone(self) -> bool:
        """Whether the interface has vanished."""
        return self._ask() is None

    def _ask(self) -> str | None:
        try:
            answer = fcntl.ioctl(self._socket, _SIOCGIFNAME, self._request)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return answer[:16].partition(b"\0")[0].decode()
