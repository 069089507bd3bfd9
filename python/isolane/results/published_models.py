"""The result format of published figures."""

from __future__ import annotations

from isolane.stored_model import StoredModel


class PublishedCell(StoredModel):
    """A published figure beside the measured one, both as shares of the one-router capacity."""

    arm: str
    point: int | None
    point_label: str
    router: str
    metric: str
    published: float | None
    measured: float | None
    difference: float | None
    note: str
