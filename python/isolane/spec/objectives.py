"""Objectives of an experiment: what it is to reach, such as ``victim p99 <= 2x alone``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from isolane.spec.problems import Refused, listed, nearest, show
from isolane.spec.units import parse_rate, read_duration_ns

ObjectiveMetric = Literal[
    "delivered", "retained", "loss", "throughput", "p50", "p90", "p99", "p999", "max"
]
METRICS: Final[tuple[ObjectiveMetric, ...]] = get_args(ObjectiveMetric)
SHARES: Final[tuple[ObjectiveMetric, ...]] = ("delivered", "retained", "loss")
ALONE: Final = "alone"
EXAMPLES: Final = "victim p99 <= 2x alone, victim delivered >= 99%, victim p99 <= 500us on managed"
_GRAMMAR: Final = re.compile(
    r"(?P<router>\S+)\s+(?P<metric>\S+)\s*(?P<sign><=|>=)\s*(?P<value>.+?)"
    r"(?:\s+on\s+(?P<arms>\S+(?:\s*,\s*\S+)*))?"
)


@dataclass(frozen=True)
class Objective:
    """What a figure of a router is to be at every point, in every arm or in those that it names."""

    text: str
    """As it is written."""
    router: str
    """A router, or a group: each of its members."""
    metric: ObjectiveMetric
    at_most: bool
    """Whether the figure is to be at most `value`; else at least."""
    value: float
    """A share (0 to 1), frames/s, ns, or with `relative` a multiple."""
    relative: bool = False
    """Whether the figure is the p99 delay over that with the aggressors offering least."""
    arms: tuple[str, ...] = ()
    """Names of arms; none: all."""

    def holds(self, figure: float) -> bool:
        """Tell whether a figure meets it."""
        return figure <= self.value if self.at_most else figure >= self.value


def read_objective(value: object) -> Objective:
    """Read an objective.

    Raises
    ------
    Refused
        With what of it cannot be read.
    """
    if isinstance(value, Objective):
        return value
    found = _GRAMMAR.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        accepted = f"ROUTER METRIC <= VALUE (or >=), such as {EXAMPLES}"
        raise Refused(f"{show(value)} is not an objective", accepted)
    metric = next((known for known in METRICS if known == found["metric"]), None)
    if metric is None:
        hint = nearest(found["metric"], METRICS)
        raise Refused(f"metric {show(found['metric'])} is not known", listed(METRICS) + hint)
    number, relative = _value(metric, found["value"])
    arms = tuple(arm.strip() for arm in found["arms"].split(",")) if found["arms"] else ()
    text = " ".join(found[0].split())
    at_most = found["sign"] == "<="
    return Objective(text, found["router"], metric, at_most, number, relative, arms)


def _value(metric: ObjectiveMetric, text: str) -> tuple[float, bool]:
    """Return the number, and whether it is a multiple of the figure alone."""
    if metric in SHARES:
        found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%", text)
        if found is None or float(found[1]) > 100:
            raise Refused(f"{show(text)} is not a share", "a percentage such as 99.9%, 0% to 100%")
        return float(found[1]) / 100, False
    if metric == "throughput":
        return _rate_of_frames(text), False
    found = re.fullmatch(rf"([0-9]{{1,6}}(?:\.[0-9]{{1,6}})?)\s?x\s+{ALONE}", text)
    if found is None:
        return float(read_duration_ns(text)), False
    if metric != "p99" or float(found[1]) == 0:
        accepted = f"a time such as 500us; for p99 also 2x {ALONE}"
        raise Refused(f"{show(text)} for {metric}", accepted)
    return float(found[1]), True


def _rate_of_frames(text: str) -> float:
    """Return a rate, frames/s."""
    rate = parse_rate(text)
    if rate.unit != "pps":
        raise Refused(f"{show(text)} is no rate of frames", "a rate in pps, kpps or Mpps")
    return rate.value


ObjectiveValue = Annotated[
    Objective,
    PlainValidator(read_objective),
    PlainSerializer(lambda objective: objective.text, return_type=str),
    WithJsonSchema({"type": "string", "examples": EXAMPLES.split(", ")}),
]
