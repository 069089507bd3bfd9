"""What a router does besides its frames: work that takes time of its core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, PlainValidator, WrapSerializer

from isolane.spec.fields import as_list, as_written, word, words_schema

Work = Literal["none", "cpu", "disk"]
NO_WORK: Final[Work] = "none"
DISK_WORK: Final[Work] = "disk"
"""Only virtual machines have a disk."""


def own_work(values: Iterable[Work]) -> tuple[Work, ...]:
    """Return each work that there is among these, once, without none."""
    return tuple(dict.fromkeys(work for work in values if work != NO_WORK))


WorkWord = Annotated[
    Work, PlainValidator(word("work", get_args(Work))), words_schema(*get_args(Work))
]
WorkValues = Annotated[
    tuple[WorkWord, ...],
    BeforeValidator(as_list, json_schema_input_type=WorkWord | list[WorkWord]),
    WrapSerializer(as_written),
]
