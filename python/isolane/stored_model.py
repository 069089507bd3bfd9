"""The base of all models that are written into a run folder, or told as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class StoredModel(BaseModel):
    """Cannot be changed, and refuses keys that it does not know: those of a later version.

    Infinities and "not a number" are kept, as words. What checks and writes a model is made when
    it is first used: most commands need few of them.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, ser_json_inf_nan="strings", defer_build=True
    )


def former(*keys: str) -> Any:
    """Pass over keys that older versions wrote: ``_former = former("noise")`` in a model."""

    def pass_over(stored: Any) -> Any:
        if not isinstance(stored, dict):
            return stored
        return {key: value for key, value in stored.items() if key not in keys}

    return model_validator(mode="before")(staticmethod(pass_over))
