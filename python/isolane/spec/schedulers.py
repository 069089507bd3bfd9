"""Packet schedulers of a network back-end, and the keys of a port that each looks at."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import PlainValidator

from isolane.spec.fields import word, words_schema

SchedulerName = Literal[
    "fifo", "round-robin", "wrr", "drr", "wfq", "strict-priority", "hierarchical", "credit"
]
PortKey = Literal["weight", "priority", "rate_min", "rate_max"]
DEFAULT_SCHEDULER: Final[SchedulerName] = "drr"
KEYS: Final[dict[SchedulerName, tuple[PortKey, ...]]] = {
    "fifo": (),
    "round-robin": (),
    "wrr": ("weight",),
    "drr": ("weight",),
    "wfq": ("weight",),
    "strict-priority": ("priority",),
    "hierarchical": ("weight", "priority", "rate_min", "rate_max"),
    "credit": ("rate_max",),
}

SchedulerWord = Annotated[
    SchedulerName,
    PlainValidator(word("scheduler", get_args(SchedulerName))),
    words_schema(*get_args(SchedulerName)),
]
