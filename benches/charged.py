"""Who causes work pays for it, path `isolane`: the same routers with and without, in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import quantiles

from isolane._native import CpuBudget
from isolane.enforce.host_access import Host
from isolane.enforce.policy_state import State
from isolane.results.cpu_results import CPU_PARTS, CpuPart
from isolane.spec.policy import Policy
from isolane.trials.backend import Observation
from isolane.trials.live.testbed_policy import enforcer

from benches.beds import Arm, bed, host
from benches.by_experiment import known
from benches.common import Check, Options, Outcome, main, median

LONE_PPS = (200e3, 1.5e6)
LONE_ROUNDS = 4
"""Times as many rounds as the others: the difference is small."""
VICTIM_PPS = 200e3
AGGRESSOR_PPS = (400e3, 800e3, 1.5e6)
OVERLOADS_PPS = ((1e6, 1e6), (700e3, 1.4e6), (1.4e6, 700e3))
"""Of the heavy and the light router: both have too much, and one of them may cause more drops."""
WEIGHTS = ((1, 1), (2, 1), (4, 1))


Figure = Callable[[Observation], float]
Pairs = list[tuple[Observation, Observation]]
"""Trials one after the other, not charged and charged, both of them valid."""


@dataclass
class Found:
    """Lines of the table, judgements and raw figures."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, what: str, pairs: Pairs, form: str, **figures: Figure) -> dict[str, float]:
        """Add a line: medians of the trials not charged and charged; returns the latter."""
        found = {
            name: [median([figure(pair[on]) for pair in pairs]) for on in (False, True)]
            for name, figure in figures.items()
        }
        each = [{name: values[on] for name, values in found.items()} for on in (False, True)]
        self.rows.append((what, *(form.format(**one) for one in each)))
        self.data[what] = found
        return each[-1]

    def judge(self, what: str, asked: str, figure: str, *, value: float, met: bool) -> None:
        """Judge a figure; without one nothing was measured."""
        self.checks.append(Check(f"{what}: {asked}", figure, met if known(value) else None))


def turn(weights: Sequence[int], *, on: bool) -> None:
    """Have routers r0, r1, ... pay for what their frames cost the NIC's thread, or not."""

    def work(found: Host, state: State, _policy: Policy) -> None:
        plane = found.attached_plane()
        assert plane is not None, "a bed under a policy has programs"
        for number, weight in enumerate(weights):
            budget = CpuBudget(rate_ns=0, depth_ns=0, weight=100 * weight if on else 0)
            plane.set_budget(state.numbers[f"budget:r{number}"], budget)

    enforcer().look(work)


def in_turns(
    found: Found, loads: Sequence[Sequence[float]], weights: Sequence[int], options: Options
) -> Iterator[tuple[Sequence[float], Pairs]]:
    """Offer each of the loads, frames/s, charged and not in turns, to routers of these weights.

    Returns
    -------
    iterator
        Each load with its pairs.
    """
    seen: list[Pairs] = [[] for _ in loads]
    arm = Arm("isolane", tuple(f"cpu_weight: {100 * weight}" for weight in weights))
    with host() as journal, bed(arm, journal, options.seconds) as here:
        for repeat in range(options.rounds):
            for load, pairs in zip(loads, seen, strict=True):
                pair = {}
                for on in (False, True) if repeat % 2 else (True, False):
                    turn(weights, on=on)
                    pair[on] = here.offer(load)
                if not any(one.invalid for one in pair.values()):
                    pairs.append((pair[False], pair[True]))
    found.notes.append(
        f"weights {':'.join(map(str, weights))}: {sum(map(len, seen))} of "
        f"{options.rounds * len(loads)} pairs of trials were valid"
    )
    return zip(loads, seen, strict=True)


def total_kpps(one: Observation) -> float:
    """Return what all routers forwarded."""
    return sum(router.received_pps for router in one.routers) / 1e3


def caused_ns(one: Observation, router: int, *parts: CpuPart) -> int:
    """Return the CPU time that a router caused, by the accountant; all parts if none is named."""
    found = one.routers[router].cpu_parts or {}
    return sum(found.get(part, 0) for part in parts or CPU_PARTS)


def cost_ns(one: Observation) -> float:
    """Return what a frame cost that the only router forwarded."""
    return caused_ns(one, 0) / max(1, one.routers[0].received_frames)


def kept(one: Observation) -> float:
    """Return the part of its frames that arrived of the first router's."""
    return one.routers[0].received_frames / max(1, one.routers[0].generated_frames)


def heavy_part(one: Observation) -> float:
    """Return the heavy router's part of the CPU time that both caused."""
    return caused_ns(one, 0) / (caused_ns(one, 0) + caused_ns(one, 1))


def max_for_heavy(one: Observation) -> float:
    """Return what that would be if nothing but the NIC's work were done for the light router."""
    light = caused_ns(one, 1, "receive", "drop")
    return 1 - light / (caused_ns(one, 0) + caused_ns(one, 1))


def lone(found: Found, options: Options) -> None:
    """One router: what charging it costs, by pairs."""
    loads = [[rate] for rate in LONE_PPS]
    more = replace(options, rounds=LONE_ROUNDS * options.rounds)
    for (rate,), pairs in in_turns(found, loads, (1,), more):
        what = f"alone, {rate / 1e3:.0f} kpps"
        form = "{kpps:.0f} kpps, {cost:.0f} ns/frame"
        found.add(what, pairs, form, kpps=total_kpps, cost=cost_ns)
        ratios = [total_kpps(on) / total_kpps(off) for off, on in pairs]
        part = median(ratios)
        low, _, high = quantiles(ratios) if len(ratios) > 1 else (math.nan,) * 3
        asked = "forwards at least 98 % of that uncharged"
        figure = f"{100 * part:.1f} % (half of the pairs {100 * low:.0f} to {100 * high:.0f})"
        found.judge(what, asked, figure, value=part, met=part >= 0.98)


def victim(found: Found, options: Options) -> None:
    """Attack a victim: its neighbour has too much, weights 1:1."""
    loads = [(VICTIM_PPS, rate) for rate in AGGRESSOR_PPS]
    for (own, other), pairs in in_turns(found, loads, (1, 1), options):
        what = f"victim {own / 1e3:.0f} kpps, aggressor {other / 1e3:.0f}"
        form = "keeps {kept:.1%}, total {kpps:.0f} kpps"
        on = found.add(what, pairs, form, kept=kept, kpps=total_kpps)["kept"]
        found.judge(what, "keeps 99 %", f"{100 * on:.1f} %", value=on, met=on >= 0.99)


def shares(found: Found, options: Options) -> None:
    """Both have too much: parts of all CPU time that they cause."""
    for weights in WEIGHTS:
        asked = weights[0] / sum(weights)
        for loads, pairs in in_turns(found, OVERLOADS_PPS, weights, options):
            between = " and ".join(f"{load / 1e3:.0f}" for load in loads)
            what = f"weights {weights[0]}:{weights[1]}, {between} kpps"
            on = found.add(
                what, pairs, "{part:.1%}, total {kpps:.0f} kpps",
                part=heavy_part, kpps=total_kpps, highest=max_for_heavy,
            )  # fmt: skip
            error = 100 * abs(on["part"] - asked)
            floor = f"; {100 * on['highest']:.0f} % if the light one were served nothing"
            found.judge(
                what, f"the heavy one causes {100 * asked:.1f} % within 1 pp",
                f"{error:.1f} pp off{floor if on['highest'] < asked else ''}",
                value=error, met=error <= 1,
            )  # fmt: skip


def bench(options: Options) -> Outcome:
    """Go through all of it."""
    found = Found()
    for part in (lone, victim, shares):
        part(found, options)
    return Outcome(
        title=f"Who causes work pays: medians of {options.rounds}, {options.seconds:g} s each",
        columns=("path isolane, forward: kernel", "not charged", "charged"),
        rows=found.rows,
        checks=found.checks,
        notes=[
            "Shares: of the CPU time that both cause, by the accountant; the heavy router's.",
            *found.notes,
        ],
        data=found.data,
    )


if __name__ == "__main__":
    main("charged", bench, Options(rounds=7, seconds=0.2), str(__doc__))
