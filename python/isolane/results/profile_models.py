"""The result format of where the processor went."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from isolane.cpu_profile.category_table import ProfileFigures


class ArmProfile(BaseModel):
    """The CPU profile of one arm at one point."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    point: int
    point_label: str
    trials: int
    """How many it is made of."""
    figures: ProfileFigures
