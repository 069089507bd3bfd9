"""What of a router's frames is delivered, and what a victim retains of its reference point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from isolane.analysis.flow_words import flow_of
from isolane.analysis.wording import percent
from isolane.results.invalid import ABOUT_CPU, ABOUT_DELAY, MADE_AGAIN, InvalidKind
from isolane.results.missing import MissingPoint, in_arm
from isolane.results.results import Delay, Interval, RouterTrial, Trial
from isolane.spec import Experiment
from isolane.spec.patterns import read_pattern
from isolane.spec.work_models import NO_WORK
from isolane.stats.intervals import estimate
from isolane.stats.isolation import share_errors

SAME_LOAD = 0.01
"""Loads that differ by a smaller share than this count as the same."""

LOST = 0.001
"""A router with a higher loss ratio was overloaded; a reference with one is no reference."""

Groups = dict[tuple[str, int], list[Trial]]
Runs = list[tuple[Trial, RouterTrial]]
Weights = Mapping[str, Mapping[str, float]]
"""Arm and router (or group) to the weight that the arm's policy gives it."""
ByRound = dict[int, float]
"""Round (the number of the repeat) to a value."""


@dataclass(frozen=True)
class Reference:
    """The point that a victim is compared with."""

    point: int
    runs: Runs
    refused: str | None
    """Why nothing is divided by its figures; None where they are a sound reference."""


def interval(
    values: Iterable[float | None], invocations: Sequence[int] | None = None
) -> Interval | None:
    """Median and interval of what is not None; None where nothing is."""
    every = list(values)
    origins = invocations if invocations is not None else [0] * len(every)
    known = [(v, origin) for v, origin in zip(every, origins, strict=True) if v is not None]
    found = estimate([value for value, _ in known], [origin for _, origin in known])
    return Interval(**found._asdict()) if found else None


def over(runs: Runs, values: Mapping[int, float]) -> Interval | None:
    """Median and interval of one value for each round, over the invocations of the rounds."""
    origin = {trial.repeat: trial.invocation for trial, _ in runs}
    return interval(values.values(), [origin[repeat] for repeat in values])


def runs_of(trials: Sequence[Trial], router: str) -> Runs:
    """Return a router's results with their trials."""
    return [(t, r) for t in trials for r in t.routers if r.router == router]


def aggressors_of(trial: Trial) -> list[RouterTrial]:
    """Return the aggressors of a trial."""
    return [router for router in trial.routers if router.role == "aggressor"]


def throughputs(runs: Runs) -> ByRound:
    """Frames received per second, by round."""
    return {trial.repeat: router.received_pps for trial, router in runs}


def kept(runs: Runs) -> ByRound:
    """Throughput over what was sent of the offered load, by round; none where nothing was sent.

    Rounds in which the generator fell a little short are so compared with those in which it did
    not: what never left was not lost.
    """
    return {
        trial.repeat: router.received_pps * router.offered_pps / router.generated_pps
        for trial, router in runs
        if router.generated_pps > 0
    }


def delivered(runs: Runs) -> ByRound:
    """Received over generated frames of the window, 0 to 1, by round; none where there were none.

    Frames that the generator missed never reached the DUT. The offered load of RFC 2285 (3.5.2) is
    what was sent; what was to be sent is the intended one (3.5.1).
    """
    return {
        trial.repeat: router.received_frames / router.generated_frames
        for trial, router in runs
        if router.generated_frames > 0
    }


def tells_delays(trial: Trial) -> bool:
    """Tell whether the delays of a valid trial are valid, too."""
    return ABOUT_DELAY.isdisjoint(trial.invalid or ())


def tells_cpu(trial: Trial) -> bool:
    """Tell whether the CPU time of a valid trial is valid, too."""
    return ABOUT_CPU.isdisjoint(trial.invalid or ())


def is_undisturbed(trial: Trial) -> bool:
    """Tell whether a trial is valid and shows the routers alone, as a model of a host has them."""
    doubtful = ABOUT_CPU | MADE_AGAIN | {InvalidKind.DISTURBED}
    works = any(router.work != NO_WORK for router in trial.routers)
    return trial.status == "ok" and not works and doubtful.isdisjoint(trial.invalid or ())


def delays(runs: Runs, pick: Callable[[Delay], float], *, due: bool = False) -> ByRound:
    """Return a figure of the delay, ns, by round; none where it is invalid.

    Parameters
    ----------
    runs
        A router's results.
    pick
        The figure.
    due
        Whether of the delay since the frames were due.

    Returns
    -------
    dict
        Infinite in rounds in which none arrived; empty where none arrived in any round.
    """
    found: ByRound = {}
    if all(router.delay is None for _, router in runs):
        return found
    for trial, router in runs:
        delay = router.due_delay if due else router.delay
        if not tells_delays(trial):
            continue
        if delay is not None and delay.count:
            found[trial.repeat] = pick(delay)
        elif router.generated_frames and router.delay is None:
            found[trial.repeat] = math.inf
    return found


def same_load(a: float, b: float) -> bool:
    """Tell whether two offered loads count as the same."""
    return abs(a - b) <= SAME_LOAD * max(abs(a), abs(b))


def reference_of(
    groups: Groups, arm: str, runs: Runs, missing: Sequence[MissingPoint]
) -> Reference | None:
    """Return the point that `runs`, a victim's, are compared with; None where there is none.

    The reference is the point of the arm at which the victim is offered the same and the
    aggressors are offered least. A point that has no other one to compare with has no reference.
    If the reference itself gave no result, no other point replaces it. Where the victim loses
    more than `LOST` already there, the path is overloaded without any attack: a ratio to what it
    lets through would look the better the more it loses, so the reference is refused.
    """
    router = runs[0][1]
    rivals = [
        found
        for (other, _), trials in groups.items()
        if other == arm
        and (found := runs_of(trials, router.router))
        and same_load(found[0][1].offered_pps, router.offered_pps)
    ]
    if len(rivals) < 2:
        return None
    best = min(rivals, key=lambda found: _weight(found[0][0]))
    lightest = attack_of(best[0][0])
    absent = (point for point in in_arm(missing, arm) if _same_victim(point, router))
    if any(point.attack < lightest for point in absent if not point.closed):
        return None
    return Reference(best[0][0].point, best, _refused(best))


def _refused(runs: Runs) -> str | None:
    losses = [router.loss_ratio for _, router in runs if router.loss_ratio is not None]
    if not losses or median(losses) <= LOST:
        return None
    return (
        f"at the reference point, {runs[0][0].point_label}, {percent(median(losses))} % of its "
        f"{flow_of([runs[0][1].mode]).many} are lost already (more than {percent(LOST)} %)"
    )


def attack_of(trial: Trial) -> tuple[int, float]:
    """Return how heavy the attack is: how many aggressors work besides, then their load."""
    return working(trial), sum(router.offered_pps for router in aggressors_of(trial))


def working(trial: Trial) -> int:
    """Return how many aggressors work besides."""
    return sum(router.work != NO_WORK for router in aggressors_of(trial))


def _weight(trial: Trial) -> tuple[int, bool, float, int]:
    """Order points by how many aggressors work besides, and then by how much they are offered.

    A closed loop is more than any rate.
    """
    rivals = aggressors_of(trial)
    closed = any(router.closed for router in rivals)
    return working(trial), closed, sum(router.asked_pps for router in rivals), trial.point


def _same_victim(point: MissingPoint, router: RouterTrial) -> bool:
    """Tell whether a missing point offers a victim what `router` was offered."""
    found = point.named(router.router)
    if found is None or found.offered_pps is None:
        return False
    return same_load(found.offered_pps, router.offered_pps)


def weights_of(experiment: Experiment) -> Weights:
    """Return the weights that the policies of each arm give the routers.

    CPU weights; where these are all the same, link weights. An arm without a policy has none.
    """
    found: dict[str, dict[str, float]] = {}
    for arm in experiment.resolved_arms():
        cpu = {r.group: r.cpu_weight for r in arm.routers}
        link = {r.group: r.policy.link_weight for r in arm.routers if r.policy}
        chosen = link if len(set(cpu.values())) == 1 and len(link) == len(cpu) else cpu
        found[arm.name] = {group: float(weight) for group, weight in chosen.items()}
    return found


def shares(trials: Sequence[Trial], router: str, weights: Mapping[str, float]) -> ByRound:
    """Share of the forwarded frames minus the (weighted) max-min fair one, pp, by round.

    Where a router is sent frames that end in it, shares of what is forwarded say nothing.
    """
    values = {}
    for trial in trials:
        if any(read_pattern(r.pattern).ends for r in trial.routers):
            continue
        errors = share_errors(
            [r.generated_frames for r in trial.routers],
            [r.received_frames for r in trial.routers],
            [weights.get(r.group, 1.0) for r in trial.routers],
        )
        names = [r.router for r in trial.routers]
        if errors is not None and router in names:
            values[trial.repeat] = errors[names.index(router)]
    return values
