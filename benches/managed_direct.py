"""Wires of their own under a policy: what the victim keeps, and what that costs in all."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import Any

from isolane.run.backend import Observation
from isolane.testbed import Journal

from benches.beds import Arm, bed, host, p99_us
from benches.common import Check, Options, Outcome, main, median

EQUAL = ("cpu_weight: 100", "cpu_weight: 100")
ARMS = {
    "macvlan": Arm("macvlan", ("", "")),
    "direct": Arm("direct", ("", "")),
    "isolane": Arm("isolane", EQUAL),
    "managed-direct": Arm("direct", EQUAL),
}
MANAGED, UNMANAGED = "managed-direct", "direct"
PROBE_PPS = 2e6
"""Above what one core forwards on any path here."""
VICTIM_X = 0.3
AGGRESSOR_X = (0.0, 0.5, 1.0, 2.0, 4.0)
GENERATOR_PPS = 2.4e6
"""What one measuring core sends at most, in all."""
WEIGHTS = ((1, 1), (2, 1), (4, 1))
RULES = 200
"""Rules that each frame is compared with where shares are measured: with frames that cost some
microseconds the generator can overload every router, whatever its weight."""
DEAR_PPS = 800e3

Seen = dict[str, dict[float, Observation]]
"""Arm and load of the aggressor -> what was measured in one round."""


@dataclass
class Found:
    """Lines of the table, judgements and raw figures."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    invalid: int = 0
    trials: int = 0

    def check(self, what: str, figure: str, asked: str, *, met: bool) -> None:
        """Add a judgement."""
        self.checks.append(Check(what, f"{figure} (asked: {asked})", met))


def one_round(journal: Journal, options: Options, found: Found) -> Seen:
    """Measure all arms, one after the other, at all loads; 1x is what `direct` forwards now."""
    seen: Seen = {}

    with bed(ARMS[UNMANAGED], journal, options.seconds) as here:
        core_pps = here.offer([PROBE_PPS, 0.0]).routers[0].received_pps
    victim = VICTIM_X * core_pps
    for name, arm in ARMS.items():
        with bed(arm, journal, options.seconds) as here:
            seen[name] = {
                x: here.offer([victim, min(x * core_pps, GENERATOR_PPS - victim)])
                for x in AGGRESSOR_X
            }
        found.trials += len(AGGRESSOR_X)
        found.invalid += sum(bool(one.invalid) for one in seen[name].values())
    return seen


def kept(seen: Observation) -> float:
    """Return the part of its frames that the victim received."""
    victim = seen.routers[0]
    return victim.received_frames / victim.generated_frames


def total_pps(seen: Observation) -> float:
    """Return what all routers forwarded, frames/s."""
    return sum(router.received_pps for router in seen.routers)


def protection(found: Found, rounds: list[Seen]) -> None:
    """Compare the arms: medians of the rounds, ratios within each."""
    for x in AGGRESSOR_X:
        for name in ARMS:
            of = [one[name] for one in rounds]
            keeps = median([kept(one[x]) for one in of])
            slower = median([p99_us(one[x].routers[0]) / p99_us(one[0.0].routers[0]) for one in of])
            ratio = median(
                [total_pps(one[name][x]) / total_pps(one[UNMANAGED][x]) for one in rounds]
            )
            figures = {
                "kept": keeps,
                "p99_us": median([p99_us(one[x].routers[0]) for one in of]),
                "p99_ratio": slower,
                "total_pps": median([total_pps(one[x]) for one in of]),
                "total_ratio": ratio,
            }
            found.data[f"{name} {x:g}x"] = figures
            found.rows.append(
                (
                    f"{x:g}x",
                    name,
                    f"{100 * keeps:.2f} %",
                    f"{figures['p99_us']:.0f} us",
                    f"{slower:.1f}",
                    f"{figures['total_pps'] / 1e3:.0f} kpps",
                    f"{100 * ratio:.1f} %",
                )
            )
            if name == MANAGED:
                where = f"aggressor at {x:g}x"
                found.check(
                    f"{where}: victim keeps", f"{100 * keeps:.2f} %", "99.9 %", met=keeps >= 0.999
                )
                found.check(f"{where}: p99", f"{slower:.1f} times", "3 times", met=slower <= 3)
                found.check(
                    f"{where}: total", f"{100 * ratio:.1f} %", "95 % of direct", met=ratio >= 0.95
                )


def shares(found: Found, journal: Journal, options: Options) -> None:
    """Overload both routers with dear frames: who gets how much of the core."""
    for weights in WEIGHTS:
        arm = Arm("direct", tuple(f"cpu_weight: {100 * weight}" for weight in weights))
        with bed(arm, journal, 2 * options.seconds) as here:
            for number in range(len(weights)):
                _add_rules(f"isolane-r{number}")
            seen = [here.offer([DEAR_PPS] * len(weights)) for _ in range(options.rounds)]
        used = [[float(router.cpu_ns or 0) for router in one.routers] for one in seen]
        error = 100 * abs(median([of[0] / sum(of) for of in used]) - weights[0] / sum(weights))
        name = ":".join(map(str, weights))
        met = error <= 1.0
        found.check(f"CPU share error at weights {name}", f"{error:.2f} pp", "1 pp", met=met)
        found.data[f"shares {name}"] = error


def _add_rules(netns: str) -> None:
    rules = "".join(f"rule add from 203.0.113.{n % 256} lookup main\n" for n in range(RULES))
    subprocess.run(["ip", "-netns", netns, "-batch", "-"], input=rules, text=True, check=True)


def bench(options: Options) -> Outcome:
    """Go through all of it."""
    found = Found()
    with host() as journal:
        protection(found, [one_round(journal, options, found) for _ in range(options.rounds)])
        shares(found, journal, options)
    return Outcome(
        title=f"Wires of their own: medians of {options.rounds} rounds, {options.seconds:g} s each",
        columns=("aggressor", "arm", "victim keeps", "p99", "x alone", "total", "of direct"),
        rows=found.rows,
        checks=found.checks,
        notes=[
            f"The victim is offered {VICTIM_X}x; 1x is what direct forwards alone, in each round.",
            f"The generator sends {GENERATOR_PPS / 1e6:g} Mpps at most in all.",
            f"{found.invalid} of {found.trials} trials stayed invalid; they are counted, too.",
        ],
        data=found.data,
    )


if __name__ == "__main__":
    main("managed_direct", bench, Options(rounds=5, seconds=0.3), str(__doc__))
