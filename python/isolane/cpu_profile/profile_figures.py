"""CPU time by router and category: the models, as tables and JSON have them."""

from __future__ import annotations

from typing import Final

from isolane.cpu_profile.categories import Category
from isolane.stats.counted import Counted
from isolane.stored_model import StoredModel

ALL: Final = "all"
"""In place of a router: all of them and the host together."""


class CategoryFigures(StoredModel):
    """What one router spent on one category."""

    category: Category
    samples: int
    cpu_share: Counted
    """Part of the time of all cores that were sampled, 0 to 1."""
    own_share: Counted
    """Part of the router's own CPU time, 0 to 1."""
    ns_per_frame: Counted | None
    """None where its frames are not known, or there were none."""


class OwnerFigures(StoredModel):
    """What one router spent; its categories add up to it, in samples."""

    owner: str
    """A router's name, ``NICs`` for interfaces that several share, ``host`` for work of nobody,
    ``all`` for all together."""
    samples: int
    frames: int | None
    """Forwarded in that time; None: not known. Those of all are known where those of each are."""
    cpu_share: Counted
    ns_per_frame: Counted | None
    categories: tuple[CategoryFigures, ...]
    """Those that samples were found in, unclassified last."""


class ProfileFigures(StoredModel):
    """A CPU profile by router and category."""

    table_version: int
    """Of the table of categories."""
    clock: str
    period_ns: int
    duration_ns: int
    cores: tuple[int, ...]
    all_samples: int
    """All that are accounted for: of routers, of the host, and of idle cores."""
    idle_samples: int
    lost_samples: int
    sampling_share: float
    """Part of the time of all cores, 0 to 1, that taking the samples took, without the interrupts
    as such."""
    unclassified_share: float | None
    """Part of all busy samples, 0 to 1; None where no core was busy."""
    inherited_share: float | None
    """The same of samples in functions that the table does not name, which belong with their
    callers: how far the table knows this kernel."""
    owners: tuple[OwnerFigures, ...]
    """Routers in the order of their names, NICs, the host."""
    all: OwnerFigures

    def of(self, owner: str) -> OwnerFigures | None:
        """Return the figures of a router, of ``host`` or of ``all``; None without samples."""
        if owner == ALL:
            return self.all
        return next((one for one in self.owners if one.owner == owner), None)
