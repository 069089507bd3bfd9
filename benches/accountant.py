"""The CPU accountant's own cost: the same load with it and without it, in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from isolane import _native
from isolane.procfs import TICK_NS, core_ticks
from isolane.run.backend import Demand, Setting
from isolane.run.live.bench import LiveBench
from isolane.run.live.cpu_agreement import NS_PER_EVENT
from isolane.run.live.live_backend import LiveBackEnd
from isolane.spec import Arm as SpecArm
from isolane.spec import Experiment, PointRouter, parse_experiment
from isolane.stats import estimate
from isolane.testbed import Journal

from benches.beds import WARMUP_NS, Arm, host
from benches.common import Check, Options, Outcome, main

LIGHT_PPS = 50_000.0
"""One or two frames a poll: as many events per frame as there can be."""
OVERLOAD_PPS = 1_500_000.0
ARMS = {"direct": ("",), "isolane": ("cpu_weight: 100",)}
MAX_NS_PER_EVENT = 250.0
MAX_LOSS = 0.05


class Off:
    """Stands in for the accountant where it is switched off: nothing is attached, all is 0."""

    def __getattr__(self, name: str) -> Any:
        """Take every call that returns nothing."""
        return lambda **_values: None

    def read(self, *, cores: int) -> list[list[_native.CpuUse]]:
        """Return no time at all."""
        nothing = _native.CpuUse(
            softirq_ns=0, thread_ns=0, over_ns=0, kernel_ns=0, polls=0, frames=0
        )
        return [[nothing] * 128] * cores

    def events(self, *, cores: int) -> list[int]:
        """Return no events."""
        return [0] * cores

    uncompared_ns = idle_ns = events


@dataclass(frozen=True)
class Bed:
    """A test bed whose accountant can be switched on and off."""

    experiment: Experiment
    arm: SpecArm
    routers: tuple[PointRouter, ...]
    bench: LiveBench
    seconds: float

    @property
    def core(self) -> int:
        """The DUT's core."""
        return self.bench.equipment.cores.dut[0]

    def trial(self, rate_pps: float, *, on: bool) -> tuple[float, float, float]:
        """Return busy time of the DUT's core in ns per s, its events per s, received frames/s."""
        with closing(_native.CpuAccountant() if on else Off()) as accountant:
            tools = replace(
                self.bench.equipment, accountant=cast("_native.CpuAccountant", accountant)
            )
            bench = LiveBench(self.experiment, self.arm, self.routers, tools)
            demand = Demand(self.routers[0], rate_pps, None)
            before = core_ticks()[self.core]
            seen = bench.trial(Setting((demand,), WARMUP_NS, round(self.seconds * 1e9)))
            spent = core_ticks()[self.core].since(before)
        busy_ns = (spent.total - spent.idle - spent.iowait) * TICK_NS
        sending_s = self.seconds + WARMUP_NS / 1e9
        events = seen.cpu_audit[self.core].events / self.seconds
        return busy_ns / sending_s, events, seen.routers[0].received_pps


@contextmanager
def bed(arm: Arm, journal: Journal, seconds: float) -> Iterator[Bed]:
    """Build a test bed, and take its own accountant off."""
    experiment = parse_experiment(arm.yaml())
    resolved, routers = experiment.resolved_arms()[0], experiment.points()[0].routers
    with closing(LiveBackEnd(experiment, journal)) as back_end:
        back_end.check([resolved])
        with back_end.bench(resolved, routers) as bench:
            bench = cast("LiveBench", bench)
            bench.equipment.accountant.close()
            yield Bed(experiment, resolved, tuple(routers), bench, seconds)


@dataclass
class Found:
    """Of one arm, by round."""

    busy: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    """With and without: busy time at the light load, ns per s."""
    rate: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    """With and without: frames/s under overload."""
    ns_per_event: list[float] = field(default_factory=list)
    slower: list[float] = field(default_factory=list)
    """Share of the forwarding rate that the accountant costs."""


def measure(path: str, journal: Journal, options: Options) -> Found:
    """Take turns; who begins changes from round to round."""
    found = Found()
    with bed(Arm(path, ARMS[path]), journal, options.seconds) as here:
        for number in range(options.rounds):
            order = (True, False) if number % 2 else (False, True)
            light = {on: here.trial(LIGHT_PPS, on=on) for on in order}
            heavy = {on: here.trial(OVERLOAD_PPS, on=on) for on in order}
            for on in order:
                found.busy[on].append(light[on][0])
                found.rate[on].append(heavy[on][2])
            found.ns_per_event.append((light[True][0] - light[False][0]) / light[True][1])
            found.slower.append(1 - heavy[True][2] / heavy[False][2])
    return found


def _interval(values: list[float], scale: float = 1.0, digits: int = 1) -> str:
    found = estimate(values)
    if found is None:
        return "-"
    low, high = found.low / scale, found.high / scale
    return f"{found.median / scale:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def bench(options: Options) -> Outcome:
    """Measure every arm."""
    rows, checks, data = [], [], {}
    with host() as journal:
        for path in ARMS:
            found = measure(path, journal, options)
            data[path] = vars(found)
            rows += [
                (
                    f"{path}: core busy at {LIGHT_PPS / 1e3:.0f} kpps, %",
                    _interval(found.busy[True], 1e7),
                    _interval(found.busy[False], 1e7),
                    f"{_interval(found.ns_per_event, 1, 0)} ns per event",
                ),
                (
                    f"{path}: forwarded under overload, kpps",
                    _interval(found.rate[True], 1e3),
                    _interval(found.rate[False], 1e3),
                    f"{_interval(found.slower, 0.01)} % slower",
                ),
            ]
            cost, slower = estimate(found.ns_per_event), estimate(found.slower)
            assert cost is not None
            assert slower is not None
            checks += [
                Check(
                    f"{path}: an event costs less than {MAX_NS_PER_EVENT:.0f} ns",
                    f"{cost.median:.0f} ns",
                    cost.median < MAX_NS_PER_EVENT,
                ),
                Check(
                    f"{path}: forwards at most {100 * MAX_LOSS:.0f} % less",
                    f"{100 * slower.median:.1f} %",
                    slower.median <= MAX_LOSS,
                ),
            ]
    return Outcome(
        "CPU accountant: on and off",
        ("what", "on", "off", "difference"),
        rows,
        checks,
        [f"results estimate the overhead with {NS_PER_EVENT:.0f} ns per event (NS_PER_EVENT)"],
        data,
    )


if __name__ == "__main__":
    main("accountant", bench, Options(rounds=10, seconds=2.0), str(__doc__))
