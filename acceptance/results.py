"""What an acceptance found: plain data, the same in the table and in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from isolane.stats.promises import Bar
from isolane.stats.sequential import ERROR_RATE, median_interval

from acceptance.subject import Disturbance, Verdict


@dataclass(frozen=True)
class Finding:
    """One promise, and whether it was kept."""

    subject: str
    promise: str
    answer: Verdict
    unit: str = ""
    bar: Bar | None = None
    """None where a command decided by itself."""
    values: tuple[float, ...] = ()
    """In the order in which they were measured."""
    error_bound: float | None = None
    """Bound on the probability that the table contains this answer wrongly."""
    why: str | None = None
    """Why it is undecided, or what the command said."""

    def as_json(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        found: dict[str, Any] = {
            "subject": self.subject, "promise": self.promise, "verdict": self.answer,
            "unit": self.unit, "error_bound": self.error_bound, "why": self.why,
        }  # fmt: skip
        if self.bar is not None:
            found |= vars(self.bar)
        if self.bar is not None and self.values:
            found |= {
                "measured": median(self.values), "interval": median_interval(self.values),
                "number": len(self.values), "kept": sum(self.bar.keeps(self.values)),
                "values": self.values,
            }  # fmt: skip
        return found


@dataclass(frozen=True)
class Report:
    """All findings, and what disturbed them."""

    findings: tuple[Finding, ...]
    disturbances: dict[str, Disturbance]
    """By subject."""
    subject_s: dict[str, float]
    """How long each subject took, s."""
    took_s: float
    limit_s: float

    def count(self, answer: Verdict) -> int:
        """Return how many promises have this answer."""
        return sum(finding.answer == answer for finding in self.findings)

    def as_json(self, host: dict[str, Any]) -> dict[str, Any]:
        """Return all of it; host: what machine it was."""
        return {
            "host": host,
            "findings": [finding.as_json() for finding in self.findings],
            "disturbances": {
                name: {
                    "steal": median(each.steal) if each.steal else None,
                    "worst_steal": max(each.steal, default=None),
                    "longest_stall_ns": each.longest_stall_ns,
                }
                for name, each in self.disturbances.items()
            },
            "subject_s": self.subject_s,
            "error_rate": ERROR_RATE,
            "took_s": self.took_s,
            "time_limit_s": self.limit_s,
        }
