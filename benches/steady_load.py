"""Frames at rates that stay the same, sent into a wire that a bench has made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isolane import _native
from isolane.errors import MeasurementError
from isolane.trials.live.cores import awake
from isolane.trials.live.generator_streams import MILLIPPS

from benches.common import GENERATOR_CORE

FLOWS = 100
_LEAD_NS, WARMUP_NS = 50_000_000, 200_000_000
_ENDS_S = 5.0


@dataclass(frozen=True)
class Load:
    """UDP of 64-byte frames, 100 flows, through one router."""

    pps: float
    src_mac: str
    dst_mac: str
    """Of the router."""
    src_ip: str
    dst_ip: str

    def stream(self, ifindex: int, duration_ns: int) -> _native.Stream:
        """Return it as the generator takes it."""
        rate = round(self.pps * MILLIPPS)
        return _native.Stream(
            ifindex=ifindex,
            src_mac=self.src_mac,
            dst_mac=self.dst_mac,
            src_ip=self.src_ip,
            src_count=1,
            dst_ip=self.dst_ip,
            first_sport=1024,
            first_dport=9,
            flows=FLOWS,
            sizes=[64],
            segments=[
                _native.Segment(
                    duration_ns=duration_ns, start_rate_millipps=rate, end_rate_millipps=rate
                )
            ],
        )


def send(
    netns: Path, ifindex: int, loads: Sequence[Load], cookie: int, seconds: float
) -> list[int]:
    """Send for 0.2 s and so many more; return how many frames of each load were sent.

    Raises
    ------
    MeasurementError
        If the generator does not finish.
    """
    end_ns = WARMUP_NS + round(seconds * 1e9)
    source = _native.Generator(
        netns=str(netns),
        core=GENERATOR_CORE,
        cookie=cookie,
        streams=[load.stream(ifindex, end_ns) for load in loads],
        window_start_ns=WARMUP_NS,
        window_end_ns=end_ns,
        end_ns=end_ns,
    )
    with awake():
        source.start(_native.monotonic_ns() + _LEAD_NS)
        try:
            if not source.wait(seconds + _ENDS_S):
                raise MeasurementError("the generator had not finished in time")
        finally:
            source.stop()
    return [stream.sent for stream in source.report().streams]
