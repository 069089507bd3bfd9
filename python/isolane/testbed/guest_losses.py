"""Where a guest loses frames, from its own kernel's counters and this host's. Pure.

A guest has no counter for each way to lose a frame: of its queues and its driver not all kernels
tell. But what goes in and what comes out is counted at each step, so a step's losses are the
difference, once nothing is on its way any more (:func:`at_rest`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from isolane.testbed.ip_counters import IpCounts

_REST_S: Final = 1.0
Reading = TypeVar("Reading")


@dataclass(frozen=True)
class GuestReading:
    """Frames so far, in the order of their way through a guest."""

    refused: int
    """Found the buffer of the guest's NIC full."""
    taken: int
    """Taken by the guest's driver."""
    ip: IpCounts
    """Of its IP layer."""
    sent: int
    """Left for the wire, by this host's counter."""
    answers: bool = False
    """Whether it is to answer frames, and not to pass them on."""

    def lost(self) -> dict[str, int]:
        """Return the frames lost, by drop point; what never came to its IP layer is its queue's."""
        return {
            "router_queue": self.refused + self.taken - self.ip.arrived,
            **self.ip.lost(answers=self.answers),
            "egress": self.ip.sent(answers=self.answers) - self.sent,
        }


def at_rest(read: Callable[[], Reading], limit_s: float = _REST_S) -> Reading:
    """Return a reading that is the same as the one before it: no frame was on its way."""
    deadline_s, latest = time.monotonic() + limit_s, read()
    while True:
        before, latest = latest, read()
        if latest == before or time.monotonic() > deadline_s:
            return latest


def frames_received(text: str) -> dict[str, int]:
    """Return the frames received by each interface in ``/proc/net/dev``."""
    found = {}
    for line in text.splitlines():
        name, colon, values = line.partition(":")
        if colon:
            found[name.strip()] = int(values.split()[1])
    return found
