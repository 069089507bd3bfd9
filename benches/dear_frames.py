"""Shares of the core on wires of their own, with frames so dear that all routers are overloaded."""

from __future__ import annotations

import subprocess

from isolane.testbed import Journal
from isolane.trials.backend import Observation

from benches.beds import Arm, bed
from benches.common import Options, median

RULES = 200
"""Rules that each frame is compared with: a frame then costs some microseconds, so the generator
can overload every router, whatever its weight."""
OFFERED_PPS = 800e3
"""Of each router."""


def share_errors(weights: tuple[int, ...], journal: Journal, options: Options) -> list[float]:
    """Return how far each router's median share is from its weight, percentage points.

    Trials that stay invalid are left out; without any other the list is empty.
    """
    arm = Arm("direct", tuple(f"cpu_weight: {100 * weight}" for weight in weights))
    with bed(arm, journal, 2 * options.seconds) as here:
        for number in range(len(weights)):
            _add_rules(f"isolane-r{number}")
        seen = [here.offer([OFFERED_PPS] * len(weights)) for _ in range(options.rounds)]
    shares = [_shares(one) for one in seen if not one.invalid]
    if not shares:
        return []
    return [
        100 * abs(median([of[number] for of in shares]) - weight / sum(weights))
        for number, weight in enumerate(weights)
    ]


def _shares(seen: Observation) -> list[float]:
    used = [float(router.cpu_ns or 0) for router in seen.routers]
    return [one / sum(used) for one in used]


def _add_rules(netns: str) -> None:
    rules = "".join(f"rule add from 203.0.113.{n % 256} lookup main\n" for n in range(RULES))
    subprocess.run(["ip", "-netns", netns, "-batch", "-"], input=rules, text=True, check=True)
