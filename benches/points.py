"""Capture points: costs of a stamp and of a kept frame, and how exactly a pause is measured."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, closing
from statistics import median as middle

from isolane.results.parts import PartTime
from isolane.results.results import RouterTrial
from isolane.spec import Experiment, parse_experiment
from isolane.spec.demands import Demand
from isolane.testbed import Journal, clean, exclusive
from isolane.trials.backend import Setting
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import Check, Options, Outcome, main, median, spread

TEXT = """\
isolane: 1
name: stamped
traffic: {{frame_size: 128, flows: 10}}
routers: [{{name: vr}}]
load: {{vr: 1kpps}}
arms: [{{name: {path}, path: {path}}}]
trial: {{{trial}}}
"""
STAMPS = {"direct": 2, "bridge": 6}
"""Capture points on a path."""
RATE_PPS = 100_000.0
KEPT_FRAMES = 48_000
"""Of a trial, at all points; a capture file holds some more."""
WARMUP_NS = 100_000_000
STAMP_NS = 100.0
RATE_BPS, LIMIT_BYTES, FRAME_BYTES = 20_000_000, 62_000, 124
"""Of a shaper whose queue is always full, and of the frames that wait in it."""
PAUSE_NS = LIMIT_BYTES * 8 / RATE_BPS * 1e9
WITHIN = 0.02


def experiment(path: str, *, stamped: bool = True, captured: bool = False) -> Experiment:
    """Return one router on a path."""
    plan = f"capture_points: {str(stamped).lower()}, capture: {str(captured).lower()}"
    return parse_experiment(TEXT.format(path=path, trial=plan))


def trial(
    it: Experiment, journal: Journal, rate_pps: float, window_ns: int, *, shaped: bool = False
) -> RouterTrial:
    """Carry out one trial on a bed of its own; the router may have a shaper on its way out."""
    (arm,), routers = it.resolved_arms(), it.points()[0].routers
    demands = (Demand(routers[0], rate_pps, None),)
    setting = Setting(demands, WARMUP_NS, window_ns, capture=it.trial.capture)
    with ExitStack() as stack:
        back_end = stack.enter_context(closing(LiveBackEnd(it, journal)))
        bench = stack.enter_context(back_end.bench(arm, routers))
        if shaped:
            words = f"rate {RATE_BPS}bit burst {100 * FRAME_BYTES} limit {LIMIT_BYTES}"
            command = f"ip netns exec isolane-vr tc qdisc add dev isl-out0 root tbf {words}"
            subprocess.run(command.split(), check=True)
        return bench.trial(setting).routers[0]


def cost_ns(found: RouterTrial) -> float:
    """Return the CPU time that each frame caused on the DUT's core."""
    if found.cpu_caused_ns_per_frame is None:
        raise SystemExit(f"points: no CPU time was told: {found.cpu_reason}")
    return found.cpu_caused_ns_per_frame


def part(found: RouterTrial, name: str) -> PartTime:
    """Return the times of one part of the way."""
    return next(one for one in found.parts or () if one.part == name)


def bench(options: Options) -> Outcome:
    """Measure both, in turns."""
    window_ns = round(options.seconds * 1e9)
    costs: dict[str, list[float]] = {path: [] for path in STAMPS}
    keeping: dict[str, list[float]] = {path: [] for path in STAMPS}
    pauses: list[float] = []
    with exclusive() as journal:
        clean()
        for _ in range(options.rounds):
            for path, stamps in STAMPS.items():
                per_frame = [
                    cost_ns(trial(experiment(path, stamped=on), journal, RATE_PPS, window_ns))
                    for on in (False, True, True, False)
                ]
                off, on = (per_frame[0], per_frame[3]), (per_frame[1], per_frame[2])
                costs[path].append((middle(on) - middle(off)) / stamps)
                of_all_ns = round(KEPT_FRAMES / stamps / RATE_PPS * 1e9)
                per_frame = [
                    cost_ns(trial(experiment(path, captured=on), journal, RATE_PPS, of_all_ns))
                    for on in (False, True, True, False)
                ]
                off, on = (per_frame[0], per_frame[3]), (per_frame[1], per_frame[2])
                keeping[path].append((middle(on) - middle(off)) / stamps)
            it = experiment("direct")
            found = trial(it, journal, 2 * RATE_BPS / 8 / FRAME_BYTES, window_ns, shaped=True)
            pauses.append(part(found, "router-out").p50_ns or 0.0)
    cost = max(map(median, costs.values()))
    error = median(pauses) / PAUSE_NS - 1
    return Outcome(
        title=f"Capture points: medians of {options.rounds} rounds",
        columns=("what", "figure", "range"),
        rows=[
            *(
                (f"a stamp on path {path}, ns", f"{median(found):.0f}", spread(found))
                for path, found in costs.items()
            ),
            *(
                (f"keeping a frame, path {path}, ns", f"{median(found):.0f}", spread(found))
                for path, found in keeping.items()
            ),
            (
                f"a pause of {PAUSE_NS / 1e6:g} ms, ms",
                f"{median(pauses) / 1e6:.3f}",
                spread([pause / 1e6 for pause in pauses]),
            ),
        ],
        checks=[
            Check(f"a stamp: less than {STAMP_NS:g} ns", f"{cost:.0f} ns", cost < STAMP_NS),
            Check(f"a pause: within {WITHIN:.0%}", f"{error:+.2%}", abs(error) <= WITHIN),
        ],
        data={"stamp_ns": costs, "keep_ns": keeping, "pause_ns": pauses},
    )


if __name__ == "__main__":
    main("points", bench, Options(rounds=5, seconds=1.0), str(__doc__))
