"""Says why a router lost frames beside an overloaded one: where, and what that one took. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from isolane.results.results import DropPoint
from isolane.verify.environment import Measured
from isolane.verify.evidence import Pair

_WHERE: dict[DropPoint, str] = {
    "nic_queue": "at the NIC, before anybody could tell whose they were",
    "router_queue": "in its queue",
    "egress": "on the way out",
}
_FEW = 0.05
"""Part of the lost frames, or of the CPU time, below which nothing is said of it."""


def why_lost(pairs: Sequence[Pair], router: str, aggressor: str) -> str | None:
    """Return where a router lost its frames, and what of the CPU time the aggressor's frames took.

    Parameters
    ----------
    pairs
        With the aggressor overloaded, each with its reference, in which that one is silent.

    Returns
    -------
    text
        None where neither is known, or worth a word.
    """
    told = [*_where((pair.loaded for pair in pairs), router), *_taken(pairs, aggressor)]
    return "; ".join(told) or None


def _where(trials: Iterable[Measured], router: str) -> Iterator[str]:
    lost: Counter[DropPoint] = Counter()
    for seen in trials:
        lost.update(seen.routers[router].lost)
    total = sum(lost.values())
    named = [
        f"{100 * lost[point] / total:.0f} % {words}"
        for point, words in _WHERE.items()
        if total and lost[point] >= _FEW * total
    ]
    if named:
        yield f"of what it lost, {', '.join(named)}"


def _taken(pairs: Iterable[Pair], aggressor: str) -> Iterator[str]:
    parts = [
        (of_nics, 1 - pair.reference.idle)
        for pair in pairs
        if pair.reference is not None and (of_nics := _of_nics(pair.loaded, aggressor)) is not None
    ]
    if not parts:
        return
    of_nics, needed = (median(each) for each in zip(*parts, strict=True))
    if of_nics >= _FEW:
        yield (
            f"to look at {aggressor}'s frames, and refuse them, takes the NICs' threads "
            f"{100 * of_nics:.0f} % of the cores, and the others need {100 * needed:.0f} %"
        )


def _of_nics(seen: Measured, router: str) -> float | None:
    """Return what part of the cores' time the NICs' threads spent for a router."""
    total = sum(each.caused_cpu or 0.0 for each in seen.routers.values())
    spent = seen.routers[router].nic_cpu
    return spent / total * (1 - seen.idle) if spent is not None and total else None
