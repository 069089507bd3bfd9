"""The victims' points under attack, with the intervals that a verdict rests on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from isolane.analysis.delivery import Groups, Runs, delivered, kept, runs_of
from isolane.results.results import Cell, Interval
from isolane.stats.intervals import CONFIDENCE, Bounds, simultaneous
from isolane.stats.isolation import paired_ratios


@dataclass(frozen=True)
class AttackedPoint:
    """One victim at one point of an arm other than its reference point."""

    cell: Cell
    delivered: Bounds | None
    """Of the offered frames, 0 to 1; the intervals of all the arm's points hold at once. None
    where one value has no interval."""
    kept: Bounds | None
    """Throughput over that at the reference point in the same round, also where that is refused
    as a figure: it still tells what an attack took. The intervals hold at once, too."""

    @property
    def shown(self) -> Interval:
        """The interval of `delivered`, or the median alone where there is none."""
        cell, found = self.cell.delivered, self.delivered
        if cell is None:
            raise ValueError("nothing was offered at this point")
        if found is None:
            return cell
        low, high = max(0.0, found.low), min(found.high, max(1.0, found.median))
        return cell.model_copy(update={"low": low, "high": high, "coverage": CONFIDENCE})


def attacked_points(
    cells: Sequence[Cell], groups: Groups
) -> Mapping[str, tuple[AttackedPoint, ...]]:
    """Return by arm the victims' points under attack that can be judged.

    The reference point, at which a victim retains all by definition, does not count, and neither
    does a point that shares no round with it.
    """
    found: dict[str, tuple[AttackedPoint, ...]] = {}
    for arm in dict.fromkeys(cell.arm for cell in cells):
        own = [cell for cell in cells if cell.arm == arm and _counts(cell)]
        samples = [_samples(cell, groups) for cell in own]
        offered = simultaneous([pair[0] for pair in samples])
        kept = simultaneous([pair[1] for pair in samples])
        if own:
            found[arm] = tuple(map(AttackedPoint, own, offered, kept))
    return found


def _counts(cell: Cell) -> bool:
    return (
        cell.role == "victim"
        and cell.reference is not None
        and cell.reference != cell.point
        and cell.delivered is not None
        and (cell.retained is not None or cell.retained_reason is not None)
    )


Sample = tuple[Sequence[float], Sequence[Hashable]]


def _samples(cell: Cell, groups: Groups) -> tuple[Sample, Sample]:
    """Return the values of `delivered` and of `kept`, each with the invocations they are from."""
    runs = runs_of(groups[cell.arm, cell.point], cell.router)
    assert cell.reference is not None, "_counts() has seen to that"
    before = runs_of(groups[cell.arm, cell.reference], cell.router)
    return (
        _sample(runs, delivered(runs)),
        _sample(runs, paired_ratios(kept(runs), kept(before))),
    )


def _sample(runs: Runs, values: Mapping[int, float]) -> Sample:
    origin = {trial.repeat: trial.invocation for trial, _ in runs}
    return list(values.values()), [origin[repeat] for repeat in values]
