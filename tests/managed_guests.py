"""Two virtual machines on one core, under a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from isolane.trials.live.bench import LiveBench

from tests.live_bench import Offer, live_bench

EXPERIMENT = """\
isolane: 1
name: managed-guests
traffic: {{ip: {ip}, frame_size: 84}}
routers:
  - {{name: one, policy: {{cpu_weight: 400{cap}}}}}
  - {{name: two, policy: {{cpu_weight: 100}}}}
load: {{one: 1pps, two: 1pps}}
arms: [{{name: guests, kind: vm, hypervisor: {hypervisor}, path: {path}}}]
"""
CAP = 0.5
"""Of the first one's own threads."""


@contextmanager
def bench(
    path: str, ip: int = 4, hypervisor: str = "uml", *, capped: bool = True
) -> Iterator[tuple[LiveBench, Offer]]:
    """Build a test bed; yields it, and what offers rates and returns what came of it."""
    cap = f", cpu_max: {100 * CAP:g}%" if capped else ""
    with live_bench(EXPERIMENT.format(path=path, ip=ip, cap=cap, hypervisor=hypervisor)) as found:
        yield found
