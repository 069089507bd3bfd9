"""The types of an experiment's values: how each is read, refused, written and described.

Each validator takes what YAML gave (or a value that was read before) and raises
:class:`~isolane.spec.problems.Refused` with what would be accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapSerializer,
)

from isolane.spec.problems import Refused, listed, nearest, show
from isolane.spec.subnets import Network, read_subnet
from isolane.spec.units import (
    BIT_RATES_ACCEPTED,
    DURATIONS_ACCEPTED,
    MAX,
    RATES_ACCEPTED,
    Load,
    format_duration_ns,
    format_rate,
    parse_duration_ns,
    read_bit_rate,
    read_duration_ns,
    read_load,
    read_rate,
)

Kind = Literal["native", "container", "vm", "xen", "external"]
RouterPath = Literal[
    "none",
    "direct",
    "bridge",
    "macvlan",
    "isolane",
    "tap",
    "macvtap",
    "netback",
    "sriov",
    "sriov-macvtap",
    "sriov-passthrough",
    "dom0",
]
NicModel = Literal["virtio", "e1000", "vfio", "vector"]
Hypervisor = Literal["auto", "kvm", "uml", "tcg"]
Receive = Literal["softirq", "threaded"]
Role = Literal["victim", "aggressor", "router"]
Mode = Literal["forward", "echo", "icmp-echo", "http"]

MAX_ROUTERS: Final = 64
MAX_NAME: Final = 12
"""Longest name of a router: names of interfaces (15 characters) are made from it."""

_NUMBER_PATTERN = r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?\s?"


def word(what: str, accepted: Iterable[str]) -> Callable[[object], str]:
    """Return a validator for one of a few words."""
    words = tuple(accepted)

    def read(value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        hint = nearest(value, words) if isinstance(value, str) else ""
        raise Refused(f"{what} {show(value)} is not known", listed(words) + hint)

    return read


def whole(low: int, high: int) -> Callable[[object], int]:
    """Return a validator for a whole number within limits."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused(f"{show(value)} is not a whole number", f"{low} to {high}")
        if not low <= value <= high:
            raise Refused(f"{show(value)} is out of range", f"{low} to {high}")
        return int(value)

    return read


def _duration(low: str, high: str) -> Callable[[object], int]:
    """Return a validator for a duration within limits, in ns."""
    low_ns, high_ns = parse_duration_ns(low), parse_duration_ns(high)

    def read(value: object) -> int:
        duration_ns = read_duration_ns(value)
        if not low_ns <= duration_ns <= high_ns:
            raise Refused(f"{show(value)} is out of range", f"{low} to {high}")
        return duration_ns

    return read


def _name(longest: int) -> Callable[[object], str]:
    """Return a validator for names, which become parts of file, interface and namespace names."""
    accepted = (
        f"1 to {longest} characters of a-z, 0-9 and '-', neither starting nor ending with '-'"
    )

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise Refused(f"{show(value)} is not a name (put it in quotes)", accepted)
        if len(value) > longest:
            raise Refused(f"name {show(value)} is too long ({len(value)} characters)", accepted)
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", value):
            raise Refused(f"{show(value)} is not a name", accepted)
        return value

    return read


def _name_schema(longest: int) -> WithJsonSchema:
    pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
    return WithJsonSchema({"type": "string", "maxLength": longest, "pattern": pattern})


def _text(longest: int) -> Callable[[object], str]:
    """Return a validator for free text."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise Refused(
                f"{show(value)} is not text", "text (in quotes if it looks like a number)"
            )
        if len(value) > longest:
            raise Refused(f"text of {len(value)} characters", f"up to {longest} characters")
        return value

    return read


def _read_frame_size(value: object) -> int | Literal["imix"]:
    accepted = "64 to 1518 (bytes with the 4-byte checksum), or imix (7:4:1 of 64, 594 and 1518)"
    if value == "imix":
        return "imix"
    if isinstance(value, bool) or not isinstance(value, int) or not 64 <= value <= 1518:
        raise Refused(f"frame size {show(value)} is not possible", accepted)
    return int(value)


def _read_ip(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in {4, 6}:
        raise Refused(f"IP version {show(value)} is not known", "4, 6")
    return value


def _read_threshold(value: object) -> float:
    accepted = "a percentage such as 1%, 0.1% to 50%"
    text = value.strip() if isinstance(value, str) else ""
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%", text)
    if found is None:
        raise Refused(f"{show(value)} is not a percentage", accepted)
    if not 0.1 <= float(found[1]) <= 50:
        raise Refused(f"{show(value)} is out of range", accepted)
    return float(found[1]) / 100


def _format_threshold(share: float) -> str:
    return f"{100 * share:.6g}%"


def _read_version(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value != 1:
        raise Refused(f"format version {show(value)} is not known", "1")
    return value


def as_list(value: object) -> object:
    """Return a scalar as a list of one, so that later code sees lists only."""
    return check_length(value, 1000) if isinstance(value, list | tuple) else [value]


def check_length(value: object, longest: int, shortest: int = 1) -> object:
    """Return a list of the right length (pydantic would count only its good items)."""
    if isinstance(value, list | tuple) and not shortest <= len(value) <= longest:
        what = f"a list of {len(value)} values" if value else "an empty list"
        raise Refused(what, f"{shortest} to {longest} values")
    return value


def as_written(values: tuple[Any, ...], write: SerializerFunctionWrapHandler) -> Any:
    """Return a list of one as the scalar that it stands for."""
    written = write(values)
    return written[0] if len(written) == 1 else written


def _rate_schema(units: str, accepted: str, *words: str) -> WithJsonSchema:
    pattern = "|".join((f"^{_NUMBER_PATTERN}({units})$", *(f"^{word}$" for word in words)))
    return WithJsonSchema({"type": "string", "pattern": pattern, "description": accepted})


def _duration_schema() -> WithJsonSchema:
    return _rate_schema("ns|us|µs|ms|s|min|h", DURATIONS_ACCEPTED)


def words_schema(*words: str) -> WithJsonSchema:
    """Return the schema of one of a few words."""
    return WithJsonSchema({"type": "string", "enum": list(words)})


def whole_schema(low: int, high: int) -> WithJsonSchema:
    """Return the schema of a whole number within limits."""
    return WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})


def _format_line_rate(rate_bps: float) -> str:
    return format_rate(Load(rate_bps, "bps"))


KindWord = Annotated[
    Kind,
    PlainValidator(word("router kind", get_args(Kind))),
    words_schema(*get_args(Kind)),
]
PathWord = Annotated[
    RouterPath,
    PlainValidator(word("path", get_args(RouterPath))),
    words_schema(*get_args(RouterPath)),
]
ModeWord = Annotated[
    Mode,
    PlainValidator(word("mode", get_args(Mode))),
    words_schema(*get_args(Mode)),
]
NicWord = Annotated[
    NicModel,
    PlainValidator(word("NIC model", get_args(NicModel))),
    words_schema(*get_args(NicModel)),
]
HypervisorWord = Annotated[
    Hypervisor,
    PlainValidator(word("hypervisor", get_args(Hypervisor))),
    words_schema(*get_args(Hypervisor)),
]
ReceiveWord = Annotated[
    Receive,
    PlainValidator(word("receive processing", ("softirq", "threaded"))),
    words_schema("softirq", "threaded"),
]
RoleWord = Annotated[
    Role,
    PlainValidator(word("role", ("victim", "aggressor", "router"))),
    words_schema("victim", "aggressor", "router"),
]

Version = Annotated[int, PlainValidator(_read_version), WithJsonSchema({"const": 1})]
Cores = Annotated[int, PlainValidator(whole(1, 1024)), whole_schema(1, 1024)]
Flows = Annotated[int, PlainValidator(whole(1, 100_000)), whole_schema(1, 100_000)]
Repeats = Annotated[int, PlainValidator(whole(1, 1000)), whole_schema(1, 1000)]
SampleRate = Annotated[int, PlainValidator(whole(0, 10_000)), whole_schema(0, 10_000)]
Retries = Annotated[int, PlainValidator(whole(0, 10)), whole_schema(0, 10)]
Threshold = Annotated[
    float,
    PlainValidator(_read_threshold),
    PlainSerializer(_format_threshold, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,6})?\s?%$"}),
]
Seed = Annotated[int, PlainValidator(whole(0, 2**32 - 1)), whole_schema(0, 2**32 - 1)]
Weight = Annotated[int, PlainValidator(whole(1, 10_000)), whole_schema(1, 10_000)]
RouterCount = Annotated[int, PlainValidator(whole(1, MAX_ROUTERS)), whole_schema(1, MAX_ROUTERS)]

Slug = Annotated[str, PlainValidator(_name(64)), _name_schema(64)]
RouterName = Annotated[str, PlainValidator(_name(MAX_NAME)), _name_schema(MAX_NAME)]
MAX_ARM_NAME: Final = 24
"""Characters of the name of an arm or a policy."""
ArmName = Annotated[str, PlainValidator(_name(MAX_ARM_NAME)), _name_schema(MAX_ARM_NAME)]
ShortText = Annotated[str, PlainValidator(_text(200)), WithJsonSchema({"type": "string"})]
LongText = Annotated[str, PlainValidator(_text(20_000)), WithJsonSchema({"type": "string"})]

FrameSize = Annotated[
    int | Literal["imix"],
    PlainValidator(_read_frame_size),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 64, "maximum": 1518}, {"const": "imix"}]}
    ),
]
IpVersion = Annotated[Literal[4, 6], PlainValidator(_read_ip), WithJsonSchema({"enum": [4, 6]})]
Subnet = Annotated[
    Network,
    PlainValidator(read_subnet),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["198.18.5.0/24", "2001:2:0:5::/64"]}),
]

Rate = Annotated[
    Load,
    PlainValidator(read_rate),
    PlainSerializer(format_rate, return_type=str),
    _rate_schema("pps|kpps|Mpps|bps|kbps|Mbps|Gbps|x", RATES_ACCEPTED),
]
LineRate = Annotated[
    float,
    PlainValidator(read_bit_rate),
    PlainSerializer(_format_line_rate, return_type=str),
    _rate_schema("bps|kbps|Mbps|Gbps", BIT_RATES_ACCEPTED),
]
_duration_text = PlainSerializer(format_duration_ns, return_type=str)
Moderation = Annotated[
    int, PlainValidator(_duration("5us", "1ms")), _duration_text, _duration_schema()
]
BufferWait = Annotated[
    int, PlainValidator(_duration("0ms", "1min")), _duration_text, _duration_schema()
]
LinkBurst = Annotated[
    int, PlainValidator(_duration("1ms", "1s")), _duration_text, _duration_schema()
]
TrialDuration = Annotated[
    int, PlainValidator(_duration("50ms", "1h")), _duration_text, _duration_schema()
]
WindowTime = Annotated[
    int, PlainValidator(_duration("0ms", "1h")), _duration_text, _duration_schema()
]
Warmup = Annotated[
    int, PlainValidator(_duration("0ms", "10min")), _duration_text, _duration_schema()
]

_written = WrapSerializer(as_written)
OfferedLoad = Annotated[
    Load,
    PlainValidator(read_load),
    PlainSerializer(format_rate, return_type=str),
    _rate_schema(
        "pps|kpps|Mpps|bps|kbps|Mbps|Gbps|x|rps|krps|Mrps|conn", f"{RATES_ACCEPTED}, or {MAX}", MAX
    ),
]
OfferedLoads = Annotated[
    tuple[OfferedLoad, ...],
    BeforeValidator(as_list, json_schema_input_type=OfferedLoad | list[OfferedLoad]),
    _written,
]
Counts = Annotated[
    tuple[RouterCount, ...],
    BeforeValidator(as_list, json_schema_input_type=RouterCount | list[RouterCount]),
    _written,
]
