"""What two CPU profiles differ in, category by category, with how sure that is."""

from __future__ import annotations

from typing import Final, Literal

from isolane.cpu_profile.categories import Category
from isolane.cpu_profile.category_table import cost
from isolane.cpu_profile.profile_figures import ALL, OwnerFigures, ProfileFigures
from isolane.errors import SpecError
from isolane.stats.counted import Counted, scaled
from isolane.stats.proportions import difference, wilson
from isolane.stored_model import StoredModel

Unit = Literal["ns per frame", "percent of the cores"]

HEADINGS: Final = ("category", "first", "second", "difference", "95 %")
"""Of `difference_rows`; the unit is that of the comparison."""


class CategoryDifference(StoredModel):
    """One category in both profiles."""

    category: Category | None
    """None: all categories together."""
    first: Counted
    second: Counted
    difference: Counted
    """Second minus first."""

    @property
    def shown(self) -> bool:
        """Whether the samples show a difference: its 95 % interval does not hold 0."""
        return self.difference.low > 0 or self.difference.high < 0


class ProfileDifference(StoredModel):
    """Two profiles of the same router, or of all together."""

    owner: str
    unit: Unit
    """Percent of all cores' time where the frames of one of them are not known."""
    rows: tuple[CategoryDifference, ...]
    """Categories that one of both has, unclassified last; then all together."""


def compare_profiles(
    first: ProfileFigures, second: ProfileFigures, owner: str = ALL
) -> ProfileDifference:
    """Compare two profiles.

    Parameters
    ----------
    first, second
        Two arms, or the same before and after a change.
    owner
        A router's name, ``host``, or all together. What it has no samples of is 0.

    Raises
    ------
    SpecError
        Other tables of categories, or other clocks, made the profiles; or neither has the owner.

    Notes
    -----
    The interval is about the number of samples only: see docs/cpu-profile.md.
    """
    for what, made in {
        "versions of the table of categories": (first.table_version, second.table_version),
        "clocks": (first.clock, second.clock),
    }.items():
        if made[0] != made[1]:
            raise SpecError(f"the profiles have different {what}: {made[0]} and {made[1]}")
    owners = first.of(owner), second.of(owner)
    if owners == (None, None):
        names = dict.fromkeys(one.owner for one in (*first.owners, *second.owners))
        raise SpecError(f"{owner}: neither profile has it; accepted: {', '.join((*names, ALL))}")
    known = all(one is not None and one.frames for one in owners)
    unit: Unit = "ns per frame" if known else "percent of the cores"
    counts = [_counts(one) for one in owners]
    used = [one for one in Category if any(found.get(one) for found in counts)]
    rows = []
    for category in (*used, None):
        values = [
            _value(found.get(category, 0), profile, one if known else None)
            for found, profile, one in zip(counts, (first, second), owners, strict=True)
        ]
        rows.append(
            CategoryDifference(
                category=category,
                first=values[0],
                second=values[1],
                difference=difference(values[0], values[1]),
            )
        )
    return ProfileDifference(owner=owner, unit=unit, rows=tuple(rows))


def _counts(owner: OwnerFigures | None) -> dict[Category | None, int]:
    """Return samples by category, and all of them under None."""
    if owner is None:
        return {}
    return {None: owner.samples, **{one.category: one.samples for one in owner.categories}}


def _value(samples: int, profile: ProfileFigures, owner: OwnerFigures | None) -> Counted:
    if owner is None or not owner.frames:
        return scaled(wilson(samples, profile.all_samples), 100)
    return cost(samples, profile.all_samples, profile.period_ns, owner.frames)


def difference_rows(found: ProfileDifference) -> list[tuple[str, ...]]:
    """Return the rows of a table under `HEADINGS`."""
    digits = 0 if found.unit == "ns per frame" else 1
    return [
        (
            one.category.value if one.category else ALL,
            f"{one.first.value:,.{digits}f}",
            f"{one.second.value:,.{digits}f}",
            f"{one.difference.value:+,.{digits}f}",
            f"{one.difference.low:+,.{digits}f} to {one.difference.high:+,.{digits}f}",
        )
        for one in found.rows
    ]
