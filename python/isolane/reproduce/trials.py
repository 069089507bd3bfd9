"""Simulates the experiments of a paper, and finds the paper's figures in the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TypeVar

from isolane.analysis import wording
from isolane.reproduce.model import Options, Result, Workers
from isolane.results.results import RouterTrial
from isolane.spec import Experiment, Point, PublishedRow, parse_experiment
from isolane.spec.demands import Demand
from isolane.trials.backend import Observation, Setting
from isolane.trials.sim.trial import TrialJob, run_trial

Named = TypeVar("Named")

TOTAL = "total"
"""Stands for all routers together."""

MIN_WINDOW_NS = 20_000_000

Key = tuple[str, str, int]
"""Experiment, arm, number of the point."""


def load(paper: str, name: str) -> Experiment:
    """Return an experiment from the folder of a paper's module."""
    file = resources.files("isolane.reproduce") / paper / f"{name}.yaml"
    return parse_experiment(file.read_text(encoding="utf-8"), f"{paper}/{name}.yaml")


@dataclass(frozen=True)
class Figure:
    """A published figure: its experiment, arm, point, router and metric."""

    experiment: str
    arm: str
    point: int
    router: str
    metric: str
    published: float | None
    """frames/s, a share of 1, or ns."""
    note: str = ""

    @property
    def key(self) -> Key:
        """The trial that it is in."""
        return (self.experiment, self.arm, self.point)


def figures_of(experiment: Experiment) -> tuple[Figure, ...]:
    """Return the published figures of an experiment, in the file's order.

    Raises
    ------
    ValueError
        If one of them is about an arm or a point that the experiment does not have.
    """
    if experiment.published is None:
        return ()
    return tuple(_figure(experiment, row) for row in experiment.published.rows)


def _figure(experiment: Experiment, row: PublishedRow) -> Figure:
    arms = [arm.name for arm in experiment.resolved_arms()]
    points = [point.index for point in experiment.points() if _matches(point, row)]
    if row.arm not in arms or len(points) != 1:
        msg = f"{experiment.name}: no trial belongs to the published figure {row}"
        raise ValueError(msg)
    value = None if row.value is None else row.value.value
    return Figure(experiment.name, row.arm, points[0], row.router, row.metric, value, row.note)


def _matches(point: Point, row: PublishedRow) -> bool:
    for name, load_ in row.load.items():
        members = [router for router in point.routers if name in {router.group, router.name}]
        total = sum(router.load.value for router in members)
        if abs(total - load_.value) > 1e-6 * load_.value:
            return False
    return row.count is None or row.count == len(point.routers)


@dataclass(frozen=True)
class Trials:
    """Results by experiment, arm and point."""

    experiments: Mapping[str, Experiment]
    found: Mapping[Key, Sequence[Observation]]
    """One for each valid repeat."""
    missing: Mapping[Key, str] = field(default_factory=dict)
    """Trials without a valid repeat, and why."""

    def note(self, figure: Figure) -> str:
        """Return notes on a figure for the reader, above all why it has no value."""
        why = self.missing.get(figure.key)
        return figure.note if why is None else "; ".join(filter(None, [why, figure.note]))

    def notes(self) -> tuple[str, ...]:
        """Return a note for each trial without a verdict; claims that need one are not decided."""
        labels = {key: self.experiments[key[0]].points()[key[2]].label for key in self.missing}
        return tuple(
            f"no verdict for {key[1]}, {labels[key]} ({key[0]}): {why}; claims that need it are "
            "not decided"
            for key, why in self.missing.items()
        )

    def value(self, figure: Figure) -> float | None:
        """Return the simulated figure; None where the trial was not simulated."""
        return mean(self.found.get(figure.key, ()), figure.router, figure.metric)

    def rate(self, experiment: str, arm: str, point: int, router: str = TOTAL) -> float | None:
        """Return a throughput, frames/s."""
        return self.value(Figure(experiment, arm, point, router, "throughput", None))


def jobs(
    experiment: Experiment,
    options: Options,
    figures: Mapping[str, float] | None = None,
    only: Iterable[Key] | None = None,
) -> dict[Key, tuple[TrialJob, ...]]:
    """Return the trials of an experiment with absolute loads, all repeats of each key.

    Parameters
    ----------
    experiment
        Its loads must not be multiples of a capacity.
    options
        Seed, profile, and the scale of the simulated time.
    figures
        Values of the profile to change, by dotted key.
    only
        Trials to be carried out; default: all.
    """
    wanted = None if only is None else set(only)
    plan = experiment.trial
    window_ns = max(MIN_WINDOW_NS, round(plan.duration_ns * options.scale))
    seeded = experiment.model_copy(
        update={"trial": plan.model_copy(update={"seed": options.seed}), "published": None}
    )
    found = {}
    for arm in experiment.resolved_arms():
        for point in experiment.points():
            key = (experiment.name, arm.name, point.index)
            if wanted is not None and key not in wanted:
                continue
            given = tuple(sorted((figures or {}).items()))
            label = f"measure/{arm.name}/{point.index}"
            demands = _demands(experiment, point)
            settings = [
                Setting(demands, plan.warmup_ns, window_ns, f"{label}/{repeat}")
                for repeat in range(plan.repeats)
            ]
            found[key] = tuple(
                TrialJob(seeded, arm.name, point.routers, setting, options.profile, given)
                for setting in settings
            )
    return found


def _demands(experiment: Experiment, point: Point) -> tuple[Demand, ...]:
    return tuple(
        Demand(
            router,
            router.load.to_pps(None, experiment.traffic_of(router.name).mean_frame_bytes),
            None,
        )
        for router in point.routers
    )


def simulate(
    experiments: Sequence[Experiment], options: Options, workers: Workers, label: str
) -> Trials:
    """Simulate all trials of some experiments on all cores.

    Invalid trials are left out of the figures, as in a run; a trial without a valid repeat has
    none, and no claim is decided by it.
    """
    todo: dict[Key, tuple[TrialJob, ...]] = {}
    for experiment in experiments:
        todo |= jobs(experiment, options)
    by_name = {experiment.name: experiment for experiment in experiments}
    return Trials(by_name, *valid(carry_out(run_trial, todo, workers, label)))


def valid(
    found: Mapping[Key, Sequence[Observation]],
) -> tuple[dict[Key, tuple[Observation, ...]], dict[Key, str]]:
    """Return the valid repeats of each trial, and a reason for each trial that has none."""
    good = {key: tuple(one for one in own if not one.invalid) for key, own in found.items()}
    why = {
        key: f"{len(own)} of {wording.plural(len(own), 'trial')} invalid, "
        f"because {own[0].invalid[0]}"
        for key, own in found.items()
        if own and not good[key]
    }
    return {key: own for key, own in good.items() if own}, why


def carry_out(
    function: Callable[[TrialJob], Result],
    todo: Mapping[Named, Sequence[TrialJob]],
    workers: Workers,
    label: str,
) -> dict[Named, tuple[Result, ...]]:
    """Do all jobs on all cores; keys whose repeats were not all done are left out."""
    results = workers.map(function, [job for own in todo.values() for job in own], label)
    found: dict[Named, tuple[Result, ...]] = {}
    for key, own in todo.items():
        mine, results = results[: len(own)], results[len(own) :]
        if len(mine) == len(own):
            found[key] = tuple(mine)
    return found


def mean(observations: Sequence[Observation], router: str, metric: str) -> float | None:
    """Return the mean of a figure over repeats; None where there is none.

    The repeats differ in phase only: in which moment of one router's interrupts another's fall is
    an accident that a long measurement averages out.
    """
    values = [value(observation, router, metric) for observation in observations]
    known = [found for found in values if found is not None]
    return sum(known) / len(known) if known else None


def value(observation: Observation, router: str, metric: str) -> float | None:
    """Return one figure of a trial: frames/s, a share of 1, or ns; None where there is none."""
    routers = [r for r in observation.routers if router in {r.router, r.group, TOTAL}]
    if metric == "throughput":
        return sum(r.received_pps for r in routers)
    if metric == "delay":
        return routers[0].delay.median_arrived_ns if routers[0].delay else None
    if metric == "loss":
        return routers[0].loss_ratio
    if router != TOTAL:
        return _cpu_of(routers) if metric == "cpu" else None
    cores = [core for core in observation.cores if core.part == "dut"]
    user = sum(core.user for core in cores) / len(cores)
    kernel = sum(core.system + core.softirq for core in cores) / len(cores)
    return {"cpu": user + kernel, "cpu-user": user, "cpu-kernel": kernel}[metric]


def _cpu_of(routers: Sequence[RouterTrial]) -> float | None:
    shares = [router.cpu_share for router in routers if router.cpu_share is not None]
    return sum(shares) if len(shares) == len(routers) else None


def profile_line(profile: str | Path | None, default: str) -> str:
    """Return how a reproduction names its profile."""
    from isolane.trials.sim.catalogue import find_host  # noqa: PLC0415 - reads files

    data = find_host(profile or default).profile
    return f"{data.name} ({data.title}; {len(data.fitted)} fitted costs)"
