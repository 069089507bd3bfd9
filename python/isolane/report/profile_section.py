"""Where the processor goes: the section of the report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isolane.analysis.arm_profiles import at_last_point, stacks_at
from isolane.cpu_profile.profile_difference import HEADINGS, compare_profiles, difference_rows
from isolane.cpu_profile.profile_figures import ALL
from isolane.report.category_bars import category_bars
from isolane.report.chart import Figure
from isolane.report.flame_graph import flame_graph
from isolane.report.loaded_run import Run
from isolane.report.tables import Table, Value
from isolane.report.theme import css_colours
from isolane.results.profile_models import ArmProfile

_HINTS = (
    "arm compared, and the unit",
    "what CPU time was for",
    "the first arm",
    "the arm compared",
    "second minus first",
    "of the difference",
)


@dataclass(frozen=True)
class ProfileSection:
    """What the page shows below its bars."""

    words: str
    """What it rests on."""
    differences: Table
    """Each arm against the first one; no rows with one arm."""
    flames: tuple[tuple[str, str], ...]
    """Arm, and its call chains as a drawing."""


def profile_figure(run: Run) -> Figure | None:
    """Draw the categories of each arm at the last point; None without CPU profiles."""
    arms = at_last_point(run.summary.cpu_profiles)
    figure = category_bars({arm: one.figures for arm, one in arms.items()})
    if figure is None:
        return None
    label = next(iter(arms.values())).point_label
    told = f"At {label}, all routers and the host; interrupts as such are in no bar."
    return replace(figure, caption=f"{told} {figure.caption}")


def profile_section(run: Run) -> ProfileSection | None:
    """Return what stands below; None without CPU profiles."""
    arms = at_last_point(run.summary.cpu_profiles)
    if not arms:
        return None
    return ProfileSection(
        _words(tuple(arms.values())), _differences(tuple(arms.values())), _flames(run, arms)
    )


def _words(arms: tuple[ArmProfile, ...]) -> str:
    each = ", ".join(
        f"{one.arm} {one.figures.all_samples:,} samples of {one.trials} trials" for one in arms
    )
    cost = 100 * max(one.figures.sampling_share for one in arms)
    return (
        f"At {arms[0].point_label}, by {arms[0].figures.clock}: {each}. Taking samples took up to "
        f"{cost:.2f} % of the cores' time, without the interrupts as such. Intervals are about the "
        "number of samples only."
    )


def _differences(arms: tuple[ArmProfile, ...]) -> Table:
    first, *others = arms
    rows = []
    for other in others:
        found = compare_profiles(first.figures, other.figures, ALL)
        heading = f"{other.arm} against {first.arm}, {found.unit}"
        rows += [(Value(heading), *map(Value, row)) for row in difference_rows(found)]
    return Table(("arms", *HEADINGS), _HINTS, tuple(rows), 2)


def _flames(run: Run, arms: dict[str, ArmProfile]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            arm,
            flame_graph(
                stacks_at(one, run.trials, run.profiles),
                f"{arm}, {one.point_label}",
                colours=css_colours(),
            ),
        )
        for arm, one in arms.items()
    )
