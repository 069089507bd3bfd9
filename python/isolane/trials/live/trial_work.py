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

LEAD_NS: Final = 1_000_000_000
"""How long before a trial routers are told of times to come: guests hear of it on a busy core."""
EXACT_NS: Final = 50_000_000
"""How long telling them may take: so late their work may begin and stop."""


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

    def plan(self, start_ns: int, window_ns: int, by_ns: int) -> None:
        """Tell the other routers when they are to work.

        Each counts from when it hears of it; where that took long, it is told once more.

        Parameters
        ----------
        start_ns, window_ns
            When the first frame departs, and when the measuring window begins, ns of the monotonic
            clock.
        by_ns
            When they have to know.

        Raises
        ------
        MeasurementError
            If they do not by then, or a program has ended.
        """
        took_ns = EXACT_NS + 1 if self._timed else 0
        while took_ns > EXACT_NS:
            now_ns = _native.monotonic_ns()
            if now_ns > by_ns:
                late = f"{(now_ns - by_ns) / 1e6:.0f} ms late"
                raise MeasurementError(f"routers do not know the times of their work: {late}")
            self._bed.work(self._works(start_ns, window_ns, now_ns))
            took_ns = _native.monotonic_ns() - now_ns

    def _works(self, start_ns: int, window_ns: int, now_ns: int) -> dict[str, WorkTime]:
        works = dict(self._at_once)
        for router in self._timed:
            since, until = router.work_from_ns, router.work_until_ns
            begin_ns = start_ns if since is None else window_ns + since
            end_ns = window_ns + (self._window_ns if until is None else until)
            times = (max(0, begin_ns - now_ns) / 1e9, (end_ns - begin_ns) / 1e9)
            works[router.name] = WorkTime(router.work, *times)
        return works
