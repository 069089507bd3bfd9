"""The way of a frame through bridges that hand it to netfilter."""

from __future__ import annotations

from typing import Final

from isolane.spec.hostmodel import PathData, ProfileData

BRIDGE: Final = "bridge-map"
"""The cost that tells where a bridge has a frame."""
NETFILTER: Final = "netfilter"
"""What a profile says of netfilter's hooks there: they are asked each time."""


def bridging(path: PathData, *, filtered: bool | None) -> PathData:
    """Return the path with netfilter asked on each bridge, or not; None: as the path's costs are.

    A profile's cost of a bridge is without it where the profile knows what netfilter costs.
    """
    if not filtered:
        return path
    stages = {
        name: stage.model_copy(update={"cost": (*stage.cost, NETFILTER)})
        if BRIDGE in stage.cost
        else stage
        for name, stage in path.stages.items()
    }
    return path.model_copy(update={"stages": stages})


def knows(profile: ProfileData, path: PathData, *, filtered: bool | None) -> bool:
    """Tell whether a profile can say what netfilter makes of a path, where that is asked."""
    bridged = any(BRIDGE in stage.cost for stage in path.stages.values())
    return filtered is None or not bridged or NETFILTER in profile.costs
