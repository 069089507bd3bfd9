"""The findings of a verification: plain data, the same in tables and in JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from isolane.stored_model import StoredModel

Promise = Literal[
    "cpu_weight", "cpu_max", "rate_min", "rate_max", "priority", "link_weight", "retained"
]
Verdict = Literal["held", "broken", "undecided", "not measured"]
Unit = Literal["share", "bps", "pps"]


class Finding(StoredModel):
    """One promise to one router, and whether it held."""

    router: str
    promise: Promise
    about: str
    """The situation: ``all overloaded``, ``while vr2 is overloaded``, ``egress``."""
    verdict: Verdict
    unit: Unit
    """``share``: of a core, of the link or of the throughput alone, 0 to 1; ``bps``: on the wire,
    with preamble and gap; ``pps``: frames a second."""
    promised: float | None = None
    """What the policy promises: at most this for ``cpu_max`` and ``rate_max``, at least this for
    all others; None where it cannot be computed."""
    measured: float | None = None
    """Median over the pairs; None when not measured. A pair is a trial with its reference, or a
    trial alone where the promise needs no reference."""
    low: float | None = None
    high: float | None = None
    """Minimum and maximum over the pairs."""
    interval: tuple[float, float] | None = None
    """95 % interval of the median, valid although the number of pairs was not fixed beforehand;
    None below eight pairs."""
    margin: float | None = None
    """By how much it was kept (positive) or broken (negative), in ``unit``, without the
    tolerance."""
    tolerance: float | None = None
    """By how much it may be missed and still count as kept, in ``unit``."""
    pairs: int = 0
    """Valid pairs behind the verdict."""
    pairs_kept: int = 0
    """Pairs that kept the promise, within the tolerance."""
    error_bound: float | None = None
    """Bound on the probability that the table contains this verdict, or one that is better founded,
    wrongly; for an undecided promise, of the answer that the pairs speak for. None when not
    measured."""
    values: tuple[float, ...] = ()
    """The figure of each pair, in the order in which they were measured."""
    why: str | None = None
    """Why it was not measured or not decided; or what else is to be known about it."""


class Crowd(StoredModel):
    """What it costs that several routers are overloaded, in place of one that is not."""

    routers: tuple[str, ...]
    """The routers that share cores."""
    alone_pps: float
    """Median of what the fastest of them forwards alone at its best load, times the cores."""
    together_pps: float
    """Median of what all of them forward together while all are overloaded."""
    cost: float
    """Median over the pairs of the part of the first that is missing in the second; negative where
    they forward more together."""
    interval: tuple[float, float] | None = None
    """95 % interval of ``cost``; None below eight pairs."""
    pairs: int


class Report(StoredModel):
    """All findings of a verification."""

    policy: str
    mode: Literal["test bed", "real interfaces"]
    findings: tuple[Finding, ...]
    trials: int
    trials_without_verdict: int
    window_s: float
    took_s: float
    """Time that the verification took."""
    time_limit_s: float
    seed: int
    """Of the order in which promises and halves of pairs were measured."""
    error_rate: float
    """Bound on the probability that any promise of the table is wrongly called broken; the same
    for held."""
    crowds: tuple[Crowd, ...] = ()
    """What overload costs; no promise is lowered by it."""
    notes: tuple[str, ...] = ()
    """In which respects the test environment differs from what the policy describes."""

    def count(self, verdict: Verdict) -> int:
        """Return how many promises have this verdict."""
        return sum(finding.verdict == verdict for finding in self.findings)


@dataclass(frozen=True)
class Tolerance:
    """By how much a promise may be missed; each value is multiplied by ``factor``."""

    factor: float = 1.0
    share: float = 0.01
    """Of a core or of the link, absolute (1 percentage point)."""
    cpu_max: float = 0.02
    """Of a core, absolute: the kernel refills the cap every 100 ms."""
    retained: float = 0.01
    """Of the throughput alone, absolute."""
    rate: float = 0.01
    """Of a rate, relative."""
    link_weight: float = 0.02
    """Of a router's part of the link, relative."""

    @property
    def unused(self) -> float:
        """Part of a core or a link that may be idle although the load should fill it."""
        return min(0.5, 0.05 * self.factor)


@dataclass(frozen=True)
class Options:
    """How thoroughly to measure."""

    window_ns: int = 300_000_000
    tolerance: Tolerance = field(default_factory=Tolerance)
    time_limit_s: float | None = None
    """Time after which no further pair is begun; None: two minutes, or longer if the policy has so
    many promises that they cannot be decided by then."""
    seed: int = 1
    """Of the order of promises, and of trial and reference."""
    thorough: bool = False
    """Whether routers are overloaded by every traffic pattern, one after the other."""
