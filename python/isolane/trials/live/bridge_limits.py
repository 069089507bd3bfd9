"""What the figures of a path with bridges do not stand for."""

from __future__ import annotations

from collections.abc import Iterator

from isolane.results.results import NotMeasured
from isolane.spec import Arm
from isolane.testbed import bridge_netfilter


def bridge_limits(arm: Arm, ip: int) -> Iterator[NotMeasured]:
    """Say that frames passed netfilter on an arm's bridges, where they did."""
    bridged = any(router.path == "bridge" for router in arm.routers)
    asked, here = arm.bridge_netfilter, bridge_netfilter.here()
    if bridged and bridge_netfilter.passes(here, ip, asked=asked):
        yield NotMeasured(
            what="Bridges without netfilter",
            why=f"on {arm.name} bridges hand each frame to netfilter (br_netfilter), "
            + ("as asked" if asked else "as on this host")
            + "; with bridge_netfilter: off in the arm they would not",
        )
