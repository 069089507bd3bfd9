"""Where the processor goes, as stacked bars, one for each arm: figure 1 of Ahn, Lee and Yoo."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from isolane.analysis.wording import percent
from isolane.cpu_profile.categories import Category
from isolane.cpu_profile.profile_figures import ALL, CategoryFigures, OwnerFigures, ProfileFigures
from isolane.report.chart import Axis, Figure, Panel, Row, Swatch, stacked_panel
from isolane.report.plot_parts import PERCENT, TIME
from isolane.spec.units import format_ns
from isolane.stats.counted import Counted

_Pick = Callable[[CategoryFigures], Counted | None]


def category_bars(arms: Mapping[str, ProfileFigures], owner: str = ALL) -> Figure | None:
    """Stack what each arm spent on each category.

    Parameters
    ----------
    arms
        A profile of each arm, in the order of the bars.
    owner
        A router's name, ``host``, or all together.

    Returns
    -------
    Figure or None
        A panel with shares of the cores' time, and one with the CPU time of a frame where all arms
        know their frames; None where no arm has the owner's samples.
    """
    found = {arm: own for arm, profile in arms.items() if (own := profile.of(owner)) is not None}
    used = [
        c
        for c in Category
        if any(c is one.category for o in found.values() for one in o.categories)
    ]
    if not used:
        return None
    panels = [_panel("share of the cores' time", PERCENT, found, lambda one: one.cpu_share)]
    if all(own.ns_per_frame is not None for own in found.values()):
        panels.append(_panel("CPU time of a frame", TIME, found, lambda one: one.ns_per_frame))
    whose = "All work on the cores" if owner == ALL else f"Work of {owner}"
    caption = (
        f"{whose} by what it was for, which the call chain of each sample decides. What is missing "
        "in a bar from 100 % was idle time, or spent for others."
    )
    order = list(Category)
    legend = tuple(Swatch(one.value, "categories", order.index(one), "bar") for one in used)
    title = "Where the processor goes"
    return Figure("categories", title, caption, tuple(panels), legend, "categories")


def _panel(title: str, expr: str, arms: Mapping[str, OwnerFigures], pick: _Pick) -> Panel:
    rows, write = [], format_ns if expr is TIME else _write_share
    for index, (arm, own) in enumerate(arms.items()):
        rows += [
            _row(arm, index, one, value, write)
            for one in own.categories
            if (value := pick(one)) is not None
        ]
    tops = {arm: sum(row.y for row in rows if row.x == index) for index, arm in enumerate(arms)}
    top = 1.0 if expr is PERCENT else 1.05 * max(tops.values(), default=1.0)
    x = Axis("arm", f"{json.dumps(list(arms))}[datum.value]", tuple(map(float, range(len(arms)))))
    said = "; ".join(f"{arm} {write(value)}" for arm, value in tops.items())
    names = [one.value for one in Category]
    return stacked_panel(
        title, rows, names, x, Axis(title, expr, domain=(0, top)), f"{title} by category: {said}."
    )


def _row(
    arm: str, x: int, one: CategoryFigures, value: Counted, write: Callable[[float], str]
) -> Row:
    tip = {
        "arm": arm,
        "category": one.category.value,
        "value": write(value.value),
        "95 %": f"{write(value.low)} to {write(value.high)}",
        "samples": f"{one.samples:,}",
    }
    return Row(one.category.value, float(x), value.value, value.low, value.high, tip=tip)


def _write_share(share: float) -> str:
    return f"{percent(share)} %"
