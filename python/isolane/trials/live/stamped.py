"""Capture points on a live bed: which are stamped, and the times between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from isolane import _native
from isolane.results.parts import PartTime
from isolane.spec import PointRouter
from isolane.testbed import CapturePoint


class Stamped:
    """The programs at the capture points of some routers; they detach when closed."""

    def __init__(self, native: _native.Points, streams: dict[str, int]) -> None:
        self._native = native
        self._captures = False
        self._streams = streams
        """Router whose frames are stamped -> number of its stream."""

    def reset(self, *, captures: bool) -> None:
        """Forget the times and frames of the last trial; say whether to keep those of the next."""
        self._captures = captures
        self._native.reset(captures=captures)

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

    def capture_file(self, about: str) -> bytes | None:
        """Return a file (pcapng) with the frames of the last trial; None where none were kept.

        Parameters
        ----------
        about
            What the trial was, for a comment in the file.
        """
        return self._native.capture_file(about) if self._captures else None

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
    points: Sequence[CapturePoint],
    routers: Sequence[tuple[PointRouter, int]],
    cookie: int,
    *,
    captures: bool,
) -> Stamped | None:
    """Stamp the frames of all routers but aggressors; None where no point is known of any.

    Parameters
    ----------
    points
        Of all routers.
    routers
        In the order of the generator's streams, each with its flows.
    captures
        Whether the beginning of each frame may be kept, too.
    """
    wanted = {router.name: i for i, (router, _) in enumerate(routers) if router.role != "aggressor"}
    mine: dict[tuple[str, int, bool], CapturePoint] = {}
    whose: dict[tuple[str, int, bool], list[str]] = defaultdict(list)
    for point in points:
        if point.router in wanted:
            key = point.netns, point.ifindex, point.sending
            mine[key] = point
            whose[key].append(point.router)
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
                ifname=point.ifname,
                title=f"{point.name} of {', '.join(whose[key])}",
            )
            for key, point in mine.items()
        ],
        captures=captures,
    )
    return Stamped(native, wanted)
