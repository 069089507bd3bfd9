"""TCP through a policy does not live on retransmissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from isolane.stats.promises import Bar

from acceptance.subject import Attempt, Figures, Promise, Subject
from tests.enforce.lan import MB, PATHS, lan

SPEED = "slowest of all pairs of hosts"
HOW = ("direct", "bridged polled", "stacked", "bridged tapped")


def _opened(how: str) -> Callable[[Path], AbstractContextManager[Attempt]]:
    @contextmanager
    def opened(_folder: Path) -> Iterator[Attempt]:
        with lan(4, 1500, how) as net:
            net.apply("rate_min: 1Gbps")

            def attempt() -> Figures:
                done = [net.transfer(source, target, 2 * MB) for source, target in PATHS]
                assert all(transfer.intact for transfer in done)
                return {SPEED: [min(transfer.mbps for transfer in done)]}

            yield attempt

    return opened


SUBJECTS = tuple(
    # One segment each 200 ms, which is what a lost checksum leaves, is 0.06 Mbit/s.
    Subject(f"TCP, {how}", (Promise(SPEED, Bar(1.0, 0.0), "Mbit/s"),), _opened(how), 1.0)
    for how in HOW
)
