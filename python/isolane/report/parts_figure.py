"""The plot of the parts of a frame's way: how long each takes."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.report.chart import Axis, Figure, Row, Swatch, stacked_panel
from isolane.report.plot_parts import TIME
from isolane.report.points import Across
from isolane.results.parts import PART_WORDS, WHOLE
from isolane.results.results import Cell, Summary
from isolane.spec.units import format_ns


def parts_figure(summary: Summary, positions: Across) -> Figure | None:
    """Stack the mean times of the parts; one panel per arm and router whose frames were stamped."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in summary.cells:
        if cell.parts:
            groups.setdefault((cell.arm, cell.router), []).append(cell)
    if not groups:
        return None
    used = [name for name in PART_WORDS if any(_mean_ns(c, name) for c in summary.cells)]
    panels = tuple(
        stacked_panel(
            f"{arm} · {router}",
            [row for cell in cells for row in _rows(cell, used, positions)],
            list(PART_WORDS.values()),
            positions.axis,
            _axis(cells, used),
            f"Parts of the way of {router}'s frames in arm {arm}: {_longest(cells, used)}.",
        )
        for (arm, router), cells in groups.items()
    )
    legend = tuple(
        Swatch(words, "series", index, "bar")
        for index, (name, words) in enumerate(PART_WORDS.items())
        if name in used
    )
    caption = (
        "Mean time of a frame on each part of its way, between two capture points. They add up to "
        "the mean delay of the frames that arrived; lost ones are not among them. Each panel has a "
        "scale of its own."
    )
    columns = len({arm for arm, _ in groups})
    return Figure("parts", "Where the time goes", caption, panels, legend, columns=columns)


def _axis(cells: Sequence[Cell], used: Sequence[str]) -> Axis:
    top = max(sum(_mean_ns(cell, name) for name in used) for cell in cells)
    return Axis("mean time of a frame", TIME, domain=(0, 1.1 * max(top, 1.0)))


def _mean_ns(cell: Cell, name: str) -> float:
    found = next((part for part in cell.parts if part.part == name), None)
    return max(0.0, found.mean_ns.median) if found else 0.0


def _rows(cell: Cell, used: Sequence[str], positions: Across) -> list[Row]:
    x = positions.of(cell.arm, cell.point)
    return [
        Row(
            PART_WORDS[part.part],
            x,
            max(0.0, part.mean_ns.median),
            part.mean_ns.low,
            part.mean_ns.high,
            tip={
                "point": cell.point_label,
                "part": PART_WORDS[part.part],
                "mean": format_ns(part.mean_ns.median),
                "p99": format_ns(part.p99_ns.median) if part.p99_ns else "not known",
            },
        )
        for part in cell.parts
        if part.part in used and part.part != WHOLE
    ]


def _longest(cells: Sequence[Cell], used: Sequence[str]) -> str:
    cell = max(cells, key=lambda one: sum(_mean_ns(one, name) for name in used))
    name = max(used, key=lambda one: _mean_ns(cell, one))
    return f"at {cell.point_label} {format_ns(_mean_ns(cell, name))} {PART_WORDS[name]}"
