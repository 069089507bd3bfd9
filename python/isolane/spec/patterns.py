"""Traffic patterns: when frames are sent, and what they are, beside how many and how long."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    WrapSerializer,
)

from isolane.spec.fields import as_list, as_written
from isolane.spec.problems import Refused, listed, nearest, show
from isolane.spec.units import format_duration_ns, parse_duration_ns, read_duration_ns

FrameKind = Literal["new-flows", "fragments", "ttl-expired", "no-route", "to-router"]
FRAME_KINDS: Final[tuple[FrameKind, ...]] = get_args(FrameKind)
ENDING: Final[tuple[FrameKind, ...]] = ("ttl-expired", "no-route", "to-router")
"""Frames that no router passes on: it answers them, or drops them."""
TimingKind = Literal["constant", "poisson", "bursts", "ramp", "from"]
TIMING_KINDS: Final[tuple[TimingKind, ...]] = get_args(TimingKind)
CONSTANT: Final = "constant"
"""The word for ordinary frames of known flows, at a constant rate."""
_SHORTEST_NS, _LONGEST_NS = parse_duration_ns("100us"), parse_duration_ns("1s")
_LATEST_NS = parse_duration_ns("1h")


@dataclass(frozen=True)
class Timing:
    """When frames are sent; the mean rate is the load, whatever the kind."""

    kind: TimingKind = "constant"
    on_ns: int = 0
    """Of bursts: how long one lasts, ns."""
    period_ns: int = 0
    """Of bursts: from the beginning of one to that of the next, ns."""
    from_ns: int = 0
    """Of ``from``: when the first frame is sent, ns from the start of the window."""

    @property
    def steady(self) -> bool:
        """Whether the rate is the same all the time, but for chance."""
        return self.kind in ("constant", "poisson")

    def within(self, window_ns: int) -> Timing:
        """Return what is left of it in a window: ``from`` a time beyond its end is for longer ones.

        Trials beside those of the experiment, such as the null DUT's, have such windows.
        """
        return EVENLY if self.kind == "from" and self.from_ns >= window_ns else self

    def start_ns(self, window_ns: int, label: str) -> int:
        """Return when ``from`` begins in a trial, ns from the start of its window.

        That is up to a hundredth of the time that is left later than asked for: else all trials
        were in step with whatever comes at equal intervals.

        Parameters
        ----------
        label
            Of trial and router: the moment follows from it.
        """
        left_ns = window_ns - self.from_ns
        return self.from_ns + left_ns * zlib.crc32(label.encode()) // (100 * 2**32)

    def while_sending_pps(self, load_pps: float, window_ns: int) -> float:
        """Return the rate of ``from`` while it sends, frames/s: the load is the window's mean.

        Of bursts and ramps the mean as well: what is more for a moment waits, or is lost.
        """
        left_ns = window_ns - self.within(window_ns).from_ns
        return load_pps * window_ns / left_ns

    def __str__(self) -> str:
        if self.kind == "from":
            return f"from {format_duration_ns(self.from_ns)}"
        if self.kind != "bursts":
            return self.kind
        return f"bursts {format_duration_ns(self.on_ns)}/{format_duration_ns(self.period_ns)}"


EVENLY: Final = Timing()
BURSTS: Final = Timing("bursts", 1_000_000, 4_000_000)
"""Bursts of which nothing more is said."""


@dataclass(frozen=True)
class Pattern:
    """What is unusual about the frames that a router is sent; nothing by default."""

    frames: tuple[FrameKind, ...] = ()
    timing: Timing = EVENLY

    @property
    def ends(self) -> bool:
        """Whether none of the frames leaves the router again."""
        return any(kind in ENDING for kind in self.frames)

    def __str__(self) -> str:
        timing = () if self.timing == EVENLY else (str(self.timing),)
        return "+".join((*timing, *self.frames)) or CONSTANT


PLAIN: Final = Pattern()


def read_pattern(value: object) -> Pattern:
    """Read one word, or several with ``+`` between them.

    Raises
    ------
    Refused
        If a word is not known, given twice, or two of them contradict each other.
    """
    if isinstance(value, Pattern):
        return value
    if value == CONSTANT:
        return PLAIN
    frames: list[FrameKind] = []
    timing = EVENLY
    for word in value.split("+") if isinstance(value, str) else [value]:
        found = _read_word(word)
        if isinstance(found, Timing):
            if timing != EVENLY:
                both = listed((str(timing), str(found)))
                raise Refused(f"patterns {both} together", f"one of {listed(TIMING_KINDS)}")
            timing = found
            continue
        if found in frames:
            raise Refused(f"pattern {show(found)} is given twice", "each word once")
        frames.append(found)
    ends = [kind for kind in frames if kind in ENDING]
    if len(ends) > 1:
        raise Refused(f"patterns {listed(ends)} together", f"one of {listed(ENDING)}")
    return Pattern(tuple(sorted(frames, key=FRAME_KINDS.index)), timing)


def _read_word(word: object) -> FrameKind | Timing:
    text = word.strip() if isinstance(word, str) else word
    kind = next((known for known in FRAME_KINDS if known == text), None)
    if kind is not None:
        return kind
    if text in ("poisson", "ramp"):
        return Timing("poisson" if text == "poisson" else "ramp")
    if text == "bursts":
        return BURSTS
    if isinstance(text, str) and text.startswith("bursts "):
        return _read_bursts(text)
    if isinstance(text, str) and (text == "from" or text.startswith("from ")):
        return _read_from(text)
    known = (CONSTANT, *TIMING_KINDS[1:], *FRAME_KINDS)
    hint = nearest(text, known) if isinstance(text, str) else ""
    accepted = f"{listed(known)}, or several such as {EXAMPLE}"
    raise Refused(f"pattern {show(word)} is not known", accepted + hint)


def _read_bursts(text: str) -> Timing:
    accepted = (
        f"bursts ON/PERIOD such as {BURSTS}: ON from 100us, PERIOD longer than that and up to 1s"
    )
    found = re.fullmatch(r"bursts +([^/ ]+) ?/ ?([^/ ]+)", text)
    if found is None:
        raise Refused(f"{show(text)} is not how long bursts are, and how often", accepted)
    on_ns, period_ns = read_duration_ns(found[1]), read_duration_ns(found[2])
    if not _SHORTEST_NS <= on_ns < period_ns <= _LONGEST_NS:
        raise Refused(f"{show(text)} is out of range", accepted)
    return Timing("bursts", on_ns, period_ns)


def _read_from(text: str) -> Timing:
    accepted = "from TIME such as from 2s: TIME from 100us, and shorter than the window"
    from_ns = read_duration_ns(text.removeprefix("from").strip()) if text != "from" else 0
    if not _SHORTEST_NS <= from_ns <= _LATEST_NS:
        raise Refused(f"{show(text)} does not say from when on, or is out of range", accepted)
    return Timing("from", from_ns=from_ns)


EXAMPLE: Final = "bursts+ttl-expired"
_TIME: Final = r"[0-9.]+ ?(us|µs|ms|s)"
_TIMING: Final = rf"poisson|ramp|bursts( {_TIME} ?/ ?{_TIME})?|from [0-9.]+ ?(us|µs|ms|s|min|h)"
_WORD: Final = rf"({'|'.join(FRAME_KINDS)}|{_TIMING})"
OnePattern = Annotated[
    Pattern,
    PlainValidator(read_pattern),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": rf"^({CONSTANT}|{_WORD}(\s?\+\s?{_WORD})*)$"},
    ),
]
PatternValues = Annotated[
    tuple[OnePattern, ...],
    BeforeValidator(as_list, json_schema_input_type=OnePattern | list[OnePattern]),
    WrapSerializer(as_written),
]
