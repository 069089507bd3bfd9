"""What routers are offered and give back, in words: frames, or web requests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from isolane.results.results import Summary
from isolane.spec.fields import Mode
from isolane.spec.units import format_pps, format_rps


@dataclass(frozen=True)
class Flow:
    """One of the two."""

    one: str
    many: str
    rate: Callable[[float | None], str]
    """Writes so many a second."""
    unit: str
    does: str
    """What a router does with one."""
    do: str
    """What routers do."""


FRAMES: Final = Flow("frame", "frames", format_pps, "pps", "forwards", "forward")
REQUESTS: Final = Flow("request", "requests", format_rps, "rps", "answers", "answer")


def flow_of(modes: Iterable[Mode]) -> Flow:
    """Return what routers of these modes are offered: all of them requests, or none."""
    return REQUESTS if "http" in modes else FRAMES


def flow_in(summary: Summary) -> Flow:
    """Return what the routers of a run were offered, or were to be."""
    missing = (router.mode for point in summary.missing or () for router in point.routers)
    return flow_of([*(cell.mode for cell in summary.cells), *missing])
