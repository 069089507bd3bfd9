"""Traffic patterns: what frames a router is sent, beside how many and how long."""

from __future__ import annotations

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

FrameKind = Literal["new-flows", "fragments", "ttl-expired", "no-route", "to-router"]
FRAME_KINDS: Final[tuple[FrameKind, ...]] = get_args(FrameKind)
ENDING: Final[tuple[FrameKind, ...]] = ("ttl-expired", "no-route", "to-router")
"""Frames that no router passes on: it answers them, or drops them."""
CONSTANT: Final = "constant"
"""The word for ordinary frames of known flows, at a constant rate."""


@dataclass(frozen=True)
class Pattern:
    """What is unusual about the frames that a router is sent; nothing by default."""

    frames: tuple[FrameKind, ...] = ()

    @property
    def ends(self) -> bool:
        """Whether none of the frames leaves the router again."""
        return any(kind in ENDING for kind in self.frames)

    def __str__(self) -> str:
        return "+".join(self.frames) or CONSTANT


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
    found: list[FrameKind] = []
    for word in value.split("+") if isinstance(value, str) else [value]:
        text = word.strip() if isinstance(word, str) else word
        kind = next((known for known in FRAME_KINDS if known == text), None)
        if kind is None:
            hint = nearest(text, FRAME_KINDS) if isinstance(text, str) else ""
            accepted = f"{listed((CONSTANT, *FRAME_KINDS))}, or several such as {EXAMPLE}"
            raise Refused(f"pattern {show(word)} is not known", accepted + hint)
        if kind in found:
            raise Refused(f"pattern {show(kind)} is given twice", "each word once")
        found.append(kind)
    ends = [kind for kind in found if kind in ENDING]
    if len(ends) > 1:
        raise Refused(f"patterns {listed(ends)} together", f"one of {listed(ENDING)}")
    return Pattern(tuple(sorted(found, key=FRAME_KINDS.index)))


EXAMPLE: Final = "new-flows+ttl-expired"
_WORD: Final = f"({'|'.join(FRAME_KINDS)})"
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
