"""Prints what the arms of a run spent CPU time on."""

from __future__ import annotations

from rich.table import Table

from isolane.analysis.arm_profiles import at_last_point
from isolane.analysis.flow_words import flow_in
from isolane.cpu_profile.categories import Category
from isolane.cpu_profile.profile_figures import OwnerFigures
from isolane.results.results import Summary


def category_table(summary: Summary) -> Table | None:
    """Return each category of each arm at the last point; None without CPU profiles."""
    arms = at_last_point(summary.cpu_profiles)
    if not arms:
        return None
    label = next(iter(arms.values())).point_label
    per_frame = all(one.figures.all.ns_per_frame for one in arms.values())
    unit = f"CPU time of a {flow_in(summary).one}, ns" if per_frame else "% of the cores' time"
    title = f"Where the processor goes at {label}: {unit}"
    table = Table(
        title=title, title_justify="left", min_width=len(title),
        header_style="bold", pad_edge=False, box=None,
    )  # fmt: skip
    table.add_column("category")
    for arm in arms:
        table.add_column(arm, justify="right")
    owners = [one.figures.all for one in arms.values()]
    for category in Category:
        found = [_text(owner, category, per_frame=per_frame) for owner in owners]
        if any(found):
            table.add_row(category.value, *(text or "-" for text in found))
    table.add_row("all", *(_text(owner, None, per_frame=per_frame) for owner in owners))
    return table


def _text(owner: OwnerFigures, category: Category | None, *, per_frame: bool) -> str:
    found = next((one for one in owner.categories if one.category is category), None)
    of = owner if category is None else found
    if of is None:
        return ""
    if per_frame and of.ns_per_frame is not None:
        return f"{of.ns_per_frame.value:,.0f}"
    return f"{100 * of.cpu_share.value:.1f}"


def sampling_line(summary: Summary) -> str | None:
    """Return how many samples that rests on, and what they cost; None without CPU profiles."""
    arms = at_last_point(summary.cpu_profiles)
    if not arms:
        return None
    each = [one.figures for one in arms.values()]
    samples = [one.all_samples for one in each]
    many = f"{min(samples)}" if len(set(samples)) == 1 else f"{min(samples)} to {max(samples)}"
    lost = sum(one.lost_samples for one in each)
    cost = 100 * max(one.sampling_share for one in each)
    return (
        f"{many} samples an arm, of {each[0].clock}{f', {lost} lost' if lost else ''}; taking them "
        f"took up to {cost:.2f} % of the cores' time; intervals and routers are in the report"
    )
