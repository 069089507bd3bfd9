"""A comparison in words, for the table and for the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from isolane.analysis.flow_words import flow_of
from isolane.analysis.wording import digits, listing, plural
from isolane.compare.comparison_models import LIMIT, Comparison, Difference
from isolane.spec import format_ns
from isolane.stats.shifts import smallest_p

MAX_POINTS: Final = 2


def counts(found: Comparison) -> str:
    """Count the figures by what came out, in one sentence."""
    parts = [
        f"{found.count('worse')} worse" if found.count("worse") else "",
        f"{found.count('better')} better" if found.count("better") else "",
    ]
    same, without = found.count("no difference shown"), found.count("not compared")
    parts += [f"no difference shown in {same}" if same else ""]
    parts += [f"{without} not compared" if without else ""]
    return f"Of {plural(len(found.differences), 'figure')}: {listing([p for p in parts if p])}."


def beyond(found: Comparison) -> str:
    """Say how many are worse by more than the tolerance."""
    return f"{plural(len(found.worse), 'figure')} worse by more than {percent(found.tolerance)}"


def remarks(found: Comparison) -> list[str]:
    """Return sentences that a reader has to know besides, the weightiest first."""
    told = [f"Besides: {'; '.join(found.changed)}."] if found.changed else []
    told.append(
        "Two starts of the same run differ, too. These intervals leave that out; "
        "--invocations puts it in."
    )
    few = sum(smallest_p(*each.values) > LIMIT for each in found.differences)
    if few:
        text = (
            f"{plural(few, 'figure')} of too few trials to show a difference: at least 4 on each "
            "side (--repeats)."
        )
        told.insert(0 if 2 * few > len(found.differences) else len(told), text)
    return [*told, *_left_out(found)]


def _left_out(found: Comparison) -> Iterator[str]:
    """Yield what is in one run only, or is not the same load in both."""
    for which, points in (("first", found.only_before), ("second", found.only_after)):
        if points:
            left = len(points) - MAX_POINTS
            more = f" and {left} more" if left > 0 else ""
            yield f"Only the {which} run has {', '.join(points[:MAX_POINTS])}{more}."
    for each in found.differences:
        if each.reason:
            about = f"{each.router} on {each.arm} at {each.load}"
            yield f"Not compared, such as {about}: {each.reason}."
            return


def value(each: Difference, what: float) -> str:
    """Write a figure's value with its unit."""
    if each.figure == "throughput":
        return flow_of([each.mode]).rate(what)
    return percent(what) if each.figure == "loss" else format_ns(what)


def change(each: Difference) -> str:
    """Write a change with its interval; empty where it has none."""
    if each.change is None:
        return ""
    middle = f"{_signed(each.change)} {'pp' if each.figure == 'loss' else '%'}"
    if each.low is None or each.high is None:
        return middle
    return f"{middle} [{_signed(each.low)}, {_signed(each.high)}]"


def percent(share: float) -> str:
    """Write a share of 1 with its unit."""
    return f"{digits(100 * share, 3)} %"


def probability(each: Difference) -> str:
    """Write the corrected p value; empty where the figure is not compared."""
    return "" if each.adjusted_p is None else f"{each.adjusted_p:.3f}"


def _signed(share: float) -> str:
    text = digits(100 * abs(share), 2)
    return text if text == "0" else f"{'+' if share > 0 else '-'}{text}"
