"""The base of all models that are written into a run folder, or told as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StoredModel(BaseModel):
    """Cannot be changed, and refuses keys that it does not know: those of a later version.

    Infinities and "not a number" are kept, as words. What checks and writes a model is made when
    it is first used: most commands need few of them.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, ser_json_inf_nan="strings", defer_build=True
    )
