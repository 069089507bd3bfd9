"""How much of the machine somebody else had, attempt by attempt."""

from __future__ import annotations

import os

from isolane.procfs import CoreTicks, all_ticks
from isolane.trials.live.speed_probe import probe

from acceptance.subject import Disturbance


class Watch:
    """Adds to what is known of the disturbance of one subject."""

    def __init__(self) -> None:
        self.found = Disturbance()
        self._before: CoreTicks | None = None

    def begin(self) -> None:
        """Remember how the cores have spent their time until an attempt."""
        self._before = all_ticks()

    def end(self) -> None:
        """Add what was taken away during the attempt, and probe all cores once."""
        assert self._before is not None
        passed = all_ticks().since(self._before)
        self.found.steal.append(passed.steal / passed.total if passed.total else 0.0)
        probes = probe(sorted(os.sched_getaffinity(0)))
        longest = max(each.longest_stall_ns for each in probes)
        self.found.longest_stall_ns = max(self.found.longest_stall_ns, longest)
