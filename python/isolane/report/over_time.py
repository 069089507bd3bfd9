"""The plot of trials over time: whether the warm-up was long enough, for the eye."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from isolane.analysis.delivery import tells_delays
from isolane.report.chart import Axis, Figure, Row, Swatch, TimeMarks, decades, time_panel
from isolane.report.plot_parts import MAX_SERIES, TIME, arms
from isolane.results.results import Summary, Trial
from isolane.results.series import RouterSeries, TrialSeries
from isolane.spec import Experiment
from isolane.spec.units import format_ns, format_pps
from isolane.spec.work_models import NO_WORK

MAX_STEPS = 400
"""In a line; bins of longer trials are drawn together, so that a page stays small."""

Together = dict[str, list[tuple[TrialSeries, RouterSeries]]]
"""By arm: the series of one router at one point, one for each trial."""


def over_time(
    summary: Summary,
    trials: Sequence[Trial],
    series: Sequence[TrialSeries],
    experiment: Experiment | None = None,
) -> Figure | None:
    """Draw frames received and their delay over time, as means over the repeats.

    Where routers worked in a part of the window, as the experiment says, the plot is shaded.

    Shown are the victim, or the first router, at the last point of the experiment, where most is
    offered in nearly all experiments. Trials without verdict are left out, and invalid delays.

    Returns
    -------
    Figure or None
        None for a folder of an older version, which has no time series.
    """
    together, label, router = _chosen(trials, series)
    names = [name for name in arms(summary) if name in together][:MAX_SERIES]
    if not names:
        return None
    received = [row for name in names for row in _received(name, together[name])]
    delays = [row for name in names for row in _delays(name, together[name])]
    first = together[names[0]][0][0]
    begin_s, step_ns = first.warmup_ns / 1e9, _each(first) * first.bin_ns
    x = Axis("time since the first departure (s)")
    worked = _worked(experiment, first, trials)
    marks = TimeMarks(begin_s, list(dict.fromkeys(worked.values())))
    panels = [
        time_panel(
            "frames received per second",
            received,
            names,
            (x, Axis("frames received per second", "format(datum.value, '~s')")),
            f"Frames that {router} received over time; the window begins at {begin_s:g} s.",
            marks,
        )
    ]
    if delays:
        limits = 0.8 * min(row.low for row in delays), 1.25 * max(row.high for row in delays)
        panels.append(
            time_panel(
                "99th percentile of the delay",
                delays,
                names,
                (
                    x,
                    Axis("delay (log scale)", TIME, decades(*limits), log=True, domain=limits),
                ),
                f"p99 delay of the frames of {router} over time.",
                marks,
            )
        )
    repeats = max(len(found) for found in together.values())
    caption = (
        f"{router} at {label}, in steps of {format_ns(step_ns)}: means of {repeats} trials "
        "(medians for the delay). The window begins at the dashed line; a line that still rises or "
        "falls there belongs to a trial whose warm-up is too short."
        + "".join(
            f" Shaded from {low_s:g} to {high_s:g} s: {name}."
            for name, (low_s, high_s) in worked.items()
        )
    )
    legend = tuple(Swatch(name, "series", index) for index, name in enumerate(names))
    return Figure("over-time", "Trials over time", caption, tuple(panels), legend)


def _worked(
    experiment: Experiment | None, series: TrialSeries, trials: Sequence[Trial]
) -> dict[str, tuple[float, float]]:
    """Return what worked in a part of the window, and from when to when, s since the beginning."""
    found = {}
    (trial,) = (trial for trial in trials if trial.trial == series.trial)
    working = {router.group for router in trial.routers if router.work != NO_WORK}
    for router in experiment.routers if experiment is not None else ():
        if not router.works_in_part or router.name not in working:
            continue
        end_ns = series.window_ns if router.work_until_ns is None else router.work_until_ns
        begin_ns = -series.warmup_ns if router.work_from_ns is None else router.work_from_ns
        span = ((series.warmup_ns + begin_ns) / 1e9, (series.warmup_ns + end_ns) / 1e9)
        found[f"work of {router.name}"] = span
    return found


def _chosen(trials: Sequence[Trial], series: Sequence[TrialSeries]) -> tuple[Together, str, str]:
    """Return the series of the victim, or first router, at the last point, by arm."""
    good = {t.trial: t for t in trials if t.status == "ok" and t.purpose == "measure"}
    known = [(good[one.trial], one) for one in series if one.trial in good]
    if not known:
        return {}, "", ""
    last = max(trial.point for trial, _ in known)
    of_point = [(trial, one) for trial, one in known if trial.point == last]
    routers = sorted(of_point[0][0].routers, key=lambda router: router.role != "victim")
    together: Together = defaultdict(list)
    for trial, one in of_point:
        for router in one.routers:
            if router.router == routers[0].router:
                shown = router if tells_delays(trial) else _without_delays(router)
                together[trial.arm].append((one, shown))
    return together, of_point[0][0].point_label, routers[0].router


def _without_delays(router: RouterSeries) -> RouterSeries:
    return router.model_copy(update={"delay_p99_ns": (None,) * len(router.received)})


def _each(series: TrialSeries) -> int:
    """Return how many bins are drawn as one."""
    bins = (series.warmup_ns + series.window_ns) // series.bin_ns
    return max(1, -(-bins // MAX_STEPS))


def _steps(found: Sequence[tuple[TrialSeries, RouterSeries]]) -> Iterator[tuple[range, float]]:
    """Yield the bins of each step up to the end of the window, and when it begins, s."""
    first, each = found[0][0], _each(found[0][0])
    last = (first.warmup_ns + first.window_ns) // first.bin_ns
    shortest = min(len(router.received) for _, router in found)
    for index in range(0, min(last, shortest) - each + 1, each):
        yield range(index, index + each), index * first.bin_ns / 1e9


def _received(arm: str, found: Sequence[tuple[TrialSeries, RouterSeries]]) -> Iterator[Row]:
    for bins, begin_s in _steps(found):
        frames = fmean(router.received[index] for _, router in found for index in bins)
        rate_pps = frames * 1e9 / found[0][0].bin_ns
        tip = {"arm": arm, "time": f"{begin_s:.2f} s", "received": format_pps(rate_pps)}
        yield Row(arm, begin_s, rate_pps, rate_pps, rate_pps, tip=tip)


def _delays(arm: str, found: Sequence[tuple[TrialSeries, RouterSeries]]) -> Iterator[Row]:
    for bins, begin_s in _steps(found):
        known = [d for _, router in found for index in bins if (d := router.delay_p99_ns[index])]
        if known:
            delay_ns = median(known)
            tip = {"arm": arm, "time": f"{begin_s:.2f} s", "p99": format_ns(delay_ns)}
            yield Row(arm, begin_s, delay_ns, delay_ns, delay_ns, tip=tip)
