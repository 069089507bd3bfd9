"""Packet schedulers of a network back-end, and the keys of a port that each looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import PlainValidator

from isolane.spec.fields import word, words_schema
from isolane.spec.problems import Refused, show
from isolane.spec.units import Load, format_duration_ns, format_rate

SchedulerName = Literal[
    "fifo",
    "round-robin",
    "wrr",
    "drr",
    "wfq",
    "strict-priority",
    "hierarchical",
    "credit",
    "credit-random",
]
PortKey = Literal["weight", "priority", "rate_min", "rate_max"]
EarlyDrop = Literal["driver", "socket", "off"]
"""Where frames that a port has no space for are dropped before they are copied: by the NIC's driver
(XDP; where it runs none as socket), at the back-end's socket, or nowhere."""
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
    "credit-random": ("rate_max",),
}


@dataclass(frozen=True)
class Uplink:
    """How a network back-end sends by a link."""

    scheduler: SchedulerName = DEFAULT_SCHEDULER
    rate_bps: float | None = None
    """Rate of the link, bit/s on the wire; None: as fast as the interface takes frames."""
    back_pressure: bool = True
    """Whether frames wait while the link takes none; else they are lost."""
    burst_ns: int | None = None
    """What the link takes ahead of its rate, ns of it; None: 4 ms."""
    early_drop: EarlyDrop | None = None
    """Of what arrives; None: by the driver."""

    def as_keys(self) -> dict[str, str]:
        """Return what its entry in a back-end's file says."""
        keys: dict[str, str] = {"scheduler": self.scheduler}
        if self.rate_bps is not None:
            keys["rate"] = format_rate(Load(self.rate_bps, "bps"))
        if not self.back_pressure:
            keys["back_pressure"] = "off"
        if self.burst_ns is not None:
            keys["burst"] = format_duration_ns(self.burst_ns)
        return keys


DEFAULT_UPLINK: Final = Uplink()

SchedulerWord = Annotated[
    SchedulerName,
    PlainValidator(word("scheduler", get_args(SchedulerName))),
    words_schema(*get_args(SchedulerName)),
]


EarlyDropWord = Annotated[
    EarlyDrop,
    PlainValidator(word("early_drop", get_args(EarlyDrop))),
    words_schema(*get_args(EarlyDrop)),
]


def _on_or_off(value: object) -> bool:
    known = {"on": True, "off": False, True: True, False: False}
    if not isinstance(value, str | bool) or value not in known:
        raise Refused(f"{show(value)} is neither on nor off", "on, off")
    return known[value]


Switch = Annotated[bool, PlainValidator(_on_or_off), words_schema("on", "off")]
