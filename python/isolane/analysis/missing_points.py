"""Which points were asked for and have no valid trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from isolane.analysis.cells import usable
from isolane.results.missing import MissingPoint, MissingRouter
from isolane.results.results import Trial
from isolane.spec import Experiment, Load, Point
from isolane.spec.demands import Scale, known_demands


def missing_points(
    experiment: Experiment, trials: Sequence[Trial], scale: Scale
) -> tuple[MissingPoint, ...]:
    """Return the points of each arm that were asked for and have no valid trial."""
    made: dict[tuple[str, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.purpose == "measure":
            made[trial.arm, trial.point].append(trial)
    return tuple(
        _missing(experiment, arm.name, point, made[arm.name, point.index], scale)
        for arm in experiment.resolved_arms()
        for point in experiment.points()
        if not usable(made[arm.name, point.index], ())
    )


def _missing(
    experiment: Experiment, arm: str, point: Point, trials: Sequence[Trial], scale: Scale
) -> MissingPoint:
    demands = known_demands(experiment, point, scale, arm)
    routers = [
        MissingRouter(
            router=router.name,
            group=router.group,
            role=router.role,
            load_x=demand.load_x if demand else _in_x(router.load),
            offered_pps=demand.offered_pps if demand and router.load.unit != "conn" else None,
            mode=router.mode,
            work=router.work,
            closed=router.load.unit == "conn",
        )
        for router, demand in zip(point.routers, demands, strict=True)
    ]
    return MissingPoint(
        arm=arm,
        point=point.index,
        point_label=point.label,
        routers=tuple(routers),
        trials=len(trials),
        invalid=sum(trial.status == "no-verdict" for trial in trials),
        failed=sum(trial.status == "failed" for trial in trials),
        reason=next((trial.reason for trial in trials if trial.status != "ok"), None),
    )


def _in_x(load: Load) -> float | None:
    return load.value if load.unit == "x" else None
