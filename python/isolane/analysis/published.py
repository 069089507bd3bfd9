"""Published figures beside the measured ones."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.results.missing import MissingPoint, in_arm
from isolane.results.results import Aggregate, Capacity, Cell, CoreCell, PublishedCell
from isolane.spec.models import Published, PublishedRow

TOTAL = "total"
"""Stands for all routers together in a published row."""

_TOLERANCE = 0.02
"""Loads that differ by less are the same point, because papers round, and we round multiples."""


class Measured:
    """Measured results, looked up by arm, loads and router count as a publication gives them."""

    def __init__(
        self,
        cells: Sequence[Cell],
        aggregates: Sequence[Aggregate],
        cores: Sequence[CoreCell],
        capacity: Capacity | None,
        missing: Sequence[MissingPoint] = (),
    ) -> None:
        self._cells = cells
        self._missing = missing
        self._aggregates = aggregates
        self._cores = [core for core in cores if core.part == "dut"]
        self._scale = capacity.pps.median if capacity else None

    def point(self, arm: str, loads: dict[str, float], count: int | None) -> int | None:
        """Find the point of `arm` with these offered loads (in capacities) and router count."""
        # No publication has routers that work besides: where others are alike, they come first.
        own = sorted((c for c in self._cells if c.arm == arm), key=lambda cell: cell.working)
        for point in dict.fromkeys(cell.point for cell in own):
            there = self._at(arm, point)
            routers = len([cell for cell in there if cell.group in loads or cell.router in loads])
            if count is not None and routers != count:
                continue
            if all(self._close(there, name, load) for name, load in loads.items()):
                return point
        return self._missing_point(arm, loads, count)

    def _missing_point(self, arm: str, loads: dict[str, float], count: int | None) -> int | None:
        """Find a missing point: the point is known although it has no figures."""
        for point in in_arm(self._missing, arm):
            there = [router for router in point.routers if {router.group, router.router} & {*loads}]
            if count is not None and len(there) != count:
                continue
            if all(
                _near([r.load_x for r in there if name in (r.router, r.group)], load)
                for name, load in loads.items()
            ):
                return point.point
        return None

    def label(self, arm: str, point: int) -> str:
        """Label of a point that was found."""
        labels = [cell.point_label for cell in self._at(arm, point)]
        gaps = [gap.point_label for gap in in_arm(self._missing, arm) if gap.point == point]
        return [*labels, *gaps][0]

    def value(self, arm: str, point: int, router: str, metric: str) -> float | None:
        """Look up one figure: a share of 1, or ns for a delay; None where it was not measured."""
        cells = [c for c in self._at(arm, point) if router in {c.router, c.group, TOTAL}]
        if metric == "throughput":
            shares = [c.throughput_x.median for c in cells if c.throughput_x]
            if router == TOTAL:
                return self._total(arm, point)
            return sum(shares) if shares and len(shares) == len(cells) else None
        if metric == "loss":
            return _only([c.loss_ratio.median for c in cells if c.loss_ratio])
        if metric == "delay":
            found = [c.arrived_p50_ns or c.delay_p50_ns for c in cells]
            return _only([delay.median for delay in found if delay])
        return self._cpu(arm, point, router, metric)

    def _at(self, arm: str, point: int) -> list[Cell]:
        return [cell for cell in self._cells if cell.arm == arm and cell.point == point]

    def _close(self, cells: Sequence[Cell], name: str, load: float) -> bool:
        return _near([self._load(c) for c in cells if name in {c.router, c.group}], load)

    def _load(self, cell: Cell) -> float | None:
        if cell.load_x is not None:
            return cell.load_x
        return cell.offered_pps.median / self._scale if self._scale else None

    def _total(self, arm: str, point: int) -> float | None:
        shares = [
            a.throughput_x.median
            for a in self._aggregates
            if a.arm == arm and a.point == point and a.throughput_x
        ]
        return _only(shares)

    def _cpu(self, arm: str, point: int, router: str, metric: str) -> float | None:
        """Return the use of the DUT's cores (all routers), or what was charged to one router."""
        if router != TOTAL:
            shares = [
                c.cpu_share.median
                for c in self._at(arm, point)
                if router in {c.router, c.group} and c.cpu_share
            ]
            return sum(shares) if shares and metric == "cpu" else None
        cores = [core for core in self._cores if core.arm == arm and core.point == point]
        parts = {
            "cpu": [core.user + core.system + core.softirq for core in cores],
            "cpu-kernel": [core.system + core.softirq for core in cores],
            "cpu-user": [core.user for core in cores],
        }[metric]
        return sum(parts) / len(parts) if parts else None


def _near(found: Sequence[float | None], load: float) -> bool:
    known = [value for value in found if value is not None]
    return bool(known) and abs(sum(known) - load) <= _TOLERANCE * max(load, 0.1)


def _only(values: Sequence[float]) -> float | None:
    return values[0] if len(values) == 1 else None


def beside_measured(published: Published, measured: Measured) -> tuple[PublishedCell, ...]:
    """Put each published row beside the figure measured at the same point, where there is one.

    Rates become shares of the publication's and of this run's one-router capacity, which is what
    makes machines of different speed comparable. CPU and loss are shares of 1, delays ns.
    """
    return tuple(_beside(published, row, measured) for row in published.rows)


def _beside(published: Published, row: PublishedRow, measured: Measured) -> PublishedCell:
    loads = {name: published.share(load) for name, load in row.load.items()}
    point = measured.point(row.arm, loads, row.count)
    theirs = _published(published, row)
    ours = None if point is None else measured.value(row.arm, point, row.router, row.metric)
    known = theirs is not None and ours is not None
    return PublishedCell(
        arm=row.arm,
        point=point,
        point_label=measured.label(row.arm, point) if point is not None else _label(row, loads),
        router=row.router,
        metric=row.metric,
        published=theirs,
        measured=ours,
        difference=ours - theirs if known and ours is not None and theirs is not None else None,
        note=row.note,
    )


def _published(published: Published, row: PublishedRow) -> float | None:
    if row.value is None:
        return None
    if row.metric == "throughput":
        return published.share(row.value)
    return row.value.value


def _label(row: PublishedRow, loads: dict[str, float]) -> str:
    parts = [f"{name} {load:.3g}x" for name, load in loads.items()]
    if row.count is not None:
        parts.append(f"{row.count} routers")
    return ", ".join(parts)
