"""Two routers under a policy, on what is the host to this process (tests.enforce.rig)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from acceptance.subject import Attempt, Figures
from tests.enforce.rig import Rig, rigged

FAST_PPS = 700e3
"""Alone more than one core forwards."""
SHORT_S, LONG_S = 0.1, 0.5
STEADY_S = 1.1
"""How long :func:`steady` takes, about."""


def on_rig(
    measure: Callable[[Rig], Figures], rate: str = "10Gbps", routers: int = 2, /, **keys: str
) -> Callable[[Path], AbstractContextManager[Attempt]]:
    """Return what builds a rig, applies a policy with these keys of routers, and measures."""

    @contextmanager
    def opened(folder: Path) -> Iterator[Attempt]:
        with living_on_rig(folder, routers) as rig:
            rig.apply(rate, **keys)
            yield lambda: measure(rig)

    return opened


def steady(rig: Rig, pps: dict[str, float], size: int = 64) -> dict[str, float]:
    """Return the rates that arrive under a constant load, frames/s by router.

    Buckets start full and queues empty: what they add drops out between a short trial and a long
    one.
    """
    short, long = (rig.offer(pps, seconds, size=size) for seconds in (SHORT_S, LONG_S))
    return {name: (long.received[name] - short.received[name]) / (LONG_S - SHORT_S) for name in pps}


@contextmanager
def living_on_rig(folder: Path, routers: int = 2) -> Iterator[Rig]:
    """Build a rig; the command line finds its policy, not the host's."""
    with rigged(folder, routers, "isolane", 4) as rig:
        os.environ["ISOLANE_POLICY"] = rig.tag
        try:
            yield rig
        finally:
            del os.environ["ISOLANE_POLICY"]
