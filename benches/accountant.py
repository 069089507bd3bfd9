"""The CPU accountant's own cost: the same overload with it and without it, in turns.

A core that is always busy forwards so much less as the accountant takes of it. That is exact to a
thousandth, where the kernel's ticks of a core that is mostly idle are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from isolane import _native
from isolane.spec import Arm as SpecArm
from isolane.spec import Experiment, PointRouter, parse_experiment
from isolane.spec.demands import Demand
from isolane.stats.intervals import estimate
from isolane.testbed import Journal
from isolane.trials.backend import Setting
from isolane.trials.live.bench import LiveBench
from isolane.trials.live.cpu_agreement import NS_PER_EVENT
from isolane.trials.live.live_backend import LiveBackEnd

from benches.beds import WARMUP_NS, Arm, host
from benches.common import Check, Options, Outcome, main

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

    def trial(self, *, on: bool) -> tuple[float, float]:
        """Return events of the DUT's core per s, and received frames/s."""
        with closing(_native.CpuAccountant() if on else Off()) as accountant:
            tools = replace(
                self.bench.equipment, accountant=cast("_native.CpuAccountant", accountant)
            )
            bench = LiveBench(self.experiment, self.arm, self.routers, tools)
            demand = Demand(self.routers[0], OVERLOAD_PPS, None)
            seen = bench.trial(Setting((demand,), WARMUP_NS, round(self.seconds * 1e9)))
        events = seen.cpu_audit[self.core].events / self.seconds
        return events, seen.routers[0].received_pps


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

    rate: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    """With and without: frames/s."""
    events: list[float] = field(default_factory=list)
    """Of the accountant's programs on the DUT's core, per s."""
    slower: list[float] = field(default_factory=list)
    """Share of the forwarding rate, and so of the core, that the accountant costs."""
    ns_per_event: list[float] = field(default_factory=list)


def measure(path: str, journal: Journal, options: Options) -> Found:
    """Take turns; who begins changes from round to round."""
    found = Found()
    with bed(Arm(path, ARMS[path]), journal, options.seconds) as here:
        for number in range(options.rounds):
            order = (True, False) if number % 2 else (False, True)
            seen = {on: here.trial(on=on) for on in order}
            for on in order:
                found.rate[on].append(seen[on][1])
            found.events.append(seen[True][0])
            found.slower.append(1 - seen[True][1] / seen[False][1])
            found.ns_per_event.append(found.slower[-1] * 1e9 / found.events[-1])
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
            rows.append(
                (
                    path,
                    _interval(found.rate[True], 1e3),
                    _interval(found.rate[False], 1e3),
                    f"{_interval(found.slower, 0.01)} %",
                    _interval(found.events, 1e3),
                    f"{_interval(found.ns_per_event, 1, 0)} ns",
                )
            )
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
        ("path", "on, kpps", "off, kpps", "slower", "events, 1000/s", "an event"),
        rows,
        checks,
        [f"results estimate the overhead with {NS_PER_EVENT:.0f} ns per event (NS_PER_EVENT)"],
        data,
    )


if __name__ == "__main__":
    main("accountant", bench, Options(rounds=10, seconds=2.0), str(__doc__))
