"""A guest's NIC: a packet socket (packet(7)) on an interface of this host, read by the guest."""

from __future__ import annotations

import socket
import struct
from typing import Final

from isolane.errors import NotSupported, TestbedError

_ETH_P_ALL: Final = 0x0003
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_PACKET_QDISC_BYPASS: Final = 20
_PACKET_IGNORE_OUTGOING: Final = 23
_SO_RCVBUFFORCE: Final = 33
BUFFER_BYTES: Final = 212_992
"""Of frames that wait for the guest, with the kernel's own bytes: some 270 of 64 bytes, as in a NIC
with a ring of 256. It is the kernel's default, but hosts change that."""


class NicSocket:
    """The socket that a guest's driver sends and receives with, and its loss counter.

    It is opened in the network namespace of the thread that makes it.

    Parameters
    ----------
    ifname
        The interface whose frames are the guest's.
    bypass
        Whether what the guest sends goes past the interface's qdisc: it has queues of its own.

    Raises
    ------
    NotSupported
        If this kernel has no packet sockets that ignore what they send (Linux 4.20).
    TestbedError
        If there is no such interface.
    """

    def __init__(self, ifname: str, *, bypass: bool = True) -> None:
        self.ifname = ifname
        self._dropped = 0
        try:
            # No protocol yet: nothing is received before it is bound to the interface.
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except OSError as error:
            raise NotSupported(
                f"not supported on this host: no packet sockets ({error.strerror})"
            ) from None
        try:
            self._bind(bypass=bypass)
        except BaseException:
            self._socket.close()
            raise

    def _bind(self, *, bypass: bool) -> None:
        try:
            # What the guest sends is no news to it.
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, int(bypass))
        except OSError as error:
            raise NotSupported(
                f"not supported on this host: packet sockets as a guest's NIC ({error.strerror})"
            ) from None
        # The kernel doubles what it is told (socket(7)).
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES // 2)
        try:
            self._socket.bind((self.ifname, _ETH_P_ALL))
        except OSError as error:
            raise TestbedError(f"guest's NIC {self.ifname}: {error.strerror}") from None

    def fileno(self) -> int:
        """Return its descriptor, for the guest."""
        return self._socket.fileno()

    def dropped(self) -> int:
        """Return the frames that found its buffer full, since it was opened."""
        # Two unsigned numbers, frames seen and frames dropped; reading them makes them 0 again.
        found = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self._dropped += struct.unpack("II", found)[1]
        return self._dropped

    def close(self) -> None:
        """Close it; the guest's copy goes with the guest."""
        self._socket.close()
