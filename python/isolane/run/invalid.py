"""Why a trial gives no verdict: each reason has a kind for the code and a text for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class InvalidKind(StrEnum):
    """What made a trial invalid."""

    GENERATOR_LIMIT = auto()
    """The generator sent less than it was asked for."""
    RECEIVER_LIMIT = auto()
    """The receiver dropped frames that the device under test had forwarded."""
    NOT_OVERLOADED = auto()
    """A capacity trial in which the router forwarded all that it was offered."""
    MISPLACED = auto()
    """Frames were received on another core than the device under test's."""
    UNACCOUNTED = auto()
    """Frames are missing that no counter explains."""
    NOT_BUILT = auto()
    """The generator could not build some frames."""
    CPU_ACCOUNTING = auto()
    """The CPU time of a core does not add up to the window."""
    DISTURBED = auto()
    """Other processes used the routers' cores."""


@dataclass(frozen=True)
class InvalidReason:
    """Why one trial gives no verdict about the device under test."""

    kind: InvalidKind
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text
