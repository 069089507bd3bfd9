"""Checks of what an experiment says about bridges."""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import resolve_router
from isolane.spec.models import ArmChange, ExperimentData
from isolane.spec.problems import Loc, Problem, show

KEY = "bridge_netfilter"


def bridge_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield where a key for bridges stands beside no router that is on one."""
    accepted = f"path bridge, or leave {KEY} out"
    on_bridges = [_has_bridge(data, change) for change in data.arms or (None,)]
    if data.dut.bridge_netfilter is not None and not any(on_bridges):
        loc: Loc = ("dut", KEY)
        yield Problem(loc, f"{KEY} of dut, and no router has path bridge", accepted)
    for i, change in enumerate(data.arms):
        if change.bridge_netfilter is not None and not on_bridges[i]:
            what = f"{KEY} of arm {show(change.name)}, in which no router has path bridge"
            yield Problem(("arms", i, KEY), what, accepted)


def _has_bridge(data: ExperimentData, change: ArmChange | None) -> bool:
    return any(resolve_router(router, change).path == "bridge" for router in data.routers)
