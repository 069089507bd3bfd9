"""The receiver of `isolane receive`: it counts frames on interfaces that the user names."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Self

from isolane import _native
from isolane.errors import MeasurementError, NotSupported
from isolane.testbed.host_links import interface_index, netns_path, with_links
from isolane.trials.live.traffic import host_cookie

STREAMS = 256
"""Number of streams that are counted separately; a generator sends as many at most."""
WIDE_STREAMS = 16
"""In so many streams, the first ones, the order of all flows is checked ..."""
NARROW_FLOWS = 1024
"""... and of so many flows in each other stream, because the table would be too large."""


_SHORT_S = 0.5
"""In a shorter time a rate would depend on when the counters were read."""


@dataclass
class Counting:
    """A receiver attached to some interfaces; a context manager that detaches it."""

    interfaces: tuple[str, ...]
    netns: str | None
    flows: int
    """Flows of each stream that are checked for order."""
    _receiver: _native.Receiver = field(init=False)
    _looks: list[tuple[float, int]] = field(default_factory=list)
    """Readings that showed new frames, as (monotonic time in s, frames so far): the first, the last
    but one and the last. Between the first two, frames arrived all the time; the last may have
    been read some time after the last frame."""

    def __enter__(self) -> Self:
        path = netns_path(self.netns)
        indices = with_links(
            path, lambda links: [interface_index(links, name) for name in self.interfaces]
        )
        try:
            self._receiver = _native.Receiver(
                interfaces=[_native.Interface(netns=path, ifindex=index) for index in indices],
                cookie=None,
                flows=[self.flows] * WIDE_STREAMS + [NARROW_FLOWS] * (STREAMS - WIDE_STREAMS),
            )
        except _native.UnsupportedError as error:
            raise NotSupported(f"not supported on this host: {error}") from error
        except _native.NativeError as error:
            raise MeasurementError(str(error)) from error
        return self

    def __exit__(self, *_exception: object) -> None:
        self._receiver.close()

    def hooks(self) -> dict[str, str]:
        """Return where the program runs on each interface: in the driver or on the generic hook."""
        native = self._receiver.native()
        words = ["native" if driver else "generic" for driver in native]
        return dict(zip(self.interfaces, words, strict=True))

    def total(self) -> int:
        """Return the frames received so far; frequent calls make the report's rate more exact."""
        total = sum(count.received for count in self._receiver.counts())
        if total > (self._looks[-1][1] if self._looks else 0):
            self._looks.append((time.monotonic(), total))
            del self._looks[1:-2]
        return total

    def gone(self) -> list[str]:
        """Return the interfaces that have vanished; the program went with them."""
        attached = self._receiver.attached()
        return [n for n, there in zip(self.interfaces, attached, strict=True) if not there]

    def report(self) -> dict[str, Any]:
        """Return counts and delays of every stream that sent something."""
        seconds, rate_pps = self._rate()
        same_clock = self._receiver.seen_cookie() == host_cookie()
        streams = [
            self._stream(i, count, same_clock=same_clock)
            for i, count in enumerate(self._receiver.counts())
            if count.received
        ]
        return {
            "interfaces": self.hooks(),
            "streams": streams,
            "seconds": seconds,
            "rate_pps": rate_pps,
            "foreign_frames": self._receiver.other_frames(),
            "delay_note": None
            if same_clock or not streams
            else "no delays: the frames came from another machine, whose clock is not this one's",
        }

    def _rate(self) -> tuple[float | None, float | None]:
        """Return how long frames arrived, s, and their rate, frames/s; None if too short."""
        self.total()
        if len(self._looks) < 3:
            return None, None
        (start_s, before), (end_s, after), _ = self._looks
        if end_s - start_s < _SHORT_S:
            return None, None
        return end_s - start_s, (after - before) / (end_s - start_s)

    def _stream(
        self, index: int, count: _native.StreamReceived, *, same_clock: bool
    ) -> dict[str, Any]:
        expected = self._receiver.expected(index)
        unique = count.received - count.duplicated
        delay = None
        if same_clock and count.received_window:
            mean_ns = count.delay_sum_ns / count.received_window
            delay = {**self._receiver.delays(index).as_dict(), "mean_ns": mean_ns}
        return {
            "stream": index,
            "received": count.received,
            "bytes": count.received_window_bytes,
            "missing": None if count.untracked else max(0, expected - unique),
            "reordered": count.reordered,
            "duplicated": count.duplicated,
            "unchecked": count.untracked,
            "delay_ns": delay,
        }
