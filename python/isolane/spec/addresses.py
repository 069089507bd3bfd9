"""The subnets of an experiment's routers: right kind, right range, no overlap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from isolane.spec.load_points import PointRouter, resolve_points, subnet_of
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Loc, Problem, show
from isolane.spec.subnets import RECEIVER_SIDE, Network


def misplaced(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of each requested subnet by itself."""
    version = data.traffic.ip
    for i, router in enumerate(data.routers):
        loc: Loc = ("routers", i, "address")
        if router.address is None:
            continue
        if router.address.version != version:
            what = (
                f"{router.address} is not an IPv{version} subnet, but the traffic is IPv{version}"
            )
            yield Problem(loc, what, f"an IPv{version} subnet, or traffic with ip: {10 - version}")
            continue
        receiver = next(net for net in RECEIVER_SIDE if net.version == version)
        try:
            last = subnet_of(router, max(router.count) - 1)
        except ValueError:
            what = f"no addresses are left behind {router.address} for {max(router.count)} routers"
            yield Problem(loc, what, "a lower or a smaller subnet")
            continue
        if any(_overlap(net, receiver) for net in (router.address, last) if net):
            what = f"{router.address} clashes with {receiver}, which is the receiver's side"
            yield Problem(loc, what, "a subnet outside of it")


def clashes(data: ExperimentData) -> Iterator[Problem]:
    """Check the subnets of all routers of a point, default ones included."""
    groups = {router.name: i for i, router in enumerate(data.routers)}
    own = {router.name for router in data.routers if router.address is not None}
    told: set[int] = set()
    points = {tuple(r.name for r in point.routers): point for point in resolve_points(data)}
    for point in points.values():
        for pair in combinations(point.routers, 2):
            # Report a requested address, not a default one; of two requested ones, the later.
            asked = [router for router in reversed(pair) if router.group in own]
            if not asked or groups[asked[0].group] in told or not _clash(*pair):
                continue
            mine, other = asked[0], pair[0] if asked[0] is pair[1] else pair[1]
            told.add(groups[mine.group])
            default = "" if len(asked) == 2 else " by default"
            what = (
                f"{mine.address} of router {show(mine.name)} clashes with the subnet of "
                f"{show(other.name)}, {other.address}{default}"
            )
            yield Problem(("routers", groups[mine.group], "address"), what, "subnets apart")


def _clash(a: PointRouter, b: PointRouter) -> bool:
    return a.address is not None and b.address is not None and _overlap(a.address, b.address)


def _overlap(a: Network, b: Network) -> bool:
    return a.version == b.version and a.overlaps(b)
