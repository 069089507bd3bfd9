"""The doctor's data: capabilities, answers and findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["yes", "limited", "no", "unknown"]

STATUSES: tuple[Status, ...] = ("yes", "limited", "no", "unknown")


@dataclass(frozen=True)
class Capability:
    """Something that a host may be able to do, and what is impossible without it.

    ``id`` may be extended in a finding by the thing examined: ``nic-xdp`` by ``nic-xdp:eth0``.
    """

    id: str
    group: str
    title: str
    rules_out: str
    remedy: str


@dataclass(frozen=True)
class Answer:
    """The result of a probe: a status, and the detail that it is based on."""

    status: Status
    detail: str


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report: a capability and its answer on this host."""

    id: str
    group: str
    title: str
    status: Status
    detail: str
    rules_out: str
    remedy: str

    def lack(self) -> str:
        """Return the line that tells a user what is missing and how to get it."""
        return f"{self.title}: {self.status} ({self.detail}). To get it: {self.remedy}"


@dataclass(frozen=True)
class Probe:
    """A function that tries something on this host, and the ids of the capabilities it answers.

    It runs in a child process of its own, so that it may enter private namespaces, may hang, and
    leaves nothing behind.

    Attributes
    ----------
    seconds
        Time limit, s; when it has passed, every answer is ``unknown``.
    """

    answers: tuple[str, ...]
    function: Callable[[], Mapping[str, Answer]]
    seconds: float = 10.0
