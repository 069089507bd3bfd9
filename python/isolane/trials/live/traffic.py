"""The generator of `isolane generate`: it sends on interfaces that the user names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from isolane import _native
from isolane.errors import MeasurementError, NotSupported, SpecError
from isolane.spec import (
    WIRE_OVERHEAD_BYTES,
    Load,
    format_pps,
    wire_bps,
)
from isolane.trials.live.generator_streams import (
    DISCARD_PORT,
    FIRST_SOURCE_PORT,
    MILLIPPS,
    pattern_keys,
    size_cycle,
)
from isolane.trials.live.plans import StreamPlan, frame_sizes

MAX_FLOWS = 100_000
MAX_STREAMS = 256
MAX_NS = 365 * 24 * 3_600_000_000_000
"""A year: longer than any measurement, and far below the limit of 64 bits of nanoseconds."""
LEAD_NS = 20_000_000
GRACE_S = 60.0
"""How long a sender may need beyond its time, where its host has none for it, until it is stuck."""


@dataclass(frozen=True)
class Target:
    """A stream's resolved addresses, as they stand in its headers."""

    ifindex: int
    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    netns: str | None = None
    line_bps: float | None = None
    """Rate of the interface, bit/s, where the driver tells it."""


def host_cookie() -> int:
    """Return the 16-bit cookie that this host writes into its frames: a hash of the boot id.

    By it the receiver knows whether sender and receiver share a clock.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return int.from_bytes(hashlib.sha256(boot).digest()[:2])


def _millipps(plan: StreamPlan, load: Load, mean_bytes: float) -> int:
    if load.unit == "x":
        raise SpecError(
            f"rate: {load} is a multiple of a capacity that is not measured here; "
            "accepted: pps, kpps, Mpps, bps, kbps, Mbps, Gbps"
        )
    rate = load.to_pps(None, mean_bytes)
    return round(rate * (plan.flows if plan.per_flow else 1) * MILLIPPS)


def native_streams(plans: Sequence[StreamPlan], targets: Sequence[Target]) -> list[_native.Stream]:
    """Translate the streams for the native module, and refuse what cannot be sent.

    Parameters
    ----------
    plans
        The streams.
    targets
        The addresses of each stream; all streams leave by one interface.

    Raises
    ------
    SpecError
        If a value or the sum of the rates is out of range.
    """
    streams, peak_bps = [], 0.0
    if len(plans) > MAX_STREAMS:
        raise SpecError(f"--stream: {len(plans)} of them; accepted: up to {MAX_STREAMS}")
    for plan, target in zip(plans, targets, strict=True):
        if not 1 <= plan.flows <= MAX_FLOWS:
            raise SpecError(f"flows: {plan.flows} is not in 1 to {MAX_FLOWS}")
        sizes = frame_sizes(plan.frame_size, target.dst_ip)
        mean = sum(s * w for s, w in sizes) / sum(w for _, w in sizes)
        segments = [
            _native.Segment(
                duration_ns=part.duration_ns,
                start_rate_millipps=_millipps(plan, part.start, mean),
                end_rate_millipps=_millipps(plan, part.end, mean),
            )
            for part in plan.schedule
        ]
        peak_millipps = max(
            max(part.start_rate_millipps, part.end_rate_millipps) for part in segments
        )
        peak_bps += wire_bps(peak_millipps / MILLIPPS, mean)
        streams.append(
            _native.Stream(
                ifindex=target.ifindex,
                src_mac=target.src_mac,
                dst_mac=target.dst_mac,
                src_ip=target.src_ip,
                src_count=1,
                dst_ip=target.dst_ip,
                first_sport=FIRST_SOURCE_PORT,
                first_dport=DISCARD_PORT,
                sizes=size_cycle(sizes),
                segments=segments,
                **pattern_keys(plan.pattern, plan.flows, target.dst_ip),
            )
        )
    line_bps = targets[0].line_bps
    if line_bps and peak_bps > line_bps * (1 + 1e-9):
        raise SpecError(
            f"rate: the streams take {peak_bps / 1e9:.3g} Gbit/s of a {line_bps / 1e9:.3g} "
            f"Gbit/s line ({WIRE_OVERHEAD_BYTES} bytes of preamble and gap per frame included)"
        )
    return streams


@dataclass
class Sending:
    """A generator at work; a context manager that ends it."""

    plans: tuple[StreamPlan, ...]
    targets: tuple[Target, ...]
    """For each plan where to."""
    core: int
    _generator: _native.Generator = field(init=False)
    end_ns: int = field(init=False)

    def __post_init__(self) -> None:
        """Load the program and check all streams."""
        self.end_ns = max(sum(s.duration_ns for s in plan.schedule) for plan in self.plans)
        if self.end_ns == 0:
            raise SpecError("duration: 0 sends nothing; accepted: any longer time, such as 10s")
        if self.end_ns > MAX_NS:
            raise SpecError("duration: longer than a year; accepted: up to 8760h in all")
        streams = native_streams(self.plans, self.targets)
        try:
            self._generator = _native.Generator(
                netns=self.targets[0].netns,
                core=self.core,
                cookie=host_cookie(),
                streams=streams,
                window_start_ns=0,
                window_end_ns=self.end_ns,
                end_ns=self.end_ns,
            )
        except _native.UnsupportedError as error:
            raise NotSupported(f"not supported on this host: {error}") from error
        except _native.NativeError as error:
            raise SpecError(str(error)) from error

    def __enter__(self) -> Self:
        try:
            self._generator.start(_native.monotonic_ns() + LEAD_NS)
        except _native.NativeError as error:
            raise SpecError(str(error)) from error
        return self

    def __exit__(self, *_exception: object) -> None:
        self._generator.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the schedule; true when it is reached."""
        return self._generator.wait(timeout_s)

    def stop(self) -> None:
        """End the kernel's call; after this the report is final.

        Raises
        ------
        MeasurementError
            If the kernel had ended it before.
        """
        try:
            self._generator.stop()
        except _native.NativeError as error:
            raise MeasurementError(str(error)) from error

    def report(self, elapsed_s: float | None = None) -> dict[str, object]:
        """Return the audit: frames asked for and sent, rates in frames/s, departure error in ns."""
        raw = self._generator.report()
        seconds = elapsed_s if elapsed_s is not None else self.end_ns / 1e9
        sent = sum(stream.sent for stream in raw.streams)
        missed = sum(stream.missed for stream in raw.streams)
        return {
            "seconds": seconds,
            "frames": sent,
            "bytes": sum(stream.sent_window_bytes for stream in raw.streams),
            "scheduled": sent + missed,
            "missed": missed,
            "rate_pps": sent / seconds if seconds else 0.0,
            "rate_error": sent / (sent + missed) - 1 if sent + missed else 0.0,
            "departure_error_ns": raw.departure.as_dict(),
            "streams": [
                _audit(plan, target, counts.as_dict(), seconds)
                for plan, target, counts in zip(self.plans, self.targets, raw.streams, strict=True)
            ],
            "kernel_calls": raw.calls,
            "failed": raw.failed,
        }


def _audit(
    plan: StreamPlan, target: Target, counts: dict[str, int], seconds: float
) -> dict[str, object]:
    """Return the audit of one stream; its rate is the mean over its own schedule."""
    sent, scheduled = counts["sent"], counts["sent"] + counts["missed"]
    own_s = min(seconds, sum(part.duration_ns for part in plan.schedule) / 1e9)
    return {
        "to": target.dst_ip,
        "from": target.src_ip,
        "mac": target.dst_mac,
        "scheduled": scheduled,
        **counts,
        "rate_pps": sent / own_s if own_s else 0.0,
        "rate_error": sent / scheduled - 1 if scheduled else 0.0,
    }


def describe(report: dict[str, Any]) -> str:
    """Describe the audit in two lines, and one more for each of several streams."""
    departure = report["departure_error_ns"]
    p50, p99 = departure["p50_ns"], departure["p99_ns"]
    times = "no frames" if p50 is None else f"p50 {p50:.0f} ns, p99 {p99:.0f} ns"
    took = f"{report['seconds']:.3f} s"
    lines = [
        f"sent {report['frames']} of {report['scheduled']} frames in {took}: {_rate(report)}",
        f"departure error: {times}, max {departure['max_ns']} ns",
    ]
    streams = report["streams"] if len(report["streams"]) > 1 else []
    lines += [
        f"stream {number} to {stream['to']}: sent {stream['sent']} of {stream['scheduled']} "
        f"frames: {_rate(stream)}"
        for number, stream in enumerate(streams)
    ]
    return "\n".join(lines)


def _rate(report: dict[str, Any]) -> str:
    return f"{format_pps(report['rate_pps'])} ({100 * report['rate_error']:+.4f} %)"
