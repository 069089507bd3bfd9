"""Why a trial, or a part of its figures, is invalid: a kind for the code, a text for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, auto

from isolane.procfs import TICK_NS
from isolane.results.error_budget import ErrorBudget


class InvalidKind(StrEnum):
    """What made a trial invalid."""

    GENERATOR_LIMIT = auto()
    """The generator sent less than it was asked for."""
    LATE = auto()
    """The generator was late by more than a fifth of the delay that was measured."""
    CLOCKS = auto()
    """Frames arrived before they were sent: the clocks of generator and receiver differ."""
    RECEIVER_LIMIT = auto()
    """The receiver dropped frames that the device under test had forwarded."""
    MISPLACED = auto()
    """Frames were received on another core than the device under test's."""
    UNACCOUNTED = auto()
    """Frames are missing that no counter explains."""
    NOT_BUILT = auto()
    """The generator could not build some frames."""
    CPU_ACCOUNTING = auto()
    """The CPU time of a core does not add up to the window."""
    CPU_DISAGREEMENT = auto()
    """The CPU accountant and the kernel's own accounting contradict each other."""
    DISTURBED = auto()
    """Other processes, or a stall, used the routers' cores."""
    PAUSED = auto()
    """The hypervisor took a core of the routers away for longer than the error budget allows."""


ABOUT_DELAY = frozenset({InvalidKind.LATE, InvalidKind.CLOCKS})
"""These concern the delays alone: the trial is valid, but its delays are in no figure."""
ABOUT_CPU = frozenset({InvalidKind.CPU_ACCOUNTING, InvalidKind.CPU_DISAGREEMENT})
"""These concern CPU time alone: the trial is valid, but its CPU time is in no figure."""
MADE_AGAIN = frozenset({InvalidKind.PAUSED})
"""A trial with these is made again where it may be; the last attempt counts, so a host that is
paused all the time still gets its figures. A pause that is longer than a ring's worth of frames
loses them on every arm alike, idle ones too, and says nothing about a neighbour."""
VALID = ABOUT_DELAY | ABOUT_CPU | MADE_AGAIN | {InvalidKind.DISTURBED}
"""A trial with no other kind is valid. Disturbed ones are in all figures: others belong to the
host, come and go, and show in the intervals."""


@dataclass(frozen=True)
class InvalidReason:
    """Why one trial, or a part of its figures, says nothing about the device under test."""

    kind: InvalidKind
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def disturbances(
    core: int, others: float, hypervisor: float, budget: ErrorBudget
) -> Iterator[InvalidReason]:
    """Yield a reason for each who had too much of a DUT core.

    Parameters
    ----------
    core
        Number of the core.
    others, hypervisor
        The part of the window that other processes and the hypervisor had, 0 to 1.
    budget
        Others may have its noise. No frame is taken from a ring during a pause, so its limit holds
        for pauses as for all that acts on frames.
    """
    had = (
        (InvalidKind.DISTURBED, "other processes used", others, budget.noise),
        (InvalidKind.PAUSED, "the hypervisor took", hypervisor, budget.limit),
    )
    for kind, who, part, limit in had:
        if part > limit:
            text = f"{who} {100 * part:.2g} % of core {core} (at most {100 * limit:g} %)"
            yield InvalidReason(kind, text)


def proven(part: float, window_ns: int) -> float:
    """Return the part of a window that was used for certain, where the kernel counted it in ticks.

    A tick that is counted inside the window may lie before it almost wholly, so one tick proves
    nothing.

    Parameters
    ----------
    part
        What was counted in the window, as a part of it.
    window_ns
        Length of the window, ns.
    """
    return max(0.0, part - TICK_NS / window_ns)
