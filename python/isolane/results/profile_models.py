"""The result format of where the processor went."""

from __future__ import annotations

from isolane.cpu_profile.profile_figures import ProfileFigures
from isolane.stored_model import StoredModel


class ArmProfile(StoredModel):
    """The CPU profile of one arm at one point."""

    arm: str
    point: int
    point_label: str
    trials: int
    """How many it is made of."""
    figures: ProfileFigures
