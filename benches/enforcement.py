"""CPU: shares kept, a victim protected, nothing wasted, XDP against the kernel's path."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from benches.beds import host
from benches.by_experiment import Measured, carry_out, known
from benches.common import Check, Options, Outcome, main
from benches.dear_frames import share_errors

KERNEL, XDP, DIRECT = "isolane", "isolane-xdp", "managed-direct"
KEEPS = {KERNEL: 0.99, DIRECT: 0.999}
"""What a victim is to keep of what it receives alone, by managed arm."""
TOTAL = {KERNEL: 0.85, DIRECT: 0.95}
"""What the total under overload is to be: of its own peak; of unmanaged `direct`."""
P99_RATIO = 3.0
SHARES = {"1-to-1": (1, 1), "2-to-1": (2, 1), "4-to-1": (4, 1), "xdp-1-to-1": (1, 1)}


@dataclass
class Found:
    """Lines of the table, judgements and raw figures."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def say(self, what: str, figure: str, asked: str = "", *, met: bool | None = None) -> None:
        """Add a line, and a judgement where something was asked."""
        self.rows.append((what, figure, asked))
        if asked:
            self.checks.append(Check(what, f"{figure} (asked: {asked})", met))

    def judge(self, what: str, value: float, figure: str, asked: str, *, met: bool) -> None:
        """Do the same; without a figure nothing was measured."""
        self.say(what, figure, asked, met=met if known(value) else None)


def lone(found: Found, options: Options) -> None:
    """One router: throughput beside macvlan's, cost of a frame, XDP."""
    seen = carry_out("lone", options)
    found.notes.append(seen.note())
    peak = {}
    for arm in seen.arms:
        rates = {
            seen.load_x(point, "one"): seen.figure(arm, point, "one", lambda c: c.throughput_pps)
            for point in seen.points
        }
        ratios = {x: rate / _of(seen, "macvlan", x) for x, rate in rates.items()}
        peak[arm] = max(filter(known, rates.values()), default=math.nan)
        text = ", ".join(f"{100 * ratio:.0f} % at {x:g}x" for x, ratio in ratios.items())
        asked = "95 % of macvlan to 1x, 85 % beyond" if arm in (KERNEL, DIRECT) else ""
        met = all(
            ratio >= (0.95 if x <= 1 else 0.85) for x, ratio in ratios.items() if known(ratio)
        )
        found.judge(f"lone router, {arm}", peak[arm], f"{text} of macvlan", asked, met=met)
        found.data[f"lone {arm}"] = rates
    cost = {
        arm: seen.figure(arm, 0, "one", lambda c: c.cpu_caused_ns_per_frame) for arm in seen.arms
    }
    for arm in (KERNEL, DIRECT):
        ratio = cost[arm] / cost["macvlan"]
        figure = f"{cost[arm]:.0f} against {cost['macvlan']:.0f} ns, {ratio:.2f} times"
        what = f"cost of a frame at 0.5x, {arm} against macvlan"
        found.judge(what, ratio, figure, "1.15 times", met=ratio <= 1.15)
    ratio = peak[XDP] / peak[KERNEL]
    figure = f"{peak[XDP] / 1e3:.0f} against {peak[KERNEL] / 1e3:.0f} kpps, {ratio:.1f} times"
    found.judge(
        "forward: xdp against kernel, highest", ratio, figure, "2.5 times", met=ratio >= 2.5
    )


def _of(seen: Measured, arm: str, load_x: float) -> float:
    (point,) = (point for point in seen.points if seen.load_x(point, "one") == load_x)
    return seen.figure(arm, point, "one", lambda c: c.throughput_pps)


def protection(found: Found, options: Options) -> None:
    """Attack a victim within its fair share, from half to four times the capacity."""
    seen = carry_out("victim", options)
    found.notes.append(seen.note())
    for arm in seen.arms:
        peak = max(seen.total_pps(arm, point) for point in seen.points[1:])
        for point in seen.points[1:]:
            x = seen.load_x(point, "aggressor")
            kept, delay = _kept(seen, arm, point, "victim")
            total = seen.total_pps(arm, point)
            part = total / (seen.total_pps("direct", point) if arm == DIRECT else peak)
            of_what = "direct's" if arm == DIRECT else "its peak"
            found.judge(
                f"{arm}: victim at 0.3x, aggressor at {x:g}x",
                kept,
                f"keeps {100 * kept:.1f} %, p99 {delay:.1f} times that alone",
                f"{100 * KEEPS[arm]:g} %, {P99_RATIO:g} times" if arm in KEEPS else "",
                met=kept >= KEEPS.get(arm, 0.0) and delay <= P99_RATIO,
            )
            found.judge(
                f"{arm}: total, aggressor at {x:g}x",
                part,
                f"{total / 1e3:.0f} kpps, {100 * part:.0f} % of {of_what}",
                f"{100 * TOTAL[arm]:g} %" if arm in TOTAL else "",
                met=part >= TOTAL.get(arm, 0.0),
            )
            found.data[f"{arm} {x:g}x"] = {"kept": kept, "p99_ratio": delay, "total_pps": total}


def _kept(seen: Measured, arm: str, point: int, router: str) -> tuple[float, float]:
    """Return the shares of frames and the multiple of the p99 delay, of those alone."""
    return (
        seen.figure(arm, point, router, lambda c: c.retained or c.delivered),
        seen.figure(arm, point, router, lambda c: c.delay_inflation),
    )


def scenario_2(found: Found, options: Options) -> None:
    """Rathore et al., scenario II: VR1 above half of the core, with a fair share of two thirds."""
    seen = carry_out("scenario-2", options)
    found.notes.append(seen.note())
    for arm in seen.arms:
        for point in seen.points[1:]:
            kept, _ = _kept(seen, arm, point, "vr1")
            found.judge(
                f"scenario II, {arm}: VR2 at {seen.load_x(point, 'vr2'):g}x, weights 2:1",
                kept,
                f"VR1 keeps {100 * kept:.1f} %",
                "" if arm not in KEEPS else "99 %",
                met=kept >= 0.99,
            )


def shares(found: Found, options: Options) -> None:
    """Overload everybody: who gets how much of the core."""
    seen = carry_out("shares", options)
    found.notes.append(seen.note())
    for arm, weights in SHARES.items():
        _shares(found, seen, arm, dict(zip(("heavy", "light"), weights, strict=True)))
    seen = carry_out("shares-of-8", options)
    found.notes.append(seen.note())
    _shares(found, seen, seen.arms[0], {f"r{number}": number for number in range(1, 9)})
    with host() as journal:
        for weights in ((1, 1), (2, 1), (4, 1)):
            errors = share_errors(weights, journal, options)
            what = (
                f"CPU share error at weights {':'.join(map(str, weights))}, {DIRECT}, dear frames"
            )
            worst = max(errors, default=math.nan)
            found.judge(what, worst, f"{worst:.2f} pp", "1 pp", met=worst <= 1)
            found.data[what] = errors


def _shares(found: Found, seen: Measured, arm: str, weights: dict[str, int]) -> None:
    used = {router: seen.figure(arm, 0, router, lambda c: c.cpu_share) for router in weights}
    errors = [
        100 * abs(used[router] / sum(used.values()) - weight / sum(weights.values()))
        for router, weight in weights.items()
    ]
    what = f"CPU share error at weights {':'.join(map(str, weights.values()))}, {arm}"
    worst = max(errors)
    found.judge(what, worst, f"{worst:.2f} pp", "1 pp", met=worst <= 1)
    found.data[what] = errors


def many(found: Found, options: Options) -> None:
    """Cost per frame with 3, 16 and 64 routers, two of which are offered something."""
    seen = carry_out("many", options)
    found.notes.append(seen.note())
    arm = seen.arms[0]
    costs = [
        seen.figure(arm, point, "busy-1", lambda c: c.cpu_caused_ns_per_frame)
        for point in seen.points
    ]
    grown = costs[-1] / costs[0]
    text = ", ".join(f"{cost:.0f} ns" for cost in costs)
    what = "cost of a frame with 3, 16, 64 routers, demultiplexer included"
    found.judge(what, grown, text, "does not grow by a quarter", met=grown < 1.25)
    audits = [audit for trial in seen.trials if trial.status == "ok" for audit in trial.cpu_audit]
    gap = max((abs(audit.accounted - 1) for audit in audits), default=math.nan)
    what = "CPU accounts against the window, largest gap"
    found.judge(what, gap, f"{100 * gap:.2f} %", "2 %", met=gap <= 0.02)


def bench(options: Options) -> Outcome:
    """Go through all of it."""
    found = Found()
    for part in (lone, protection, scenario_2, shares, many):
        part(found, options)
    return Outcome(
        title=f"Enforcement (CPU): medians of {options.rounds}, {options.seconds:g} s each",
        columns=("what", "measured", "asked"),
        rows=found.rows,
        checks=found.checks,
        notes=[
            "One core for all routers, interrupt moderation 50 us on every path.",
            "1x, the same for all arms: the maximum forwarding rate of the arm that a file names.",
            *found.notes,
        ],
        data=found.data,
    )


if __name__ == "__main__":
    main("enforcement", bench, Options(rounds=5, seconds=0.3), str(__doc__))
