"""Waits until new interfaces have said what they say by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from isolane.testbed.netns import Namespace

_QUIET_S, _QUIET_GUESTS_S = 0.03, 0.3
"""Without a frame for this long: several times the maximum pause between multicast reports."""
_SILENCES = 33


def await_silence(
    namespaces: Mapping[str, Namespace], sides: Iterable[tuple[str, str]], *, guests: bool
) -> None:
    """Wait until routers have sent the multicast reports of their new interfaces.

    Parameters
    ----------
    namespaces
        By name.
    sides
        Namespace and name of each interface.
    guests
        Whether virtual machines are among them, whose reports come further apart.
    """
    sides = tuple(sides)
    quiet_s = _QUIET_GUESTS_S if guests else _QUIET_S
    deadline, sent, before = time.monotonic() + _SILENCES * quiet_s, 0, -1
    while sent != before and time.monotonic() < deadline:
        before = sent
        time.sleep(quiet_s)
        sent = sum(int(namespaces[name].read(i, "statistics/tx_packets")) for name, i in sides)
