"""Cells: the results of one router at one point in one arm, over the repeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypedDict

from isolane.analysis.delay_cells import delay_figures, inflation
from isolane.analysis.delivery import (
    Groups,
    Reference,
    Runs,
    Weights,
    aggressors_of,
    delivered,
    interval,
    kept,
    over,
    reference_of,
    runs_of,
    shares,
    tells_cpu,
    throughputs,
    working,
)
from isolane.analysis.part_cells import part_cells
from isolane.results.cpu_results import CorePartName
from isolane.results.missing import MissingPoint
from isolane.results.results import (
    DROP_POINTS,
    Aggregate,
    Capacity,
    Cell,
    CoreCell,
    CoreTrial,
    DropPoint,
    Interval,
    RouterTrial,
    Trial,
)
from isolane.stats.isolation import paired_ratios

SHORT = 0.02
"""A generator that falls short by a smaller share than this has sent the offered load."""


def _sure(values: Sequence[float], invocations: Sequence[int] | None = None) -> Interval:
    found = interval(values, invocations)
    if found is None:
        raise ValueError("an interval needs at least one value")
    return found


def usable(trials: Sequence[Trial], arms: Sequence[str]) -> Groups:
    """Group the measuring trials that gave a verdict by arm and point, in the order of `arms`."""
    groups: Groups = defaultdict(list)
    for trial in trials:
        if trial.purpose == "measure" and trial.status == "ok" and trial.routers:
            groups[trial.arm, trial.point].append(trial)
    rank = {arm: index for index, arm in enumerate(arms)}
    keys = sorted(groups, key=lambda key: (rank.get(key[0], len(rank)), key))
    return {key: sorted(groups[key], key=lambda trial: trial.repeat) for key in keys}


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _lost(runs: Runs) -> dict[DropPoint, float]:
    return {
        where: _mean([router.lost.get(where, 0) for _, router in runs]) for where in DROP_POINTS
    }


def compared(runs: Runs, reference: Reference | None) -> dict[str, Interval | int | str | None]:
    """Return what a victim retains of its reference, and how its delay grew; or why not."""
    if reference is None:
        return {}
    found: dict[str, Interval | int | str | None] = {"reference": reference.point}
    if reference.refused is not None:
        return {**found, "retained_reason": reference.refused}
    before = reference.runs
    return {
        **found,
        "retained": over(runs, paired_ratios(kept(runs), kept(before))),
        "delay_inflation": inflation(runs, before),
    }


def _cell(
    groups: Groups,
    key: tuple[str, int],
    router: str,
    capacity: Capacity | None,
    missing: Sequence[MissingPoint],
    weights: Weights,
) -> Cell:
    trials, runs = groups[key], runs_of(groups[key], router)
    trial, first = runs[0]
    rates = throughputs(runs)
    reference = reference_of(groups, key[0], runs, missing) if first.role == "victim" else None
    origins = [trial.invocation for trial, _ in runs]

    def each(pick: Callable[[RouterTrial], float | None]) -> Interval | None:
        return interval([pick(router) for _, router in runs], origins)

    def cpu(pick: Callable[[RouterTrial], float | None]) -> Interval | None:
        return interval([pick(r) if tells_cpu(t) else None for t, r in runs], origins)

    scale = capacity.pps.median if capacity else 0.0
    figures = {
        "throughput_x": each(lambda r: r.received_pps / scale) if scale > 0 else None,
        "generated_pps": each(lambda r: r.generated_pps),
        "loss_ratio": each(lambda r: r.loss_ratio),
        "delivered": over(runs, delivered(runs)),
        "cpu_share": cpu(lambda r: r.cpu_share),
        "cpu_ns_per_frame": cpu(lambda r: r.cpu_ns_per_frame),
        "cpu_caused_share": cpu(lambda r: r.cpu_caused_share),
        "cpu_caused_ns_per_frame": cpu(lambda r: r.cpu_caused_ns_per_frame),
        "share_error": over(runs, shares(trials, router, weights.get(key[0], {}))),
        **delay_figures(runs),
        **compared(runs, reference),
    }
    return Cell(
        arm=key[0],
        point=key[1],
        point_label=trial.point_label,
        router=first.router,
        group=first.group,
        role=first.role,
        mode=first.mode,
        parts=part_cells(runs),
        object_bytes=first.web.object_bytes if first.web else None,
        closed=first.web is not None and first.web.closed,
        content_bps=each(lambda r: r.web.content_bps if r.web else None),
        load_x=first.load_x,
        offered_pps=_sure([r.offered_pps for _, r in runs], origins),
        throughput_pps=_sure(list(rates.values()), origins),
        lost=_lost(runs),
        offered_total=_mean([r.offered_total for _, r in runs]),
        reordered=_mean([r.reordered for _, r in runs]),
        duplicated=_mean([r.duplicated for _, r in runs]),
        negative_delays=_mean([r.negative_delays for _, r in runs]),
        **_attack(trials),
        **{"retained": None, "delay_inflation": None, **figures},
    )


def cells(
    groups: Groups,
    capacity: Capacity | None,
    missing: Sequence[MissingPoint] = (),
    weights: Weights | None = None,
) -> tuple[Cell, ...]:
    """All cells, by arm, point and router in the order in which a trial names them."""
    return tuple(
        _cell(groups, key, router, capacity, missing, weights or {})
        for key, trials in groups.items()
        for router in dict.fromkeys(r.router for trial in trials for r in trial.routers)
    )


def aggregates(groups: Groups, capacity: Capacity | None) -> tuple[Aggregate, ...]:
    """Sum over the routers of each trial, then over the repeats."""
    scale = capacity.pps.median if capacity else 0.0
    found = []
    for (arm, point), trials in groups.items():
        rates = [sum(r.received_pps for r in trial.routers) for trial in trials]
        offered = [sum(r.offered_pps for r in trial.routers) for trial in trials]
        origins = [trial.invocation for trial in trials]
        scaled = [rate / scale for rate in rates] if scale > 0 else []
        found.append(
            Aggregate(
                arm=arm,
                point=point,
                point_label=trials[0].point_label,
                routers=max(len(trial.routers) for trial in trials),
                working=working(trials[0]),
                offered_pps=_sure(offered, origins),
                throughput_pps=_sure(rates, origins),
                throughput_x=interval(scaled, origins) if scaled else None,
            )
        )
    return tuple(found)


class Attack(TypedDict):
    """What aggressors do at a point, as a cell has it."""

    aggressor_x: float | None
    aggressor_pps: float | None
    working: int


def _attack(trials: Sequence[Trial]) -> Attack:
    """Return what the aggressors were offered, where they were sent clearly less that, and did."""
    of_one: dict[str, list[RouterTrial]] = defaultdict(list)
    for trial in trials:
        for router in aggressors_of(trial):
            of_one[router.router].append(router)
    parts = [_placed(runs) for runs in of_one.values()]
    first = [runs[0] for runs in of_one.values()]
    return {
        "aggressor_x": _total(
            [
                None if r.load_x is None else r.load_x * part
                for r, part in zip(first, parts, strict=True)
            ]
        ),
        "aggressor_pps": _total(
            [r.offered_pps * part for r, part in zip(first, parts, strict=True)]
        ),
        "working": working(trials[0]),
    }


def _placed(runs: Sequence[RouterTrial]) -> float:
    """Return the part of its load that a router's point stands at: 1 unless less was sent."""
    offered = runs[0].offered_pps
    part = median(run.generated_pps for run in runs) / offered if offered else 1.0
    if runs[0].closed:
        return part  # it stands where it came to
    return part if part < 1 - SHORT else 1.0


def sent_pps(cell: Cell) -> float:
    """Return what the generator sent for this router, frames/s; what it was to, where unknown."""
    return (cell.generated_pps or cell.offered_pps).median


def sent_less(cell: Cell) -> bool:
    """Tell whether the generator fell short of what it was to offer to this router."""
    sent = cell.generated_pps if cell.mode != "http" else None  # a client asks for all that is due
    return sent is not None and sent.median < (1 - SHORT) * cell.offered_pps.median


def _average(cores: Sequence[CoreTrial], pick: Callable[[CoreTrial], float]) -> float:
    return _mean([pick(core) for core in cores])


def _core_parts(cores: Sequence[CoreTrial]) -> dict[CorePartName, float]:
    """Return means of the parts; nothing unless every trial has them, or they would not add up."""
    known = [core.parts for core in cores if core.parts is not None]
    if len(known) < len(cores):
        return {}
    return {name: _mean([parts[name] for parts in known]) for name in known[0]}


def core_cells(groups: Groups) -> tuple[CoreCell, ...]:
    """Means of what each core did, by arm, point and core."""
    found = []
    for (arm, point), trials in groups.items():
        by_core: dict[int, list[CoreTrial]] = defaultdict(list)
        for trial in filter(tells_cpu, trials):
            for core in trial.cores:
                by_core[core.core].append(core)
        for number, cores in sorted(by_core.items()):
            found.append(
                CoreCell(
                    arm=arm,
                    point=point,
                    point_label=trials[0].point_label,
                    core=number,
                    part=cores[0].part,
                    user=_average(cores, lambda core: core.user),
                    system=_average(cores, lambda core: core.system),
                    softirq=_average(cores, lambda core: core.softirq),
                    idle=_average(cores, lambda core: core.idle),
                    routers=_average(cores, lambda core: core.routers),
                    steal=_average(cores, lambda core: core.steal),
                    parts=_core_parts(cores),
                )
            )
    return tuple(found)
