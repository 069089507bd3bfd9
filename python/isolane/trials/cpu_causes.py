"""Who caused a router's CPU time: the same rule for every arm, live and simulated. Pure.

A router's **own** time is what ran in its own threads and polls. What it **caused** is that and its
part of the work that routers share: each kind of shared work is divided in proportion to the
frames that each router had there. What has no router's frames stays with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isolane.results.cpu_results import CpuPart

Parts = dict[CpuPart, int]
"""CPU time of one router by why it was spent, ns."""


@dataclass(frozen=True)
class SharedWork:
    """CPU time of one kind that routers share."""

    part: CpuPart
    ns: int
    frames: Mapping[str, int]
    """By router: frames that this work was done for."""

    @property
    def assigned(self) -> bool:
        """Whether there is anybody to charge it to."""
        return any(count > 0 for count in self.frames.values())


def divide(own: Mapping[str, int | None], shared: Sequence[SharedWork]) -> dict[str, Parts]:
    """Divide the CPU time of a trial among its routers.

    Parameters
    ----------
    own
        By router: what ran in its own threads and polls, ns; None for one that has neither.
    shared
        Work that routers share. Work for nobody's frames is left out.

    Returns
    -------
    dict of dict
        By router and part, ns. The parts of all routers together are all of their own time and of
        the shared work that is assigned, to the nanosecond.
    """
    found: dict[str, Parts] = {
        router: {} if ns is None else {"own": ns} for router, ns in own.items()
    }
    for work in shared:
        for router, ns in in_proportion(work.ns, work.frames).items():
            if ns > 0:
                found[router][work.part] = found[router].get(work.part, 0) + ns
    return found


def in_proportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide a whole number; the parts add up to it, unless all weights are 0 (then to 0).

    Rounding goes by the sums so far, so no part is off by 1 or more.
    """
    whole = sum(max(0, weight) for weight in weights.values())
    parts, so_far, given = {}, 0, 0
    for name, weight in weights.items():
        so_far += max(0, weight)
        upto = total * so_far // whole if whole else 0
        parts[name], given = upto - given, upto
    return parts


def caused(parts: Parts) -> int:
    """Return all CPU time that a router caused, ns."""
    return sum(parts.values())
