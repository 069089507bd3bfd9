"""Whether routers forward, on any machine however slow."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.run.results import Placement, RouterTrial


def came_through(routers: Sequence[RouterTrial]) -> bool:
    """Tell whether frames came through, or none was sent.

    The generator drops what is a millisecond late: where somebody has its core for the whole of a
    short trial, it sends nothing.
    """
    sent = sum(router.offered_total - router.lost["generator"] for router in routers)
    return not sent or any(router.received_total for router in routers)


def was_at_work(router: RouterTrial, placement: Placement | None) -> bool:
    """Tell whether the DUT worked on a router's frames in the window, as the CPU accountant has it.

    Frames that are due in the window may be worked on after it: where somebody has a core for the
    whole of a short window, all are.
    """
    return router.received_frames > 0 and placement is not None and placement.frames_on_dut > 0
