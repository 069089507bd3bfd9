"""Whether routers forward, on any machine however slow."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.results.results import RouterTrial
from isolane.results.series import TrialSeries


def came_through(routers: Sequence[RouterTrial]) -> bool:
    """Tell whether frames came through, or none was sent.

    The generator drops what is a millisecond late: where somebody has its core for the whole of a
    short trial, it sends nothing.
    """
    sent = sum(router.offered_total - router.lost["generator"] for router in routers)
    return not sent or any(router.received_total for router in routers)


def was_at_work(router: RouterTrial, series: TrialSeries | None) -> bool:
    """Tell whether the router has certainly forwarded a frame within the window.

    More of its frames had arrived by the window's end than had left before the window. A guest may
    sleep or wait through a short window, and forward all of that window's frames after it.
    """
    if series is None:
        return False
    mine = next(one for one in series.routers if one.router == router.router)
    window = series.window()
    return sum(mine.received[: window.stop]) > sum(mine.sent[: window.start])
