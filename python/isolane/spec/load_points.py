"""Points: the settings of load (and number of routers) that every arm is measured at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from isolane.spec.fields import Mode, Role
from isolane.spec.models import ExperimentData, Router
from isolane.spec.patterns import PLAIN, Pattern
from isolane.spec.subnets import Network, default_subnet
from isolane.spec.units import Load
from isolane.spec.web_models import DEFAULT_OBJECT_BYTES, format_size
from isolane.spec.work_models import NO_WORK, Work

T = TypeVar("T")


@dataclass(frozen=True)
class PointRouter:
    """One router at one point."""

    name: str
    """Name of the member: the group's own if that is a single router."""
    group: str
    role: Role
    load: Load
    """Offered load of this router alone: the group's, divided equally."""
    address: Network | None = None
    """Ingress subnet: the one asked for, or :func:`default_subnet`."""
    pattern: Pattern = PLAIN
    """What is unusual about the frames that it is sent."""
    mode: Mode = "forward"
    """Whether it passes its frames on, or answers them."""
    object_bytes: int = DEFAULT_OBJECT_BYTES
    """With mode http: what it is asked for."""
    work: Work = NO_WORK
    """What a program in it does besides."""
    work_from_ns: int | None = None
    """From when on, from the start of the window, where it is not while frames are sent."""
    work_until_ns: int | None = None
    """Until when; None: the end of the window."""

    @property
    def works_in_part(self) -> bool:
        """Whether it works in a part of the window."""
        return self.work != NO_WORK and (self.work_from_ns, self.work_until_ns) != (None, None)

    @property
    def answers(self) -> bool:
        """Whether what comes back of it are answers: delays are round-trip times."""
        return self.mode != "forward"


@dataclass(frozen=True)
class Point:
    """One setting of load and number of routers."""

    index: int
    label: str
    """What distinguishes this point, such as ``aggressor 0.5x`` or ``8 routers``."""
    routers: tuple[PointRouter, ...]

    def group(self, name: str) -> tuple[PointRouter, ...]:
        """Return the routers of a group."""
        return tuple(router for router in self.routers if router.group == name)

    def without_work(self) -> Point:
        """Return the same setting with routers that do nothing besides."""
        return replace(self, routers=tuple(replace(r, work=NO_WORK) for r in self.routers))


def sweeps(data: ExperimentData) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield location and length of each list of the sweep, in the file's order."""
    if len(data.traffic.object_bytes) > 1:
        yield ("traffic", "object"), len(data.traffic.object_bytes)
    for i, router in enumerate(data.routers):
        if len(router.count) > 1:
            yield ("routers", i, "count"), len(router.count)
        if len(patterns_of(router)) > 1:
            yield ("routers", i, "traffic", "pattern"), len(patterns_of(router))
        if len(own_objects(router)) > 1:
            yield ("routers", i, "traffic", "object"), len(own_objects(router))
        if len(router.work) > 1:
            yield ("routers", i, "work"), len(router.work)
    for name, loads in data.load.items():
        if len(loads) > 1:
            yield ("load", name), len(loads)


def patterns_of(router: Router) -> tuple[Pattern, ...]:
    """Return a router's traffic patterns, one for all points or one for each."""
    return (PLAIN,) if router.traffic is None else router.traffic.pattern


def own_objects(router: Router) -> tuple[int, ...]:
    """Return the sizes of web objects that a router has for itself; none: those of all."""
    return (router.traffic and router.traffic.object_bytes) or ()


def at(values: Sequence[T], step: int) -> T:
    """Return the value at a step of the sweep; a scalar (a list of one) is repeated."""
    return values[0] if len(values) == 1 else values[step]


def resolve_points(data: ExperimentData) -> tuple[Point, ...]:
    """Return the points in the order of the lists; a single one if nothing is swept."""
    steps = max((length for _, length in sweeps(data)), default=1)
    return tuple(
        Point(
            index=step,
            label=_label(data, step),
            routers=tuple(
                member for router in data.routers for member in _members(data, router, step)
            ),
        )
        for step in range(steps)
    )


def subnet_of(router: Router, member: int) -> Network | None:
    """Return the ingress subnet of the n-th member (from 0); None if none was asked for.

    Raises
    ------
    ValueError
        If the address space ends before it (ipaddress.AddressValueError).
    """
    if router.address is None:
        return None
    first = router.address.network_address + member * router.address.num_addresses
    return type(router.address)((first, router.address.prefixlen))


def _members(data: ExperimentData, router: Router, step: int) -> Iterator[PointRouter]:
    count = at(router.count, step)
    total = at(data.load[router.name], step)
    load = Load(total.value / count, total.unit)
    earlier = data.routers[: data.routers.index(router)]
    number = sum(at(other.count, step) for other in earlier)
    for i, name in enumerate(router.member_names(count)):
        address = subnet_of(router, i) or default_subnet(data.traffic.ip, number + i)
        pattern = at(patterns_of(router), step)
        traffic = data.traffic_of(router.name)
        size = at(traffic.object_bytes, step)
        yield PointRouter(
            name, router.name, router.role, load, address, pattern, traffic.mode, size,
            at(router.work, step), router.work_from_ns, router.work_until_ns,
        )  # fmt: skip


def _label(data: ExperimentData, step: int) -> str:
    parts = []
    for router in data.routers:
        if len(router.count) > 1:
            count = router.count[step]
            of = "" if len(data.routers) == 1 else f"{router.name} "
            parts.append(f"{count} {of}router{'' if count == 1 else 's'}")
    if len(data.traffic.object_bytes) > 1:
        parts.append(f"objects of {format_size(data.traffic.object_bytes[step])}")
    parts += [
        f"{router.name} {format_size(own_objects(router)[step])}"
        for router in data.routers
        if len(own_objects(router)) > 1
    ]
    for router in data.routers:
        loads, patterns = data.load[router.name], patterns_of(router)
        if len(loads) > 1 or len(patterns) > 1 or len(router.work) > 1:
            pattern, work = at(patterns, step), at(router.work, step)
            told = f" {pattern}" if len(patterns) > 1 and pattern != PLAIN else ""
            busy = f", work {work}" if len(router.work) > 1 and work != NO_WORK else ""
            parts.append(f"{router.name} {at(loads, step)}{told}{busy}")
    if not parts:
        parts = [f"{router.name} {data.load[router.name][0]}" for router in data.routers]
    return ", ".join(parts)
