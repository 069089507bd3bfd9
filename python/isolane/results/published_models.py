"""The result format of published figures."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PublishedCell(BaseModel):
    """A published figure beside the measured one, both as shares of the one-router capacity."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    arm: str
    point: int | None
    point_label: str
    router: str
    metric: str
    published: float | None
    measured: float | None
    difference: float | None
    note: str
