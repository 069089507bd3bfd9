"""Tells whether an interface still exists; the kernel goes on sending to one that is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import Final, Self

from isolane.errors import SpecError
from isolane.testbed import kernel
from isolane.testbed.namespace_thread import run_in_thread

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
        self._socket = run_in_thread(self._open)
        self.name = self._ask() or "?"
        return self

    def __exit__(self, *_exception: object) -> None:
        self._socket.close()

    def gone(self) -> bool:
        """Whether the interface has vanished."""
        return self._ask() is None

    def _open(self) -> socket.socket:
        if self._netns is not None:
            descriptor = os.open(self._netns, os.O_RDONLY | os.O_CLOEXEC)
            try:
                kernel.setns_net(descriptor)
            except OSError:
                raise SpecError(f"--netns {self._netns}: not a network namespace") from None
            finally:
                os.close(descriptor)
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def _ask(self) -> str | None:
        try:
            answer = fcntl.ioctl(self._socket, _SIOCGIFNAME, self._request)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return answer[:16].partition(b"\0")[0].decode()
