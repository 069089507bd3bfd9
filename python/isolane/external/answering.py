"""Answers for our own addresses on the user's interfaces, while external routers are measured.

Nothing is set on the interfaces: whoever asks is answered from here, for as long as this lives.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from isolane.external.link_sockets import LinkSide, neighbour_socket
from isolane.external.neighbours import answer
from isolane.spec.host_addresses import Address
from isolane.testbed.namespace_thread import NamespaceThread

_FRAME_BYTES: Final = 2048


class Answering:
    """Answers ARP and neighbour discovery from entry to exit, in a thread of its own.

    Parameters
    ----------
    sides
        The interfaces, with our address on each; several may be on the same one.

    Raises
    ------
    NotSupported
        Without the right to open raw sockets.
    """

    def __init__(self, sides: Iterable[LinkSide]) -> None:
        self._sides = tuple(sides)
        self._sockets: dict[int, socket.socket] = {}
        self._own: dict[int, tuple[str, frozenset[Address]]] = {}
        self._thread: NamespaceThread | None = None
        self._wake = -1

    def __enter__(self) -> Self:
        try:
            for side in dict.fromkeys(self._sides):
                opened = neighbour_socket(side)
                self._sockets[opened.fileno()] = opened
                self._own[opened.fileno()] = side.mac, frozenset((side.own,))
            stop, self._wake = os.pipe2(os.O_CLOEXEC)
            self._thread = NamespaceThread()
            self._thread.begin(lambda: self._answer_until(stop))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._wake >= 0:
            os.close(self._wake)  # the thread reads the end of the pipe, and closes its own end
            self._wake = -1
        if self._thread is not None:
            self._thread.close()
        for opened in self._sockets.values():
            opened.close()
        self._sockets.clear()

    def _answer_until(self, stop: int) -> None:
        try:
            waiting = select.poll()
            for descriptor in (*self._sockets, stop):
                waiting.register(descriptor, select.POLLIN)
            while True:
                for descriptor, _ in waiting.poll():
                    if descriptor == stop:
                        return
                    self._answer_one(descriptor)
        finally:
            os.close(stop)

    def _answer_one(self, descriptor: int) -> None:
        opened = self._sockets[descriptor]
        mac, own = self._own[descriptor]
        try:
            reply = answer(opened.recv(_FRAME_BYTES), own, mac)
            if reply is not None:
                opened.send(reply)
        except OSError:
            return  # the interface went down or away; who measures on it notices, too
