"""Counting what arrives on interfaces that Isolane did not build: `isolane receive`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Self

from isolane import _native
from isolane.errors import MeasurementError, NotSupported
from isolane.run.live.target import interface_index, netns_path, with_links
from isolane.run.live.traffic import host_cookie

STREAMS = 256
"""Streams that are told apart: as many as a generator sends."""
WIDE_STREAMS = 16
"""Streams, the first ones, whose flows are all checked for order ..."""
NARROW_FLOWS = 1024
"""... and how many are of each of the others: the table would be too large."""


_SHORT_S = 0.5
"""Below this a rate would tell how often it was looked, not what came."""


@dataclass
class Counting:
    """A receiver at work on some interfaces; a context manager that detaches it."""

    interfaces: tuple[str, ...]
    netns: str | None
    flows: int
    """Flows of each stream that are checked for order."""
    _receiver: _native.Receiver = field(init=False)
    _looks: list[tuple[float, int]] = field(default_factory=list)
    """When frames had come since the look before (monotonic, s), and how many by then: the first
    time, the last but one and the last. Between the first two frames came all the time; the last
    look was a while after the last frame."""

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
        """Return the frames received so far; who looks often gets an exact rate in the report."""
        total = sum(count.received for count in self._receiver.counts())
        if total > (self._looks[-1][1] if self._looks else 0):
            self._looks.append((time.monotonic(), total))
            del self._looks[1:-2]
        return total

    def gone(self) -> list[str]:
        """Return the interfaces that have vanished, and the program with them."""
        attached = self._receiver.attached()
        return [n for n, there in zip(self.interfaces, attached, strict=True) if not there]

    def report(self) -> dict[str, Any]:
        """Return counts and delays of every stream that was heard of."""
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
        """Return for how long frames came, s, and frames/s meanwhile; None: not long enough."""
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
