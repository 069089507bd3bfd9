"""The noise floors of a run, from the pairs of each arm and its twin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from isolane.analysis.delivery import tells_delays
from isolane.analysis.wording import digits, listing
from isolane.results.error_budget import ErrorBudget
from isolane.results.quality_models import NoiseFigure, NoiseFloor
from isolane.results.results import RouterTrial, Trial
from isolane.stats.noise_floor import noise_floor

OWN_PAIRS = 5
"""With so many pairs an arm has a noise floor of its own; with fewer it has that of all arms."""

Pairs = dict[str, list[tuple[float, float]]]
"""By arm: its figure and its twin's, a pair for each round that has both."""


def noise_floors(
    arms: Sequence[str], trials: Sequence[Trial], budget: ErrorBudget
) -> tuple[NoiseFloor, ...]:
    """Work out what two equal arms differ by, for each arm and figure.

    A floor is never below the error budget: faults so large do not make a trial invalid, so a
    smaller difference cannot be told, however equal the pairs are.
    """
    valid = [trial for trial in trials if trial.status == "ok" and trial.routers]
    twins = {_key(trial): trial for trial in valid if trial.purpose == "twin"}
    twins = {(arm, point, n): trial for (arm, point, n), trial in twins.items() if arm in arms}
    points = {(arm, point) for arm, point, _ in twins}
    own = [t for t in valid if t.purpose == "measure" and (t.arm, t.point) in points]
    if not own:
        return ()
    repeats = {arm: sum(trial.arm == arm for trial in own) for arm in arms}
    usual = round(median(count for count in repeats.values() if count))
    has_victim = any(router.role == "victim" for router in own[0].routers)
    figures: tuple[NoiseFigure, ...] = ("delivered" if has_victim else "throughput", "delay_p99")
    label = own[0].point_label
    return tuple(
        NoiseFloor(
            arm=arm,
            point_label=label,
            figure=figure,
            floor=max(floor, budget.limit),
            repeats=repeats[arm] or usual,
            pairs=len(used),
            pooled=pooled,
        )
        for figure in figures
        for pairs in (_pairs(own, twins, figure),)
        for arm in arms
        for used, pooled in (_used(pairs, arm),)
        for floor in _floor(used, repeats[arm] or usual)
    )


def _floor(pairs: Sequence[tuple[float, float]], repeats: int) -> Iterator[float]:
    found = noise_floor(pairs, repeats)
    if found is not None:
        yield found


def _used(pairs: Pairs, arm: str) -> tuple[list[tuple[float, float]], bool]:
    own = pairs.get(arm, [])
    if len(own) >= OWN_PAIRS or len(pairs) < 2:
        return own, False
    return [pair for found in pairs.values() for pair in found], True


def _pairs(
    own: Sequence[Trial], twins: Mapping[tuple[str, int, int], Trial], figure: NoiseFigure
) -> Pairs:
    """Return the pairs of each arm, as differences from the arm's median."""
    found: Pairs = {}
    for trial in own:
        twin = twins.get(_key(trial))
        values = (_figure(trial, figure), _figure(twin, figure)) if twin else (None, None)
        if values[0] is not None and values[1] is not None:
            found.setdefault(trial.arm, []).append((values[0], values[1]))
    return {arm: _centred(pairs, figure) for arm, pairs in found.items()}


def _centred(pairs: list[tuple[float, float]], figure: NoiseFigure) -> list[tuple[float, float]]:
    middle = median(value for pair in pairs for value in pair)
    scale = 1.0 if figure == "delivered" else middle or 1.0
    return [((a - middle) / scale, (b - middle) / scale) for a, b in pairs]


def _key(trial: Trial) -> tuple[str, int, int]:
    return trial.arm, trial.point, trial.repeat


def _figure(trial: Trial, figure: NoiseFigure) -> float | None:
    watched: list[RouterTrial] = [r for r in trial.routers if r.role == "victim"]
    watched = watched or list(trial.routers)
    if figure == "delay_p99":
        if not tells_delays(trial):
            return None
        delays = [r.delay.p99_ns for r in watched if r.delay is not None and r.delay.count]
        known = len(delays) == len(watched) and all(map(math.isfinite, delays))
        return max(delays) if known else None
    if figure == "throughput":
        return sum(router.received_pps for router in watched)
    sent = sum(router.generated_frames for router in watched)
    return sum(router.received_frames for router in watched) / sent if sent else None


def noise_words(noise: Sequence[NoiseFloor]) -> str | None:
    """Say which differences are noise, and of what; None where nothing is known."""
    by_size: dict[str, list[str]] = {}
    for floor in noise:
        if floor.figure != "delay_p99":
            by_size.setdefault(f"{digits(100 * floor.floor, 2)} %", []).append(floor.arm)
    if not by_size:
        return None
    of_share = any(floor.figure == "delivered" for floor in noise)
    what = "of what a victim gets" if of_share else "of throughputs"
    if len(by_size) == 1:
        return f"Differences {what} under {next(iter(by_size))} are noise here."
    parts = [f"{size} on {listing(arms)}" for size, arms in by_size.items()]
    return f"Differences {what} under {listing(parts)} are noise here."
