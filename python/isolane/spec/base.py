"""The base of all models that are read from files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """Refuses keys that it does not know and cannot be changed once it is checked.

    The text below a key is its description (:mod:`isolane.spec.descriptions`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
