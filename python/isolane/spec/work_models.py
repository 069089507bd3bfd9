"""What a router does besides its frames: work that takes time of its core."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, PlainValidator, WrapSerializer

from isolane.spec.fields import as_list, as_written, word, words_schema

Work = Literal["none", "cpu"]
NO_WORK: Final[Work] = "none"
WorkWord = Annotated[
    Work, PlainValidator(word("work", get_args(Work))), words_schema(*get_args(Work))
]
WorkValues = Annotated[
    tuple[WorkWord, ...],
    BeforeValidator(as_list, json_schema_input_type=WorkWord | list[WorkWord]),
    WrapSerializer(as_written),
]
