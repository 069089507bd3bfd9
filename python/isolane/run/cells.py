"""Cells: the results of one router at one point in one arm, over the repeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from isolane.run.missing import MissingPoint, in_arm
from isolane.run.results import (
    DROP_POINTS,
    Aggregate,
    Capacity,
    Cell,
    CoreCell,
    CoreTrial,
    Delay,
    DropPoint,
    Interval,
    RouterTrial,
    Trial,
)
from isolane.stats import estimate, paired_ratios, share_errors

SAME_LOAD = 0.01
"""Loads that differ by a smaller share than this count as the same."""

SHORT = 0.02
"""A generator that falls short by a smaller share than this has sent the offered load."""

Groups = dict[tuple[str, int], list[Trial]]
Runs = list[tuple[Trial, RouterTrial]]


def interval(values: Iterable[float | None]) -> Interval | None:
    """Median and interval of what is not None; None where nothing is."""
    found = estimate([value for value in values if value is not None])
    return Interval(**found._asdict()) if found else None


def _sure(values: Iterable[float]) -> Interval:
    found = interval(values)
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


def measured_capacity(trials: Sequence[Trial]) -> Capacity | None:
    """Maximum forwarding rate of one router: the most that any offered load got through.

    Takes the capacity trials that gave a verdict. Where they offered several loads (points), the
    load with the highest median of received frames per second counts (RFC 2285, 3.6.2).
    """
    rates: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for trial in trials:
        if trial.purpose == "capacity" and trial.status == "ok":
            for router in trial.routers:
                rates[trial.arm, router.router, trial.point].append(router.received_pps)
    found = [
        Capacity(arm=arm, router=router, pps=_sure(values))
        for (arm, router, _), values in rates.items()
    ]
    return max(found, key=lambda capacity: capacity.pps.median, default=None)


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _delays(runs: Runs, pick: Callable[[Delay], float]) -> dict[int, float]:
    return {t.repeat: pick(r.delay) for t, r in runs if r.delay is not None and r.delay.count}


def _throughputs(runs: Runs) -> dict[int, float]:
    return {trial.repeat: router.received_pps for trial, router in runs}


def _runs(trials: Sequence[Trial], router: str) -> Runs:
    return [(t, r) for t in trials for r in t.routers if r.router == router]


def _aggressors(trial: Trial) -> list[RouterTrial]:
    return [router for router in trial.routers if router.role == "aggressor"]


def same_load(a: float, b: float) -> bool:
    """Tell whether two offered loads count as the same."""
    return abs(a - b) <= SAME_LOAD * max(abs(a), abs(b))


def _reference(groups: Groups, arm: str, runs: Runs, missing: Sequence[MissingPoint]) -> Runs:
    """Trials of the point that `runs`, a victim's, are compared with.

    The reference is the point of the arm at which the victim is offered the same and the
    aggressors are offered least. A point that has no other one to compare with has no reference.
    If the reference itself gave no result, no other point replaces it.
    """
    router = runs[0][1]
    rivals = [
        found
        for (other, _), trials in groups.items()
        if other == arm
        and (found := _runs(trials, router.router))
        and same_load(found[0][1].offered_pps, router.offered_pps)
    ]
    if len(rivals) < 2:
        return []
    best = min(rivals, key=lambda found: _attack_pps(found[0][0]))
    min_pps = _attack_pps(best[0][0])
    absent = (point for point in in_arm(missing, arm) if _same_victim(point, router))
    return [] if any((point.aggressor_pps or 0) < min_pps for point in absent) else best


def _attack_pps(trial: Trial) -> float:
    return sum(router.offered_pps for router in _aggressors(trial))


def _same_victim(point: MissingPoint, router: RouterTrial) -> bool:
    """Tell whether a missing point offers a victim what `router` was offered."""
    found = point.named(router.router)
    if found is None or found.offered_pps is None:
        return False
    return same_load(found.offered_pps, router.offered_pps)


def _shares(trials: Sequence[Trial], router: str) -> list[float]:
    values = []
    for trial in trials:
        errors = share_errors(
            [r.generated_frames for r in trial.routers], [r.received_frames for r in trial.routers]
        )
        names = [r.router for r in trial.routers]
        if errors is not None and router in names:
            values.append(errors[names.index(router)])
    return values


def _lost(runs: Runs) -> dict[DropPoint, float]:
    return {
        where: _mean([router.lost.get(where, 0) for _, router in runs]) for where in DROP_POINTS
    }


def _cell(
    groups: Groups,
    key: tuple[str, int],
    router: str,
    capacity: Capacity | None,
    missing: Sequence[MissingPoint],
) -> Cell:
    trials, runs = groups[key], _runs(groups[key], router)
    trial, first = runs[0]
    rates, reference = _throughputs(runs), []
    if first.role == "victim":
        reference = _reference(groups, key[0], runs, missing)
    p99 = _delays(runs, lambda delay: delay.p99_ns)
    throughput = _sure(rates.values())
    aggressors = _aggressors(trial)
    scale = capacity.pps.median if capacity else 0.0
    return Cell(
        arm=key[0],
        point=key[1],
        point_label=trial.point_label,
        router=first.router,
        group=first.group,
        role=first.role,
        load_x=first.load_x,
        offered_pps=_sure(r.offered_pps for _, r in runs),
        throughput_pps=throughput,
        generated_pps=interval(r.generated_pps for _, r in runs),
        throughput_x=interval(rate / scale for rate in rates.values()) if scale > 0 else None,
        loss_ratio=interval(r.loss_ratio for _, r in runs),
        delay_p50_ns=interval(_delays(runs, lambda delay: delay.p50_ns).values()),
        delay_p90_ns=interval(_delays(runs, lambda delay: delay.p90_ns).values()),
        delay_p99_ns=interval(p99.values()),
        delay_p999_ns=interval(_delays(runs, lambda delay: delay.p999_ns).values()),
        delay_p9999_ns=interval(_delays(runs, lambda delay: delay.p9999_ns).values()),
        delay_max_ns=interval(_delays(runs, lambda delay: delay.max_ns).values()),
        cpu_share=interval(r.cpu_share for _, r in runs),
        cpu_ns_per_frame=interval(r.cpu_ns_per_frame for _, r in runs),
        retained=interval(paired_ratios(rates, _throughputs(reference))),
        delay_inflation=interval(
            paired_ratios(p99, _delays(reference, lambda delay: delay.p99_ns))
        ),
        share_error=interval(_shares(trials, router)),
        lost=_lost(runs),
        offered_total=_mean([r.offered_total for _, r in runs]),
        reordered=_mean([r.reordered for _, r in runs]),
        duplicated=_mean([r.duplicated for _, r in runs]),
        aggressor_x=_total(r.load_x for r in aggressors),
        aggressor_pps=_total(r.offered_pps for r in aggressors),
    )


def cells(
    groups: Groups, capacity: Capacity | None, missing: Sequence[MissingPoint] = ()
) -> tuple[Cell, ...]:
    """All cells, by arm, point and router in the order in which a trial names them."""
    return tuple(
        _cell(groups, key, router, capacity, missing)
        for key, trials in groups.items()
        for router in dict.fromkeys(r.router for trial in trials for r in trial.routers)
    )


def aggregates(groups: Groups, capacity: Capacity | None) -> tuple[Aggregate, ...]:
    """Sum over the routers of each trial, then over the repeats."""
    scale = capacity.pps.median if capacity else 0.0
    found = []
    for (arm, point), trials in groups.items():
        rates = [sum(r.received_pps for r in trial.routers) for trial in trials]
        found.append(
            Aggregate(
                arm=arm,
                point=point,
                point_label=trials[0].point_label,
                routers=max(len(trial.routers) for trial in trials),
                offered_pps=_sure(sum(r.offered_pps for r in t.routers) for t in trials),
                throughput_pps=_sure(rates),
                throughput_x=interval(rate / scale for rate in rates) if scale > 0 else None,
            )
        )
    return tuple(found)


def sent_less(cell: Cell) -> bool:
    """Tell whether the generator fell short of what it was to offer to this router."""
    sent = cell.generated_pps
    return sent is not None and sent.median < (1 - SHORT) * cell.offered_pps.median


def _average(cores: Sequence[CoreTrial], pick: Callable[[CoreTrial], float]) -> float:
    return _mean([pick(core) for core in cores])


def core_cells(groups: Groups) -> tuple[CoreCell, ...]:
    """Means of what each core did, by arm, point and core."""
    found = []
    for (arm, point), trials in groups.items():
        by_core: dict[int, list[CoreTrial]] = defaultdict(list)
        for trial in trials:
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
                )
            )
    return tuple(found)
