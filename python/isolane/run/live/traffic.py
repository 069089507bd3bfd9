"""Traffic for interfaces that Isolane did not build: what `isolane generate` sends."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from isolane import _native
from isolane.errors import MeasurementError, NotSupported, SpecError
from isolane.run.live.streams import DISCARD_PORT, FIRST_SOURCE_PORT, MILLIPPS, size_cycle
from isolane.spec import (
    WIRE_OVERHEAD_BYTES,
    Load,
    Traffic,
    format_pps,
    parse_duration_ns,
    parse_rate,
    wire_bps,
)

MAX_FLOWS = 100_000
MAX_FRAME_BYTES = 1518
LEAD_NS = 20_000_000
GRACE_S = 10.0


@dataclass(frozen=True)
class Segment:
    """A part of a schedule: the rate goes linearly from one value to the other."""

    duration_ns: int
    start: Load
    end: Load


@dataclass(frozen=True)
class StreamPlan:
    """One stream of frames, as the user asks for it."""

    schedule: tuple[Segment, ...]
    frame_size: str = "64"
    flows: int = 1
    per_flow: bool = False
    """Rates are those of each flow, not of all together."""


@dataclass(frozen=True)
class Target:
    """Where frames go, resolved to what stands in their headers."""

    ifindex: int
    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    netns: str | None = None
    line_bps: float | None = None
    """Rate of the interface, bit/s, where the driver tells it."""


def host_cookie() -> int:
    """Return the mark of this host's frames, 16 bits.

    The receiver knows by it whether the sender's clock is its own: a hash of the boot's id.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    return int.from_bytes(hashlib.sha256(boot).digest()[:2])


def parse_schedule(text: str) -> tuple[Segment, ...]:
    """Read steps and ramps such as ``5s:100kpps,10s:100kpps-1Mpps,5s:0pps``.

    Raises
    ------
    SpecError
        Naming the part that cannot be read.
    """
    segments = []
    for part in text.split(","):
        duration, colon, rates = part.strip().partition(":")
        if not colon:
            raise SpecError(
                f"schedule: {part!r} is not DURATION:RATE or DURATION:RATE-RATE, "
                "such as 10s:100kpps or 10s:0pps-1Mpps"
            )
        start, _, end = rates.partition("-")
        first = parse_rate(start)
        segments.append(
            Segment(parse_duration_ns(duration), first, parse_rate(end) if end else first)
        )
    return tuple(segments)


def parse_stream(text: str, default: StreamPlan) -> StreamPlan:
    """Read ``key=value`` pairs (rate, schedule, size, flows) that differ from the default.

    Raises
    ------
    SpecError
        For an unknown key or a value that cannot be read.
    """
    values = {}
    # A schedule holds commas itself, so pairs are separated by spaces or semicolons.
    for pair in text.replace(";", " ").split():
        key, equals, value = pair.partition("=")
        if not equals or key not in ("rate", "schedule", "size", "flows", "flow-rate"):
            raise SpecError(
                f"stream: {pair!r} is not known; accepted: rate=, flow-rate=, schedule=, size=, "
                "flows=, separated by spaces"
            )
        values[key] = value
    duration_ns = sum(segment.duration_ns for segment in default.schedule)
    schedule, per_flow = default.schedule, default.per_flow
    rate = values.get("rate") or values.get("flow-rate")
    if rate is not None:
        load = parse_rate(rate)
        schedule, per_flow = (Segment(duration_ns, load, load),), "flow-rate" in values
    if "schedule" in values:
        schedule = parse_schedule(values["schedule"])
    if not any(part.start.value or part.end.value for part in schedule) and not (
        {"rate", "flow-rate", "schedule"} & values.keys()
    ):
        raise SpecError(
            f"stream: {text!r} has no rate, and there is no other for all; accepted: one of rate=, "
            "flow-rate= and schedule=, or --rate, --flow-rate or --schedule"
        )
    return StreamPlan(
        schedule,
        values.get("size", default.frame_size),
        _whole("flows", values["flows"]) if "flows" in values else default.flows,
        per_flow,
    )


def _whole(key: str, text: str) -> int:
    if not text.isdigit():
        raise SpecError(f"{key}: {text!r} is not a whole number")
    return int(text)


def frame_sizes(text: str, dst_ip: str) -> tuple[tuple[int, int], ...]:
    """Read a frame size or ``imix``, within what the address family allows.

    Raises
    ------
    SpecError
        With the limits, and why IPv6 has a higher one.
    """
    min_bytes = _native.min_frame_bytes(dst_ip)
    if text == "imix":
        return Traffic(frame_size="imix", ip=6 if ":" in dst_ip else 4).frame_sizes()
    size = _whole("frame size", text)
    if not min_bytes <= size <= MAX_FRAME_BYTES:
        why = ""
        if ":" in dst_ip and size < min_bytes:
            why = ": IPv6 and UDP headers and the 18-byte signature take more (RFC 5180, 5.1.1)"
        raise SpecError(f"frame size: {size} is not in {min_bytes} to {MAX_FRAME_BYTES} bytes{why}")
    return ((size, 1),)


def _millipps(plan: StreamPlan, load: Load, mean_bytes: float) -> int:
    if load.unit == "x":
        raise SpecError(
            f"rate: {load} is a multiple of a capacity that is not measured here; "
            "accepted: pps, kpps, Mpps, bps, kbps, Mbps, Gbps"
        )
    rate = load.to_pps(None, mean_bytes)
    return round(rate * (plan.flows if plan.per_flow else 1) * MILLIPPS)


def native_streams(plans: Sequence[StreamPlan], target: Target) -> list[_native.Stream]:
    """Translate the streams; everything that cannot be sent is refused here.

    Raises
    ------
    SpecError
        If a value or the sum of the rates is out of range.
    """
    streams, peak_bps = [], 0.0
    for plan in plans:
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
                flows=plan.flows,
                sizes=size_cycle(sizes),
                segments=segments,
            )
        )
    if target.line_bps and peak_bps > target.line_bps * (1 + 1e-9):
        raise SpecError(
            f"rate: the streams take {peak_bps / 1e9:.3g} Gbit/s of a {target.line_bps / 1e9:.3g} "
            f"Gbit/s line ({WIRE_OVERHEAD_BYTES} bytes of preamble and gap per frame included)"
        )
    return streams


@dataclass
class Sending:
    """A generator at work; a context manager that ends it."""

    plans: tuple[StreamPlan, ...]
    target: Target
    core: int
    _generator: _native.Generator = field(init=False)
    end_ns: int = field(init=False)

    def __post_init__(self) -> None:
        """Load the program and check all streams."""
        self.end_ns = max(sum(s.duration_ns for s in plan.schedule) for plan in self.plans)
        if self.end_ns == 0:
            raise SpecError("duration: 0 sends nothing; accepted: any longer time, such as 10s")
        usable = sorted(os.sched_getaffinity(0))
        if self.core not in usable:
            listed = ", ".join(map(str, usable))
            raise SpecError(f"--core {self.core}: there is no such core to use; accepted: {listed}")
        streams = native_streams(self.plans, self.target)
        try:
            self._generator = _native.Generator(
                netns=self.target.netns,
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
            "streams": [stream.as_dict() for stream in raw.streams],
            "kernel_calls": raw.calls,
            "failed": raw.failed,
        }


def describe(report: dict[str, object]) -> str:
    """Say the audit in two lines."""
    departure = report["departure_error_ns"]
    assert isinstance(departure, dict)
    p50, p99 = departure["p50_ns"], departure["p99_ns"]
    rate, error = float(str(report["rate_pps"])), float(str(report["rate_error"]))
    times = "no frames" if p50 is None else f"p50 {p50:.0f} ns, p99 {p99:.0f} ns"
    return (
        f"sent {report['frames']} of {report['scheduled']} frames in "
        f"{report['seconds']:.3f} s: {format_pps(rate)} ({100 * error:+.4f} %)\n"
        f"departure error: {times}, greatest {departure['max_ns']} ns"
    )


def check_source(src_ip: str, dst_ip: str) -> None:
    """Refuse what is no address, and addresses of two families.

    Raises
    ------
    SpecError
        Naming it, or both.
    """
    try:
        source = ipaddress.ip_address(src_ip)
    except ValueError:
        raise SpecError(f"--from {src_ip}: not an IP address") from None
    if source.version != ipaddress.ip_address(dst_ip).version:
        raise SpecError(f"--from {src_ip} and --to {dst_ip} are not of the same IP version")
