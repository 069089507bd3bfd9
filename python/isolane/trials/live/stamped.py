"""Capture points on a live bed: which are stamped, and the times between them."""

from __future__ import annotations

from collections.abc import Sequence

from isolane import _native
from isolane.results.parts import PartTime
from isolane.spec import PointRouter
from isolane.testbed import CapturePoint


class Stamped:
    """The programs at the capture points of some routers; they detach when closed."""

    def __init__(self, native: _native.Points, streams: dict[str, int]) -> None:
        self._native = native
        self._streams = streams
        """Router whose frames are stamped -> number of its stream."""

    def reset(self) -> None:
        """Forget the times of the last trial."""
        self._native.reset()

    def times(self) -> dict[str, tuple[PartTime, ...]]:
        """Return the times of each part of the way that frames took, by router."""
        return {
            router: tuple(
                part
                for name in _native.Points.names()
                if (part := _part(name, *self._native.part(stream, name))) is not None
            )
            for router, stream in self._streams.items()
        }

    def close(self) -> None:
        """Detach the programs."""
        self._native.close()


def _part(name: str, times: _native.Percentiles, sum_ns: int) -> PartTime | None:
    if not times.count:
        return None
    return PartTime(
        part=name,
        frames=times.count,
        mean_ns=sum_ns / times.count,
        p50_ns=times.p50_ns,
        p99_ns=times.p99_ns,
        max_ns=times.max_ns,
    )


def stamped(
    points: Sequence[CapturePoint], routers: Sequence[tuple[PointRouter, int]], cookie: int
) -> Stamped | None:
    """Stamp the frames of all routers but aggressors; None where no point is known of any.

    Parameters
    ----------
    points
        Of all routers.
    routers
        In the order of the generator's streams, each with its flows.
    """
    wanted = {router.name: i for i, (router, _) in enumerate(routers) if router.role != "aggressor"}
    mine = {
        (point.netns, point.ifindex, point.sending): point
        for point in points
        if point.router in wanted
    }
    if not mine:
        return None
    native = _native.Points(
        cookie=cookie,
        streams=[flows if router.name in wanted else 0 for router, flows in routers],
        points=[
            _native.Point(
                netns=point.netns,
                ifindex=point.ifindex,
                sending=point.sending,
                name=point.name,
                first=point.first,
                last=point.last,
            )
            for point in mine.values()
        ],
    )
    return Stamped(native, wanted)
