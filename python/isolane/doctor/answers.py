"""The doctor's data: capabilities, answers of probes, findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["yes", "limited", "no", "unknown"]

STATUSES: tuple[Status, ...] = ("yes", "limited", "no", "unknown")


@dataclass(frozen=True)
class Capability:
    """Something that a host may be able to do, and the consequences if it cannot.

    ``id`` may be extended in a finding by the thing examined: ``nic-xdp`` by ``nic-xdp:eth0``.
    """

    id: str
    group: str
    title: str
    rules_out: str
    remedy: str


@dataclass(frozen=True)
class Answer:
    """The result of a probe: a status and the detail that explains it."""

    status: Status
    detail: str


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table: a capability and its status on this host."""

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
    """A function that really tries something, and the ids of the capabilities that it examines.

    It runs in a child process of its own, so that it can enter private namespaces, cannot block
    the doctor, and leaves nothing behind.

    Attributes
    ----------
    seconds
        Time limit, s; after it every answer is ``unknown``.
    """

    answers: tuple[str, ...]
    function: Callable[[], Mapping[str, Answer]]
    seconds: float = 10.0
