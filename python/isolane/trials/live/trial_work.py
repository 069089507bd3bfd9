"""The work of a trial's routers: begun and ended with its frames, or at times of its window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from isolane import _native
from isolane.errors import MeasurementError
from isolane.spec import PointRouter
from isolane.spec.work_models import NO_WORK
from isolane.testbed import WorkTime
from isolane.trials.live.measured_bed import MeasuredBed

LEAD_NS: Final = 500_000_000
"""How long before a trial routers are told of times to come: guests hear of it on a busy core."""


class TrialWork:
    """What the routers of one trial do besides.

    Parameters
    ----------
    bed
        Its programs are stopped.
    routers
        With their work at the trial's point.
    window_ns
        Length of the measuring window, ns.
    """

    def __init__(self, bed: MeasuredBed, routers: Sequence[PointRouter], window_ns: int) -> None:
        self._bed = bed
        working = [router for router in routers if router.work != NO_WORK]
        self._at_once = {r.name: WorkTime(r.work) for r in working if not r.works_in_part}
        self._timed = [router for router in working if router.works_in_part]
        self._window_ns = window_ns

    @property
    def lead_ns(self) -> int:
        """How long before the first frame :meth:`plan` is to be called, ns; 0: not needed."""
        return LEAD_NS if self._timed else 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Have routers work between entry and exit, but for those whose times are planned."""
        if self._at_once:
            self._bed.work(self._at_once)
        yield
        if self._at_once or self._timed:  # a trial that failed takes the bed with it
            self._bed.work({})

    def plan(self, start_ns: int, window_ns: int) -> None:
        """Tell the other routers when they are to work.

        Parameters
        ----------
        start_ns, window_ns
            When the first frame departs, and when the measuring window begins, ns of the monotonic
            clock.

        Raises
        ------
        MeasurementError
            If they do not hear of it before the first frame, or a program has ended.
        """
        if not self._timed:
            return
        works = dict(self._at_once)
        for router in self._timed:
            begin_ns = router.work_from_ns or 0
            end_ns = self._window_ns if router.work_until_ns is None else router.work_until_ns
            after_ns = max(0, window_ns + begin_ns - _native.monotonic_ns())
            times = (after_ns / 1e9, (end_ns - begin_ns) / 1e9)
            works[router.name] = WorkTime(router.work, *times)
        self._bed.work(works)
        late_ns = _native.monotonic_ns() - start_ns
        if late_ns > 0:
            raise MeasurementError(
                f"routers knew the times of their work {late_ns / 1e6:.0f} ms late"
            )
