"""The first plot of a report: what is delivered to the victims, beside it what they retain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isolane.analysis.flow_words import REQUESTS, Flow, flow_in
from isolane.analysis.table_rows import REFUSED
from isolane.report.chart import Axis, Figure, Gap, Panel, Swatch, line_panel
from isolane.report.plot_parts import (
    MAX_SERIES,
    PERCENT,
    arms,
    gap_key,
    gaps_of,
    line_swatches,
    of_role,
    row_of,
    said,
    write_share,
)
from isolane.report.points import Across
from isolane.results.missing import MissingPoint
from isolane.results.results import Cell, Interval, Summary


def victim_figure(summary: Summary, positions: Across) -> Figure | None:
    """Draw what is delivered to the victims of each arm, and what they retain of their reference.

    A run of an older method has only the second; one without a reference point only the first.
    None without victims, and where only one point could be drawn.
    """
    victims = [cell for cell in summary.cells if cell.role == "victim"]
    if not any(cell.retained or cell.retained_reason for cell in victims):
        return None
    several = len({cell.router for cell in victims}) > 1
    gaps = _missing(summary, positions, several=several)
    refused = [
        Gap(
            _series(cell, several=several),
            positions.of(cell.arm, cell.point),
            {"arm": cell.arm, "point": cell.point_label, REFUSED: cell.retained_reason},
            REFUSED,
        )
        for cell in victims
        if cell.retained_reason is not None
    ]
    names = arms(summary)
    if several:
        found = [_series(cell, several=several) for cell in victims]
        names = list(dict.fromkeys([*found, *(gap.series for gap in gaps)]))
    draw = _Drawing(names[:MAX_SERIES], positions, several=several)
    panels = [
        draw.panel("delivered", "Delivered of offered", victims, lambda c: c.delivered, gaps),
        draw.panel(
            "retained", "Retained of the reference", victims, lambda c: c.retained,
            [*gaps, *refused],
        ),
    ]  # fmt: skip
    shown = tuple(panel for panel in panels if panel is not None)
    key = (Swatch(REFUSED, "series", 0, "gap"),) if refused else ()
    if gaps and refused:
        key = (Swatch("no verdict or refused", "series", 0, "gap"),)
    legend = (*line_swatches(names[:MAX_SERIES]), *(key or gap_key(gaps)))
    return Figure(
        "victim", "What reaches the victim", _caption(refused, flow_in(summary)), shown, legend
    )


def _came(flow: Flow) -> str:
    return "answered" if flow is REQUESTS else "received"


def _caption(refused: Sequence[Gap], flow: Flow) -> str:
    text = (
        f"The victim is always offered the same. Delivered: its {_came(flow)} over its offered "
        f"{flow.many}. "
        "Retained: its throughput over what it had in the same round while the aggressor was "
        "offered and did least. On a host that isolates perfectly all lines stay at 100 %."
    )
    if refused:
        text += (
            f" Retained is refused (a cross) where the victim loses {flow.many} at that reference "
            "already: a ratio to it would look the better the more is lost."
        )
    return text


def _series(cell: Cell, *, several: bool) -> str:
    return f"{cell.arm}, {cell.router}" if several else cell.arm


def _missing(summary: Summary, positions: Across, *, several: bool) -> list[Gap]:
    def series(point: MissingPoint) -> list[str]:
        names = of_role(point, "victim")
        return [f"{point.arm}, {name}" if several else point.arm for name in names]

    return gaps_of(summary, positions, series)


class _Drawing:
    """Draws panels that share series and horizontal axis."""

    def __init__(self, names: Sequence[str], positions: Across, *, several: bool) -> None:
        self._names = names
        self._positions = positions
        self._several = several

    def panel(
        self,
        word: str,
        title: str,
        victims: Sequence[Cell],
        pick: Callable[[Cell], Interval | None],
        gaps: Sequence[Gap],
    ) -> Panel | None:
        rows = [
            row_of(
                _series(cell, several=self._several),
                self._positions.of(cell.arm, cell.point),
                value,
                write_share,
                arm=cell.arm,
                point=cell.point_label,
            )
            for cell in victims
            if (value := pick(cell)) is not None
        ]
        if not rows and not any(gap.word == REFUSED for gap in gaps):
            return None
        top = max([1.05, *(row.high for row in rows)])
        return line_panel(
            title,
            rows,
            self._names,
            self._positions.axis,
            Axis(f"share {word}", PERCENT, domain=(0, top)),
            f"Share {word}: {said(rows, write_share)}.",
            level=1,
            gaps=gaps,
        )
