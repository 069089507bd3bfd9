"""What is put to the test: promises, and how one set of figures of them is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from isolane.stats.promises import Answer, Bar

Verdict = Answer | Literal["not measured"]

Figures = Mapping[str, Sequence[float]]
"""By promise: what one attempt has measured of it; no value where the attempt says nothing."""
Attempt = Callable[[], Figures]


@dataclass(frozen=True)
class Promise:
    """One promise: what figure is to keep which bar."""

    name: str
    """What it says, in a few words."""
    bar: Bar
    unit: str = ""
    """Of bar and figures: empty for shares and ratios."""


@dataclass(frozen=True)
class Subject:
    """Promises that are measured together, in a set-up of their own."""

    name: str
    promises: tuple[Promise, ...]
    opened: Callable[[Path], AbstractContextManager[Attempt]]
    """Sets up what is measured, with a folder for its files, and yields what measures once."""
    attempt_s: float
    """How long an attempt takes, about, s."""
    build_s: float = 2.0
    """How long it takes to set it up and take it down, about, s."""
    values: int = 1
    """How many values an attempt gives."""


@dataclass(frozen=True)
class Decided:
    """What a command has found out about a promise by its own test."""

    name: str
    answer: Verdict
    why: str


@dataclass(frozen=True)
class Command:
    """Promises that a command of Isolane decides itself: it repeats and compares on its own."""

    name: str
    promises: tuple[str, ...]
    run: Callable[[Path], Sequence[Decided]]
    seconds: float
    """How long it takes, about, s."""


@dataclass
class Disturbance:
    """What took the machine's cores away while a subject was measured."""

    steal: list[float] = field(default_factory=list)
    """Of each attempt: the part of all cores' time that the hypervisor had."""
    longest_stall_ns: int = 0
    """Longest time for which a core that only read its clock stood still, in probes of 8 ms."""
