"""The types of a policy's values: how each is read, refused, written and described."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Final, Literal, get_args

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from isolane.spec.fields import whole, whole_schema, word, words_schema
from isolane.spec.problems import Refused, listed, nearest, show
from isolane.spec.units import Load, format_rate, read_rate, wire_bps

MAX_POLICY_ROUTERS: Final = 1024
MAX_CORES: Final = 1024
RESERVED_FRAME_BYTES: Final = 1518
"""Frame size, with the checksum, that a ``rate_min`` in frames per second is reserved for."""

SIZE_UNITS: Final = {"B": 1, "kB": 1_000, "MB": 1_000_000}
_RATE_UNITS: Final = ("pps", "kpps", "Mpps", "bps", "kbps", "Mbps", "Gbps")
_RATES_ACCEPTED: Final = f"a number with a unit ({listed(_RATE_UNITS)}) such as 200Mbps or 100kpps"
_SIZES_ACCEPTED: Final = f"a number with a unit ({listed(SIZE_UNITS)}) such as 64kB"
_MIN_RATE: Final = {"pps": 1.0, "bps": 1_000.0}

_NUMBER = r"[0-9]+(\.[0-9]+)?"


@dataclass(frozen=True)
class RateLimit:
    """A ceiling: frames per second, bits per second on the wire, or both."""

    pps: float | None = None
    bps: float | None = None
    """On the wire: frame with checksum and the 20 bytes of preamble and gap, bit/s."""

    def written(self) -> str | list[str]:
        """Return the limit as it is written in a policy."""
        rates = [] if self.bps is None else [format_rate(Load(self.bps, "bps"))]
        rates += [] if self.pps is None else [format_rate(Load(self.pps, "pps"))]
        return rates[0] if len(rates) == 1 else rates


def read_policy_rate(value: object) -> Load:
    """Return ``value`` as a rate in pps or bps, or raise :class:`Refused`."""
    try:
        rate = read_rate(value)
    except Refused as refused:
        unit = re.sub(r"^[0-9.eE+ ]*", "", value.strip()) if isinstance(value, str) else ""
        hint = nearest(unit, _RATE_UNITS) if unit else ""
        raise Refused(refused.problem.what, _RATES_ACCEPTED + hint) from None
    if rate.unit == "x":
        raise Refused(f"{show(value)} is relative, and nothing is measured here", _RATES_ACCEPTED)
    if rate.value < _MIN_RATE[rate.unit]:
        minimum = format_rate(Load(_MIN_RATE[rate.unit], rate.unit))
        raise Refused(
            f"{show(value)} is too little", f"{minimum} or more; leave the key out for none"
        )
    return rate


def read_limit(value: object) -> RateLimit:
    """Return ``value`` as a ceiling, or raise :class:`Refused`."""
    rates = [read_policy_rate(rate) for rate in (value if isinstance(value, list) else [value])]
    units = [rate.unit for rate in rates]
    if not rates or len(set(units)) != len(units):
        what = f"{len(rates)} rates of the same kind" if rates else "an empty list"
        raise Refused(what, "one rate, or two: one in bit/s and one in frames/s")
    by_unit = {rate.unit: rate.value for rate in rates}
    return RateLimit(by_unit.get("pps"), by_unit.get("bps"))


def reserved_bps(rate: Load) -> float:
    """Return what a guaranteed rate takes on the wire, bit/s; frames count as 1518 bytes each."""
    return rate.value if rate.unit == "bps" else wire_bps(rate.value, RESERVED_FRAME_BYTES)


def _read_percent(value: object) -> float:
    accepted = f"a percentage of one core such as 50%, 1% to {MAX_CORES}00%"
    match = re.fullmatch(rf"({_NUMBER})\s?%", value.strip()) if isinstance(value, str) else None
    if match is None:
        raise Refused(f"{show(value)} is not a percentage", accepted)
    percent = float(match[1])
    if not 1 <= percent <= MAX_CORES * 100:
        raise Refused(f"{show(value)} is out of range", accepted)
    return percent


def _write_percent(percent: float) -> str:
    return f"{percent:g}%"


def _read_size(value: object) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise Refused(f"{show(value)} has no unit", _SIZES_ACCEPTED)
    match = re.fullmatch(rf"({_NUMBER})\s?([A-Za-z]*)", value) if isinstance(value, str) else None
    if match is None:
        raise Refused(f"{show(value)} is not a size", _SIZES_ACCEPTED)
    number, unit = match[1], match[3]
    if unit not in SIZE_UNITS:
        about = f"unit {show(unit)} of {show(value)} is not known"
        what = about if unit else f"{show(value)} has no unit"
        raise Refused(what, _SIZES_ACCEPTED + (nearest(unit, SIZE_UNITS) if unit else ""))
    size = int(Decimal(number) * SIZE_UNITS[unit])
    if not RESERVED_FRAME_BYTES <= size <= 100_000_000:
        raise Refused(f"{show(value)} is out of range", "1518B (one frame) to 100MB")
    return size


def _write_size(size: int) -> str:
    unit = next(name for name, of in reversed(SIZE_UNITS.items()) if size % of == 0)
    return f"{size // SIZE_UNITS[unit]}{unit}"


def _read_cores(value: object) -> tuple[int, ...]:
    accepted = f"a list of core numbers, 0 to {MAX_CORES - 1}, as [1] or [2, 3]"
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise Refused("an empty list", accepted)
    cores: list[int] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int):
            raise Refused(f"{show(item)} is not a core number", accepted)
        if not 0 <= item < MAX_CORES:
            raise Refused(f"core {item} is out of range", accepted)
        if item in cores:
            raise Refused(f"core {item} is given twice", accepted)
        cores.append(item)
    return tuple(cores)


def _object_name(what: str, longest: int, pattern: str, accepted: str) -> Callable[[object], str]:
    """Return a validator for names that others gave; they end up as arguments of commands."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise Refused(f"{show(value)} is not {what} (put it in quotes)", accepted)
        if len(value.encode()) > longest or not re.fullmatch(pattern, value):
            raise Refused(f"{show(value)} is not {what}", accepted)
        return value

    return read


_NAME_ACCEPTED = "letters, digits, '_', '.' and '-', beginning with a letter or a digit"
_PLAIN_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"


def _text_schema(pattern: str, longest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})$", "maxLength": longest})


_NETNS = rf"{_PLAIN_NAME}|(/[A-Za-z0-9_.:@+-]+)+"
_IFNAME = r"[^-./\s:][^/\s:]*"
_DOMAIN = r"[^-/\s\x00-\x1f\x7f][^/\x00-\x1f\x7f]*"

Netns = Annotated[
    str,
    PlainValidator(
        _object_name(
            "a network namespace", 255, _NETNS, "a name (vr1) or an absolute path (/proc/12/ns/net)"
        )
    ),
    _text_schema(_NETNS, 255),
]
ContainerName = Annotated[
    str,
    PlainValidator(_object_name("a container's name", 128, _PLAIN_NAME, _NAME_ACCEPTED)),
    _text_schema(_PLAIN_NAME, 128),
]
DomainName = Annotated[
    str,
    PlainValidator(
        _object_name("a domain's name", 128, _DOMAIN, "a name without '/' that does not start '-'")
    ),
    WithJsonSchema({"type": "string", "maxLength": 128}),
]
InterfaceName = Annotated[
    str,
    PlainValidator(
        _object_name(
            "an interface's name", 15, _IFNAME, "1 to 15 characters without '/', ':' and spaces"
        )
    ),
    WithJsonSchema({"type": "string", "maxLength": 15}),
]


def _read_mac(value: object) -> str:
    accepted = "the address of one station, such as 52:54:00:12:34:56"
    if not isinstance(value, str) or not re.fullmatch(_MAC, value):
        raise Refused(f"{show(value)} is not a MAC address", accepted)
    if int(value[:2], 16) & 1 or not value.strip("0:"):
        raise Refused(f"{show(value)} is nobody's address", accepted)
    return value.lower()


_MAC = "[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}"
Mac = Annotated[str, PlainValidator(_read_mac), _text_schema(_MAC, 17)]
Pid = Annotated[int, PlainValidator(whole(1, 2**22)), whole_schema(1, 2**22)]
VfNumber = Annotated[int, PlainValidator(whole(0, 4095)), whole_schema(0, 4095)]

CpuMax = Annotated[
    float,
    PlainValidator(_read_percent),
    PlainSerializer(_write_percent, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_NUMBER}\\s?%$"}),
]
CoreList = Annotated[
    tuple[int, ...],
    PlainValidator(_read_cores),
    PlainSerializer(list, return_type=list[int]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_CORES - 1},
                {
                    "type": "array",
                    "minItems": 1,
                    "uniqueItems": True,
                    "items": {"type": "integer", "minimum": 0, "maximum": MAX_CORES - 1},
                },
            ]
        }
    ),
]
_RATE_PATTERN = f"^{_NUMBER}([eE][+-]?[0-9]{{1,2}})?\\s?({'|'.join(_RATE_UNITS)})$"
_RATE_SCHEMA = {"type": "string", "pattern": _RATE_PATTERN, "description": _RATES_ACCEPTED}
PolicyRate = Annotated[
    Load,
    PlainValidator(read_policy_rate),
    PlainSerializer(format_rate, return_type=str),
    WithJsonSchema(_RATE_SCHEMA),
]
Limit = Annotated[
    RateLimit,
    PlainValidator(read_limit),
    PlainSerializer(RateLimit.written),
    WithJsonSchema(
        {
            "anyOf": [
                _RATE_SCHEMA,
                {"type": "array", "items": _RATE_SCHEMA, "minItems": 1, "maxItems": 2},
            ]
        }
    ),
]
Burst = Annotated[
    int,
    PlainValidator(_read_size),
    PlainSerializer(_write_size, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_NUMBER}\\s?({'|'.join(SIZE_UNITS)})$"}),
]
Forward = Literal["kernel", "xdp"]
ForwardWord = Annotated[
    Forward, PlainValidator(word("forwarding", ("kernel", "xdp"))), words_schema("kernel", "xdp")
]
Steer = Literal["auto", "hardware", "software", "none"]
SteerWord = Annotated[
    Steer,
    PlainValidator(word("steering", get_args(Steer))),
    words_schema(*get_args(Steer)),
]
Priority = Annotated[int, PlainValidator(whole(0, 7)), whole_schema(0, 7)]
LinkWeight = Annotated[int, PlainValidator(whole(1, 1_000)), whole_schema(1, 1_000)]
QueueFrames = Annotated[int, PlainValidator(whole(16, 250)), whole_schema(16, 250)]
