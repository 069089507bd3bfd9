"""How late whoever sends was, and when that spoils the delays. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from isolane import _native
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.results import Delay, Lateness, RouterTrial
from isolane.spec import format_ns

LATE: Final = 0.2
"""Share of a delay that may be the sender's lateness."""


def lateness_of(late: _native.Percentiles) -> Lateness | None:
    """Return the lateness of one router's frames or requests; None where none were sent."""
    if not late.count or late.p50_ns is None or late.p99_ns is None or late.p999_ns is None:
        return None
    return Lateness(
        count=late.count,
        missed=late.lost,
        p50_ns=late.p50_ns,
        p99_ns=late.p99_ns,
        p999_ns=late.p999_ns,
        max_ns=late.max_ns,
    )


def too_late(
    router: RouterTrial, delay: Delay | None, sender: str, what: str
) -> Iterator[InvalidReason]:
    """Yield why the delays of one router cannot be told, if its sender was late.

    An aggressor's are not asked for.

    Parameters
    ----------
    delay
        Since they were due.
    sender, what
        Who sent, and what the delay is called, for the message.
    """
    late = router.lateness
    if router.role == "aggressor" or late is None or delay is None:
        return
    told = (("median", late.p50_ns, delay.p50_ns), ("99th percentile", late.p99_ns, delay.p99_ns))
    for name, late_ns, delay_ns in told:
        if late_ns > LATE * delay_ns:
            yield InvalidReason(
                InvalidKind.LATE,
                f"{sender} was late by {format_ns(late_ns)} for {router.router} ({name}), "
                f"which is more than a fifth of the {what} of {format_ns(delay_ns)}",
            )
            return
