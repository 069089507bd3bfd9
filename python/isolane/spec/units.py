"""Parses, formats and compares rates and times with units.

A rate is ``pps`` (frames per second), ``bps`` (bits per second) or ``x`` (multiples of the
capacity measured in the same run). ``bps`` counts the bits of the frame with its 4-byte checksum,
not the preamble and the gap between frames (RFC 2544 counts frames; the 20 bytes more that a frame
takes on the wire matter only for the line rate, see :data:`WIRE_OVERHEAD_BYTES`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from isolane.errors import SpecError
from isolane.spec.problems import Refused, nearest, show

RateUnit = Literal["pps", "bps", "x", "max", "rps", "conn"]

WIRE_OVERHEAD_BYTES: Final = 20
"""Preamble (7), start of frame (1) and gap (12) that each Ethernet frame takes beside itself."""

RATE_UNITS: Final[dict[str, tuple[RateUnit, int]]] = {
    "pps": ("pps", 0),
    "kpps": ("pps", 3),
    "Mpps": ("pps", 6),
    "bps": ("bps", 0),
    "kbps": ("bps", 3),
    "Mbps": ("bps", 6),
    "Gbps": ("bps", 9),
    "x": ("x", 0),
}
"""Accepted units of rates: what they count and the power of ten."""

DURATION_UNITS: Final[dict[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Accepted units of durations, ns."""

REQUEST_RATE_UNITS: Final[dict[str, int]] = {"rps": 0, "krps": 3, "Mrps": 6}
"""Accepted units of rates of requests a second: the power of ten."""
CONNECTIONS: Final = "conn"
"""Unit of a closed loop: so many requests under way at any time, each on its connection."""
MAX_CONNECTIONS: Final = 8_000
"""Of each client: as many as its load balancer takes."""
REQUEST_RATES_ACCEPTED: Final = "a number with a unit (rps, krps, Mrps) such as 500rps"

RATES_ACCEPTED: Final = f"a number with a unit ({', '.join(RATE_UNITS)}) such as 400kpps or 0.5x"
BIT_RATES_ACCEPTED: Final = "a number with a unit (bps, kbps, Mbps, Gbps) such as 10Gbps"
DURATIONS_ACCEPTED: Final = f"a number with a unit ({', '.join(DURATION_UNITS)}) such as 500ms"

# The exponent has at most two digits: with more, a short text could ask for gigabytes of zeros.
_QUANTITY = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)\s?([^\s0-9.]*)")
_SMALLEST = 1e-6
MAX: Final = "max"
"""As much as the generator can send, beside the other routers' loads."""
_LARGEST = {"pps": 1e9, "bps": 1e13, "x": 1e3}


@dataclass(frozen=True, order=True)
class Load:
    """An offered load or another rate, in the base unit.

    Parameters
    ----------
    value : float
        Not negative, finite.
    unit : "pps", "bps", "x", "max", "rps" or "conn"
        Frames per second, frame bits per second, multiples of the capacity, shares of what the
        generator can send beside the other routers' loads, web requests per second, or web
        requests under way at any time (a closed loop).
    """

    value: float
    unit: RateUnit

    def to_pps(self, capacity_pps: float | None, mean_frame_bytes: float) -> float:
        """Return the rate in frames per second, that of web requests in requests per second.

        That of a closed loop is not known beforehand: 0.

        Parameters
        ----------
        capacity_pps : float or None
            What 1x is, frames/s; needed for the unit ``x`` only.
        mean_frame_bytes : float
            Mean frame size with the 4-byte checksum, bytes; needed for ``bps`` only.

        Raises
        ------
        ValueError
            If the load is in ``x`` and no capacity is known, or it is the generator's maximum.
        """
        if self.unit in ("pps", "rps"):
            return self.value
        if self.unit == "conn":
            return 0.0
        if self.unit == "bps":
            return self.value / (8 * mean_frame_bytes)
        if capacity_pps is None or self.unit == "max":
            msg = f"{self} has no meaning without a measured capacity"
            raise ValueError(msg)
        return self.value * capacity_pps

    def __str__(self) -> str:
        """Return the load as it is written in an experiment."""
        return format_rate(self)


def read_rate(value: object) -> Load:
    """Return ``value`` as a :class:`Load`, or raise :class:`Refused`."""
    if isinstance(value, Load):
        return value
    number, unit = _split(value, "rate", tuple(RATE_UNITS), RATES_ACCEPTED)
    base, power = RATE_UNITS[unit]
    result = float(number.scaleb(power))
    if 0 < result < _SMALLEST:
        raise Refused(
            f"{show(value)} is too small", f"0{base}, or {Load(_SMALLEST, base)} and more"
        )
    if result > _LARGEST[base]:
        raise Refused(f"{show(value)} is too large", f"at most {Load(_LARGEST[base], base)}")
    return Load(result, base)


def read_load(value: object) -> Load:
    """Return ``value``, a rate, ``max``, or web requests, as a :class:`Load`.

    Raises
    ------
    Refused
        If it is none of them.
    """
    if value == MAX:
        return Load(1.0, "max")
    if isinstance(value, str) and value.strip().endswith(tuple(REQUEST_RATE_UNITS)):
        return Load(_request_rate(value), "rps")
    if isinstance(value, str) and value.strip().endswith(CONNECTIONS):
        return Load(_connections(value), "conn")
    return read_rate(value)


def _connections(value: str) -> float:
    accepted = f"1{CONNECTIONS} to {MAX_CONNECTIONS}{CONNECTIONS}, a whole number"
    number, _ = _split(value, "number of connections", (CONNECTIONS,), accepted)
    if number != number.to_integral_value() or not 1 <= number <= MAX_CONNECTIONS:
        raise Refused(f"{show(value)} is out of range", accepted)
    return float(number)


def _request_rate(value: str) -> float:
    number, unit = _split(
        value, "rate of requests", tuple(REQUEST_RATE_UNITS), REQUEST_RATES_ACCEPTED
    )
    rate = float(number.scaleb(REQUEST_RATE_UNITS[unit]))
    if rate and not 0.001 <= rate <= 1e7:
        raise Refused(f"{show(value)} is out of range", "0rps, or 0.001rps to 10Mrps")
    return rate


def read_bit_rate(value: object) -> float:
    """Return a line rate in bit/s, or raise :class:`Refused`."""
    names = tuple(name for name, (base, _) in RATE_UNITS.items() if base == "bps")
    number, unit = _split(value, "bit rate", names, BIT_RATES_ACCEPTED)
    result = float(number.scaleb(RATE_UNITS[unit][1]))
    if not 1e4 <= result <= 1e12:
        raise Refused(f"{show(value)} is not the rate of a line", "10kbps to 1000Gbps")
    return result


def read_duration_ns(value: object) -> int:
    """Return a duration in whole nanoseconds, or raise :class:`Refused`."""
    number, unit = _split(value, "duration", tuple(DURATION_UNITS), DURATIONS_ACCEPTED)
    result = number * DURATION_UNITS[unit]
    if result != result.to_integral_value():
        raise Refused(f"{show(value)} is not a whole number of nanoseconds", DURATIONS_ACCEPTED)
    return int(result)


def parse_rate(text: str) -> Load:
    """Return ``text``, such as ``400kpps``, ``1.5Mbps`` or ``0.27x``, as a rate.

    Raises
    ------
    SpecError
        If the number or the unit is not accepted; the message says what is.
    """
    try:
        return read_rate(text)
    except Refused as refused:
        raise SpecError(str(refused)) from None


def parse_duration_ns(text: str) -> int:
    """Return ``text``, such as ``500ms`` or ``1.5s``, in nanoseconds.

    Raises
    ------
    SpecError
        If the number or the unit is not accepted; the message says what is.
    """
    try:
        return read_duration_ns(text)
    except Refused as refused:
        raise SpecError(str(refused)) from None


def parse_duration_within(option: str, text: str, low: str, high: str) -> int:
    """Return the duration that an option was given, in nanoseconds.

    Parameters
    ----------
    option
        Its name, for the message: ``--every``.
    low, high
        The shortest and the longest that is accepted, as somebody would write them.

    Raises
    ------
    SpecError
        If it is no duration, or out of range.
    """
    try:
        duration_ns = read_duration_ns(text)
    except Refused as refused:
        raise SpecError(f"{option}: {refused}") from None
    if not read_duration_ns(low) <= duration_ns <= read_duration_ns(high):
        raise SpecError(f"{option} {text}: out of range; accepted: {low} to {high}")
    return duration_ns


def parse_request_rate(option: str, text: str) -> int:
    """Return ``text``, such as ``500rps``, in thousandths of a request a second.

    Parameters
    ----------
    option
        Its name, for the message: ``--rate``.

    Raises
    ------
    SpecError
        If it is no rate of requests, or out of range.
    """
    try:
        number, unit = _split(
            text, "rate of requests", tuple(REQUEST_RATE_UNITS), REQUEST_RATES_ACCEPTED
        )
    except Refused as refused:
        raise SpecError(f"{option}: {refused}") from None
    millirps = number.scaleb(REQUEST_RATE_UNITS[unit] + 3)
    if not 1 <= millirps <= 10**10:
        raise SpecError(f"{option} {text}: out of range; accepted: 0.001rps to 10Mrps")
    return round(millirps)


def format_rate(load: Load) -> str:
    """Return a rate so that :func:`parse_rate` gives exactly the same value again."""
    if load.unit == "max":
        return MAX
    units = [(name, power) for name, (base, power) in RATE_UNITS.items() if base == load.unit]
    if load.unit == "rps":
        units = list(REQUEST_RATE_UNITS.items())
    if load.unit == "conn":
        units = [(CONNECTIONS, 0)]
    exact = Decimal(repr(float(load.value)))
    name, power = units[0]
    for larger, its_power in units[1:]:
        if load.value >= 10**its_power:
            name, power = larger, its_power
    return f"{_plain(exact.scaleb(-power))}{name}"


def format_duration_ns(duration_ns: int) -> str:
    """Return a duration so that :func:`parse_duration_ns` gives exactly the same value again."""
    fitting = [name for name, ns in DURATION_UNITS.items() if duration_ns % ns == 0]
    name = fitting[-1] if duration_ns else "ms"
    return f"{duration_ns // DURATION_UNITS[name]}{name}"


def format_pps(rate_pps: float | None) -> str:
    """Return a packet rate for people: three digits, such as ``712 kpps``; None and NaN ``n/a``."""
    return _scaled(rate_pps, ((1e9, "Gpps"), (1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")))


def format_rps(rate_rps: float | None) -> str:
    """Return requests a second for people: three digits, such as ``2.5 krps``; None ``n/a``."""
    return _scaled(rate_rps, ((1e6, "Mrps"), (1e3, "krps"), (1.0, "rps")))


def format_bps(rate_bps: float | None) -> str:
    """Return a bit rate for people: three digits, such as ``9.41 Gbps``; None and NaN ``n/a``."""
    return _scaled(rate_bps, ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")))


def format_ns(time_ns: float | None) -> str:
    """Return a time for people: three digits, such as ``85.3 µs``; None and NaN give ``n/a``."""
    if time_ns is not None and math.isinf(time_ns):
        return "inf" if time_ns > 0 else "-inf"  # a lost frame's
    return _scaled(time_ns, ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")))


def wire_bps(rate_pps: float, mean_frame_bytes: float) -> float:
    """Return what a packet rate takes on an Ethernet line, bit/s, preamble and gap included."""
    return rate_pps * (mean_frame_bytes + WIRE_OVERHEAD_BYTES) * 8


def _split(value: object, what: str, units: tuple[str, ...], accepted: str) -> tuple[Decimal, str]:
    """Return number and unit of a quantity; the unit is one of ``units``."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Refused(f"{show(value)} is not a {what}", accepted)
    if not isinstance(value, str):
        raise Refused(f"{show(value)} has no unit", accepted)
    match = _QUANTITY.fullmatch(value.strip().replace("µ", "u").replace("μ", "u"))
    if match is None:
        raise Refused(f"{show(value)} is not a {what}", accepted)
    number, unit = match.groups()
    if not unit:
        raise Refused(f"{show(value)} has no unit", accepted)
    if unit not in units:
        what = f"unit {show(unit)} of {show(value)} is not known"
        raise Refused(what, accepted + nearest(unit, units))
    return Decimal(number), unit


def _plain(number: Decimal) -> str:
    """Return a decimal number without an exponent and without zeros at its end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float | None, steps: tuple[tuple[float, str], ...]) -> str:
    """Return a value with three digits in the largest unit that leaves at least 1 before it."""
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return f"{value} {steps[-1][1]}"
    for scale, unit in steps:
        number = float(f"{value / scale:.3g}")
        if abs(number) >= 1:
            return f"{number:g} {unit}"
    return f"{value:.3g} {steps[-1][1]}"
