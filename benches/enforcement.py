"""CPU: shares kept, a victim protected, nothing wasted, XDP against the kernel's path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from isolane.run.backend import Observation
from isolane.testbed import Journal

from benches.beds import Arm, Bed, bed, host, p99_us
from benches.common import Check, Options, Outcome, main, median

OVERLOAD_PPS = 1_200_000.0
"""In all: more than a core forwards, and what one measuring core can still send and receive."""
PROBES_PPS = (300e3, 450e3, 600e3, 900e3, OVERLOAD_PPS)
PROBE_PPS = 500e3
"""Above what one core forwards on the kernel's path here."""
VICTIM_X = 0.3
AGGRESSOR_X = (0.5, 1.0, 2.0, 4.0)
SCENARIO_2 = (0.54, (0.27, 0.34, 0.40, 0.46))
WEIGHTS = ((1, 1), (2, 1), (4, 1), tuple(range(1, 9)))


@dataclass
class Found:
    """Lines of the table, judgements and raw figures."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    invalid: list[str] = field(default_factory=list)

    def say(self, what: str, figure: str, asked: str = "", *, met: bool | None = None) -> None:
        """Add a line, and a judgement where something was asked."""
        self.rows.append((what, figure, asked))
        if met is not None:
            self.checks.append(Check(what, f"{figure} (asked: {asked})", met))


def weights(numbers: Sequence[int], more: str = "") -> tuple[str, ...]:
    """Return policies with these weights."""
    return tuple(f"cpu_weight: {100 * number}{more}" for number in numbers)


def capacity(arm: Arm, journal: Journal, options: Options) -> float:
    """Return the highest rate that the first router forwards alone, frames/s."""
    with bed(arm, journal, options.seconds) as here:
        silent = [0.0] * (len(arm.policies) - 1)
        return max(
            median([here.forwarded([rate, *silent])[0] for _ in range(options.rounds)])
            for rate in PROBES_PPS
        )


def shares(found: Found, journal: Journal, options: Options) -> None:
    """Overload everybody: who gets how much of the core."""
    for numbers in WEIGHTS:
        arm = Arm("isolane", weights(numbers))
        fair = [number / sum(numbers) for number in numbers]
        with bed(arm, journal, 2 * options.seconds) as here:
            seen = [
                here.offer([OVERLOAD_PPS / len(numbers)] * len(numbers))
                for _ in range(options.rounds)
            ]
        cpu = _errors(seen, fair, lambda r: float(r.cpu_ns or 0))
        frames = _errors(seen, fair, lambda r: r.received_pps)
        name = ":".join(map(str, numbers))
        found.say(
            f"CPU share error at weights {name}",
            f"{max(cpu):.2f} pp (of frames: {max(frames):.2f} pp)",
            "1 pp",
            met=max(cpu) <= 1.0,
        )
        found.data[f"shares {name}"] = {"cpu_pp": cpu, "frames_pp": frames}


def _errors(
    seen: Sequence[Observation], fair: Sequence[float], of: Callable[[Any], float]
) -> list[float]:
    """Return each router's median share error, percentage points."""
    errors = []
    for number, share in enumerate(fair):
        got = [of(one.routers[number]) / sum(map(of, one.routers)) for one in seen]
        errors.append(100 * abs(median(got) - share))
    return errors


def alone_now(here: Bed) -> float:
    """Return what the first router forwards alone at this moment, frames/s.

    The speed of a shared machine changes within seconds: multiples of a capacity that was measured
    a minute ago would say little about fair shares.
    """
    silent = [0.0] * (len(here.routers) - 1)
    return here.forwarded([PROBE_PPS, *silent])[0]


def protection(found: Found, journal: Journal, options: Options, core_pps: float) -> None:
    """Attack a victim within its fair share, from half to four times the capacity."""
    for path in ("isolane", "macvlan", "bridge"):
        managed = path == "isolane"
        rounds = []
        with bed(Arm(path, weights((1, 1))), journal, options.seconds) as here:
            for _ in range(options.rounds):
                now = alone_now(here) if managed else core_pps
                victim = VICTIM_X * now
                rounds.append(
                    [here.offer([victim, x * now]).routers[0] for x in (0.0, *AGGRESSOR_X)]
                )
        for at, x in enumerate(AGGRESSOR_X, start=1):
            kept = median([one[at].received_pps / one[0].received_pps for one in rounds])
            delay = median([p99_us(one[at]) / p99_us(one[0]) for one in rounds])
            found.say(
                f"{path}: victim at {VICTIM_X}x, aggressor at {x:g}x",
                f"keeps {100 * kept:.1f} %, p99 {delay:.1f} times that alone",
                "99 %, 3 times" if managed else "(shown)",
                met=(kept >= 0.99 and delay <= 3) if managed else None,
            )
            found.data[f"{path} {x}x"] = {"retained": kept, "p99_ratio": delay}


def scenario_2(found: Found, journal: Journal, options: Options) -> None:
    """Rathore et al., scenario II: VR1 above half of the core, with a fair share of two thirds."""
    first, others = SCENARIO_2
    rounds = []
    with bed(Arm("isolane", weights((2, 1))), journal, options.seconds) as here:
        for _ in range(options.rounds):
            now = alone_now(here)
            rounds.append([here.forwarded([first * now, x * now])[0] for x in (0.0, *others)])
    for at, x in enumerate(others, start=1):
        kept = median([one[at] / one[0] for one in rounds])
        found.say(
            f"scenario II: VR1 at {first}x, VR2 at {x}x, weights 2:1",
            f"VR1 keeps {100 * kept:.1f} %",
            "99 %",
            met=kept >= 0.99,
        )


def conserving(found: Found, journal: Journal, options: Options) -> float:
    """See that nothing is wasted: alone, contended, overloaded; returns the capacity."""
    managed, plain = Arm("isolane", weights((1, 1))), {}
    alone = capacity(managed, journal, options)
    for path in ("bridge", "macvlan"):
        plain[path] = capacity(Arm(path, ("", "")), journal, options)
        found.say(
            f"a lone router, managed against {path}",
            f"{alone / 1e3:.0f} against {plain[path] / 1e3:.0f} kpps "
            f"({100 * alone / plain[path]:.0f} %)",
            "95 % of the unmanaged path of the same kind (bridge)",
            met=alone >= 0.95 * plain[path] if path == "bridge" else None,
        )
    both = {}
    for arm in (managed, Arm("bridge", ("", ""))):
        with bed(arm, journal, options.seconds) as here:
            both[arm.path] = median(
                [sum(here.forwarded([alone, alone])) for _ in range(options.rounds)]
            )
    ratio = both["isolane"] / both["bridge"]
    found.say(
        "both at capacity: total against bridge", f"{100 * ratio:.0f} %", "95 %", met=ratio >= 0.95
    )
    with bed(managed, journal, options.seconds) as here:
        for split in (0.5, 0.9):
            totals = {
                x: median(
                    [
                        sum(here.forwarded([x * alone * split, x * alone * (1 - split)]))
                        for _ in range(options.rounds)
                    ]
                )
                for x in (0.9, 1.0, 1.5, 2.0, 4.0)
            }
            kept = min(totals.values()) / max(totals.values())
            found.say(
                f"overload up to 4x, split {100 * split:.0f}:{100 * (1 - split):.0f}",
                f"total falls to {100 * kept:.0f} % of its peak",
                "85 %",
                met=kept >= 0.85,
            )
            found.data[f"overload {split}"] = totals
    found.data |= {"capacity_pps": alone, "unmanaged_pps": plain}
    return alone


def by_xdp(found: Found, journal: Journal, options: Options) -> None:
    """``forward: xdp`` against the kernel's path, and its shares."""
    rates = {
        forward: capacity(
            Arm("isolane", weights((1, 1), f", forward: {forward}")), journal, options
        )
        for forward in ("kernel", "xdp")
    }
    ratio = rates["xdp"] / rates["kernel"]
    found.say(
        "forward: xdp against kernel, alone",
        f"{rates['xdp'] / 1e3:.0f} against {rates['kernel'] / 1e3:.0f} kpps, {ratio:.1f} times",
        "2 times",
        met=ratio >= 2,
    )
    arm = Arm("isolane", weights((1, 1), ", forward: xdp"))
    with bed(arm, journal, 2 * options.seconds) as here:
        offered = [0.6 * OVERLOAD_PPS, 0.4 * OVERLOAD_PPS]
        seen = [here.offer(offered) for _ in range(options.rounds)]
    error = max(_errors(seen, [0.5, 0.5], lambda r: float(r.cpu_ns or 0)))
    what = "forward: xdp, CPU share error at 1:1, offered 3:2"
    found.say(what, f"{error:.2f} pp", "1 pp", met=error <= 1.0)


def many(found: Found, journal: Journal, options: Options) -> None:
    """Cost per frame with 2, 16 and 64 routers, two of which are offered something."""
    costs, gaps = {}, []
    for number in (2, 16, 64):
        with bed(Arm("isolane", weights([1] * number)), journal, options.seconds) as here:
            seen = [
                here.offer([100e3, 100e3, *[0.0] * (number - 2)]) for _ in range(options.rounds)
            ]
        gaps += [
            abs(core.user + core.system + core.softirq + core.idle - 1)
            for one in seen
            for core in one.cores
        ]
        costs[number] = median(
            [
                sum(core.routers for core in one.cores if core.part == "dut")
                / sum(router.received_pps for router in one.routers)
                * 1e9
                for one in seen
            ]
        )
    text = ", ".join(f"{cost:.0f} ns with {number}" for number, cost in costs.items())
    grown = costs[64] / costs[2]
    found.say("cost of a frame, demultiplexer included", text, "does not grow", met=grown < 1.25)
    what = "CPU time of routers and rest against the window: largest gap"
    found.say(what, f"{100 * max(gaps):.2f} %", "2 %", met=max(gaps) <= 0.02)


def bench(options: Options) -> Outcome:
    """Go through all of it."""
    found = Found()
    with host() as journal:
        core_pps = conserving(found, journal, options)
        shares(found, journal, options)
        protection(found, journal, options, core_pps)
        scenario_2(found, journal, options)
        by_xdp(found, journal, options)
        many(found, journal, options)
    return Outcome(
        title=f"Enforcement (CPU): medians of {options.rounds}, {options.seconds:g} s each",
        columns=("what", "measured", "asked"),
        rows=found.rows,
        checks=found.checks,
        notes=[
            "One core for all routers, interrupt moderation 50 us on every path.",
            "Capacity (1x): what one managed router forwards alone, measured in each round.",
        ],
        data=found.data,
    )


if __name__ == "__main__":
    main("enforcement", bench, Options(rounds=5, seconds=0.3), str(__doc__))
