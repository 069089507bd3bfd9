"""Whether routers forward, on any machine however slow."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.run.results import RouterTrial


def came_through(routers: Sequence[RouterTrial]) -> bool:
    """Tell whether frames came through, or none was sent.

    The generator drops what is a millisecond late: where somebody has its core for the whole of a
    short trial, it sends nothing.
    """
    sent = sum(router.offered_total - router.lost["generator"] for router in routers)
    return not sent or any(router.received_total for router in routers)
