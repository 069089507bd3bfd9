"""Parses the streams and schedules that `isolane generate` is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from isolane import _native
from isolane.errors import SpecError
from isolane.spec import Load, Traffic, parse_duration_ns, parse_rate
from isolane.spec.patterns import PLAIN, Pattern, read_pattern
from isolane.spec.problems import Refused

MAX_FRAME_BYTES = 1518
KEYS: Final = ("rate", "flow-rate", "schedule", "size", "flows", "pattern", "to", "from", "mac")
"""Keys that a single stream can set."""


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
    """Whether the rates are those of each flow instead of all flows together."""
    to: str | None = None
    """Destination address."""
    source: str | None = None
    """Source address; None: the interface's own."""
    mac: str | None = None
    """Destination MAC address; None: the next hop's."""
    pattern: Pattern = PLAIN
    """When frames are sent, and what is unusual about them."""


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
        start, dash, end = rates.partition("-")
        first = parse_rate(start)
        segments.append(
            Segment(parse_duration_ns(duration), first, parse_rate(end) if dash else first)
        )
    return tuple(segments)


def parse_stream(text: str, default: StreamPlan) -> StreamPlan:
    """Read ``key=value`` pairs (see `KEYS`) that differ from the default.

    Raises
    ------
    SpecError
        For an unknown key or a value that cannot be read.
    """
    values = {}
    # A schedule holds commas itself, so pairs are separated by spaces or semicolons.
    for pair in text.replace(";", " ").split():
        key, equals, value = pair.partition("=")
        if not equals or key not in KEYS:
            accepted = ", ".join(f"{known}=" for known in KEYS)
            raise SpecError(
                f"stream: {pair!r} is not known; accepted: {accepted}, separated by spaces"
            )
        if key in values:
            raise SpecError(f"stream: {text!r} has {key}= twice")
        values[key] = value
    duration_ns = sum(segment.duration_ns for segment in default.schedule)
    schedule, per_flow = default.schedule, default.per_flow
    given = [key for key in ("rate", "flow-rate", "schedule") if key in values]
    if len(given) > 1:
        raise SpecError(f"stream: {text!r} has {given[0]}= and {given[1]}=; accepted: one of them")
    rate = values.get("rate", values.get("flow-rate"))
    if rate is not None:
        load = parse_rate(rate)
        schedule, per_flow = (Segment(duration_ns, load, load),), "flow-rate" in values
    if "schedule" in values:
        schedule = parse_schedule(values["schedule"])
    if not given and not any(part.start.value or part.end.value for part in schedule):
        raise SpecError(
            f"stream: {text!r} has no rate, and there is no other for all; accepted: one of rate=, "
            "flow-rate= and schedule=, or --rate, --flow-rate or --schedule"
        )
    return StreamPlan(
        schedule,
        values.get("size", default.frame_size),
        _whole("flows", values["flows"]) if "flows" in values else default.flows,
        per_flow,
        values.get("to", default.to),
        values.get("from", default.source),
        values.get("mac", default.mac),
        parse_pattern(values["pattern"]) if "pattern" in values else default.pattern,
    )


def parse_pattern(text: str) -> Pattern:
    """Read a traffic pattern; a colon may stand for the space in ``bursts 1ms/4ms``.

    Raises
    ------
    SpecError
        If it is none, or one that other options are for.
    """
    try:
        pattern = read_pattern(text.replace(":", " "))
    except Refused as error:
        raise SpecError(str(error)) from None
    if pattern.timing.kind in ("ramp", "from"):
        example = {"ramp": "10s:0pps-1Mpps", "from": "5s:0pps,5s:1Mpps"}[pattern.timing.kind]
        raise SpecError(f"pattern: for {pattern.timing.kind} give a schedule, such as {example}")
    for kind in ("no-route", "to-router"):
        if kind in pattern.frames:
            raise SpecError(f"pattern: for {kind} give such an address as the destination (to)")
    return pattern


def _whole(key: str, text: str) -> int:
    # ASCII and short: int() takes digits of other scripts, and refuses thousands of them.
    if not re.fullmatch(r"[0-9]{1,1000}", text):
        raise SpecError(f"{key}: {text[:40]!r} is not a whole number")
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
