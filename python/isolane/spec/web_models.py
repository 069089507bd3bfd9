"""The keys of web requests: what is asked for."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    WrapSerializer,
)

from isolane.spec.fields import as_list, as_written
from isolane.spec.problems import Refused, show

DEFAULT_OBJECT_BYTES: Final = 1024
MAX_OBJECT_BYTES: Final = 16 << 20
_UNITS: Final = {"B": 1, "kB": 1000, "KiB": 1024, "MB": 1_000_000, "MiB": 1 << 20}
_ACCEPTED: Final = "0B to 16MiB with a unit (B, kB, KiB, MB, MiB), such as 1KiB"
_PATTERN: Final = r"^([0-9]{1,8})\s?(B|kB|KiB|MB|MiB)$"


def _read_size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        raise Refused(f"{show(value)} has no unit", _ACCEPTED)
    found = re.fullmatch(_PATTERN, value) if isinstance(value, str) else None
    if found is None:
        raise Refused(f"{show(value)} is not the size of an object", _ACCEPTED)
    size = int(found[1]) * _UNITS[found[2]]
    if size > MAX_OBJECT_BYTES:
        raise Refused(f"{show(value)} is too large", _ACCEPTED)
    return size


def format_size(size: int) -> str:
    """Return a size so that it is read as exactly the same again."""
    fitting = [name for name, unit in _UNITS.items() if size and size % unit == 0]
    name = max(fitting, key=lambda each: _UNITS[each], default="B")
    return f"{size // _UNITS[name]}{name}"


ObjectSize = Annotated[
    int,
    PlainValidator(_read_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PATTERN}),
]
ObjectSizes = Annotated[
    tuple[ObjectSize, ...],
    BeforeValidator(as_list, json_schema_input_type=ObjectSize | list[ObjectSize]),
    WrapSerializer(as_written),
]
