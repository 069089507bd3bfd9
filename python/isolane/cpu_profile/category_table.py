"""CPU time by router and category, with how sure it is: for tables and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Final

from isolane.cpu_profile.categories import Category, CategoryTable, shipped_table
from isolane.cpu_profile.profile_figures import ALL, CategoryFigures, OwnerFigures, ProfileFigures
from isolane.cpu_profile.sampled_stacks import HOST, NICS, CpuProfile
from isolane.errors import MeasurementError
from isolane.stats.counted import Counted, scaled
from isolane.stats.proportions import wilson

HEADINGS: Final = ("router", "category", "CPU", "of its CPU", "95 %", "ns/frame", "95 %")
"""Of `table_rows`. The first two are words, the others figures."""

SHORT_HEADINGS: Final = ("router", "CPU", "ns/frame", "of its CPU")
"""Of `short_rows`. The first and the last are words, the others figures."""
_SHOWN: Final = 4
"""Categories that a short row names."""


def cost(samples: int, all_samples: int, period_ns: int, frames: int) -> Counted:
    """Return what a frame cost where so many of all samples were found.

    The number of all samples follows from time and period, and the number of frames was counted:
    what is left to chance is how many of the samples were found there.

    Parameters
    ----------
    samples, all_samples
        Found there, and all that are accounted for.
    period_ns
        CPU time that a sample stands for.
    frames
        At least 1.

    Returns
    -------
    Counted
        CPU time of a frame, ns.
    """
    return scaled(wilson(samples, all_samples), all_samples * period_ns / frames)


def figures(profile: CpuProfile, table: CategoryTable | None = None) -> ProfileFigures:
    """Classify all stacks of a profile.

    Parameters
    ----------
    profile
        Samples of some cores.
    table
        Which function belongs to which category; by default the one that ships.

    Raises
    ------
    MeasurementError
        There is no sample, not even of an idle core.
    """
    table = table or shipped_table()
    if profile.all_samples == 0:
        raise MeasurementError(
            f"no sample was taken on cores {', '.join(map(str, profile.cores))} in "
            f"{profile.duration_ns / 1e9:g} s"
        )
    counts: dict[str, Counter[Category]] = {owner: Counter() for owner in profile.owners()}
    for stack in profile.stacks:
        counts[stack.owner][table.classify(stack)] += stack.samples
    whole = sum(counts.values(), Counter[Category]())
    busy = whole.total()
    inherited = sum(stack.samples for stack in profile.stacks if table.inherits(stack))
    routers = [owner for owner in counts if owner not in (NICS, HOST)]
    known = all(owner in profile.frames for owner in routers) and bool(profile.frames)
    frames = sum(profile.frames.values()) if known else None
    return ProfileFigures(
        table_version=table.version,
        clock=profile.clock,
        period_ns=profile.period_ns,
        duration_ns=profile.duration_ns,
        cores=profile.cores,
        all_samples=profile.all_samples,
        idle_samples=profile.idle_samples,
        lost_samples=profile.lost_samples,
        sampling_share=profile.sampling_ns / (profile.duration_ns * len(profile.cores)),
        unclassified_share=whole[Category.UNCLASSIFIED] / busy if busy else None,
        inherited_share=inherited / busy if busy else None,
        owners=tuple(
            _owner(owner, found, profile.frames.get(owner), profile)
            for owner, found in counts.items()
        ),
        all=_owner(ALL, whole, frames, profile),
    )


def _owner(
    owner: str, counts: Counter[Category], frames: int | None, profile: CpuProfile
) -> OwnerFigures:
    total, every = counts.total(), profile.all_samples

    def per_frame(samples: int) -> Counted | None:
        return cost(samples, every, profile.period_ns, frames) if frames else None

    return OwnerFigures(
        owner=owner,
        samples=total,
        frames=frames,
        cpu_share=wilson(total, every),
        ns_per_frame=per_frame(total),
        categories=tuple(
            CategoryFigures(
                category=category,
                samples=counts[category],
                cpu_share=wilson(counts[category], every),
                own_share=wilson(counts[category], total),
                ns_per_frame=per_frame(counts[category]),
            )
            for category in Category
            if counts[category]
        ),
    )


def table_rows(found: ProfileFigures) -> list[tuple[str, ...]]:
    """Return the rows of a table under `HEADINGS`.

    For each router a row for all that it spent, then one for each category; where there are several
    owners, all together come last.
    """
    owners = (*found.owners, *([found.all] if len(found.owners) != 1 else []))
    return [row for owner in owners for row in _rows_of(owner)]


def short_rows(found: ProfileFigures) -> list[tuple[str, ...]]:
    """Return a row for each owner under `SHORT_HEADINGS`, with what it spent its time on mostly."""
    return [
        (
            owner.owner,
            _percent(owner.cpu_share.value),
            _cost(owner.ns_per_frame)[0],
            ", ".join(
                f"{one.category.value} {100 * one.own_share.value:.0f} %"
                for one in sorted(owner.categories, key=lambda one: -one.samples)[:_SHOWN]
            ),
        )
        for owner in found.owners
    ]


def _rows_of(owner: OwnerFigures) -> list[tuple[str, ...]]:
    whole = (owner.owner, "", _percent(owner.cpu_share.value), "", "", *_cost(owner.ns_per_frame))
    return [
        whole,
        *(
            (
                owner.owner,
                one.category.value,
                _percent(one.cpu_share.value),
                _percent(one.own_share.value),
                f"{100 * one.own_share.low:.1f} to {100 * one.own_share.high:.1f}",
                *_cost(one.ns_per_frame),
            )
            for one in owner.categories
        ),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cost(ns: Counted | None) -> tuple[str, str]:
    return ("", "") if ns is None else (f"{ns.value:,.0f}", f"{ns.low:,.0f} to {ns.high:,.0f}")
