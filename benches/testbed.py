"""Building a test bed of eight routers, and taking it down."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal, get_args

from isolane.testbed import Testbed, clean, exclusive
from isolane.trials.live.cores import staying_on

from benches import beds
from benches.common import (
    GENERATOR_CORE,
    Check,
    Options,
    Outcome,
    main,
    median,
    spread,
)

ROUTERS = 8
BUILD_S, REMOVE_S = 3.0, 2.0
MODERATION_NS = 20_000
Shape = Literal["direct", "bridge", "macvlan"]
Receive = Literal["softirq", "threaded"]


@dataclass
class Times:
    """Seconds, one value a round."""

    build: list[float] = field(default_factory=list)
    remove: list[float] = field(default_factory=list)


def bench(options: Options) -> Outcome:
    """Build and remove each kind of test bed in turn, round by round."""
    found = {(path, receive): Times() for path in get_args(Shape) for receive in get_args(Receive)}
    with staying_on((GENERATOR_CORE,)), exclusive() as journal:
        clean()
        for _ in range(options.rounds):
            for (path, receive), times in found.items():
                begun = time.monotonic()
                with Testbed(
                    beds.plan("container", path, ROUTERS, receive, MODERATION_NS), journal
                ):
                    built = time.monotonic()
                gone = time.monotonic()
                times.build.append(built - begun)
                times.remove.append(gone - built)
    slowest = max(median(times.build) for times in found.values())
    slowest_end = max(median(times.remove) for times in found.values())
    return Outcome(
        title=f"Test bed of {ROUTERS} routers: medians of {options.rounds} rounds",
        columns=("path, receive", "build, s", "range", "take down, s", "range"),
        rows=[
            (
                f"{path}, {receive}",
                f"{median(times.build):.3f}",
                spread(times.build),
                f"{median(times.remove):.3f}",
                spread(times.remove),
            )
            for (path, receive), times in found.items()
        ],
        checks=[
            Check(f"built in under {BUILD_S:g} s", f"{slowest:.3f} s", slowest < BUILD_S),
            Check(
                f"taken down in under {REMOVE_S:g} s",
                f"{slowest_end:.3f} s",
                slowest_end < REMOVE_S,
            ),
        ],
        data={"seconds": {f"{path}, {receive}": vars(t) for (path, receive), t in found.items()}},
    )


if __name__ == "__main__":
    main("testbed", bench, Options(rounds=5, seconds=1.0), str(__doc__))
