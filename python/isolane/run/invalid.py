"""Why a trial, or a part of its figures, is invalid: a kind for the code, a text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from isolane.procfs import TICK_NS
from isolane.run.error_budget import ErrorBudget


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
    """Others used the routers' cores: other processes, the hypervisor, or a stall."""


ABOUT_DELAY = frozenset({InvalidKind.LATE, InvalidKind.CLOCKS})
"""These concern the delays alone: the trial is valid, but its delays are in no figure."""
ABOUT_CPU = frozenset({InvalidKind.CPU_ACCOUNTING, InvalidKind.CPU_DISAGREEMENT})
"""These concern CPU time alone: the trial is valid, but its CPU time is in no figure."""
VALID = ABOUT_DELAY | ABOUT_CPU | {InvalidKind.DISTURBED}
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
    core: int, used: Mapping[str, float], budget: ErrorBudget
) -> Iterator[InvalidReason]:
    """Yield a reason for each who used a DUT core too much.

    Parameters
    ----------
    core
        Number of the core.
    used
        By user of the core (``other processes``): the part of the window that it had, 0 to 1.
    budget
        Who had more than its limit disturbed the trial.
    """
    for who, part in used.items():
        if part > budget.noise:
            text = (
                f"{who} used {100 * part:.2g} % of core {core} (at most {100 * budget.noise:g} %)"
            )
            yield InvalidReason(InvalidKind.DISTURBED, text)


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
