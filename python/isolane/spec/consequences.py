"""Checks of what an experiment leads to: frames, addresses, line rate, number of trials.

These checks need arms and points, so they run only when the structure is sound
(:func:`isolane.spec.checks.structure`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from isolane.spec.addresses import clashes
from isolane.spec.arms import resolve_arms
from isolane.spec.load_points import Point, PointRouter, resolve_points, sweeps
from isolane.spec.models import MIN_FRAME_BYTES, ExperimentData, PublishedRow
from isolane.spec.problems import Loc, Problem, listed, nearest, show
from isolane.spec.quantities import UNITS_OF_METRIC
from isolane.spec.units import Load, format_bps, format_rate

MAX_TRIALS: Final = 10_000
"""More than an hour of the shortest trials; a larger number is a typing mistake."""


def consequences(data: ExperimentData) -> tuple[Problem, ...]:
    """Return the problems in the arms and points that the experiment leads to."""
    checks: tuple[Callable[[ExperimentData], Iterator[Problem]], ...] = (
        _frames,
        clashes,
        _points,
        _line,
        _size,
        _published,
    )
    return tuple(problem for check in checks for problem in check(data))


def _frames(data: ExperimentData) -> Iterator[Problem]:
    told: set[Loc] = set()
    for i, router in enumerate(data.routers):
        traffic = data.traffic_of(router.name)
        smallest = min(size for size, _ in traffic.frame_sizes())
        loc = _traffic_loc(data, i)
        if traffic.ip != 6 or smallest >= MIN_FRAME_BYTES[6] or loc in told:
            continue
        told.add(loc)
        what = f"frame size of {smallest} bytes with IPv6 (router {show(router.name)})"
        accepted = (
            f"{MIN_FRAME_BYTES[6]} to 1518 "
            "(Ethernet 14 + IPv6 40 + UDP 8 + signature 18 + checksum 4 = 84)"
        )
        yield Problem(loc, what, accepted)


def _traffic_loc(data: ExperimentData, router: int) -> Loc:
    """Return the location of the frame size that is in force for a router."""
    override = data.routers[router].traffic
    if override is not None and override.frame_size is not None:
        return ("routers", router, "traffic", "frame_size")
    return ("traffic", "frame_size" if "frame_size" in data.traffic.model_fields_set else "ip")


def _points(data: ExperimentData) -> Iterator[Problem]:
    seen: dict[tuple[PointRouter, ...], int] = {}
    swept = next(sweeps(data), None)
    for point in resolve_points(data):
        loc: Loc = (*swept[0], point.index) if swept else ("load",)
        if all(router.load.value == 0 for router in point.routers):
            what = f"no router is offered any load at point {point.index + 1} ({point.label})"
            yield Problem(loc, what, "a load above 0 for at least one router")
        if point.routers in seen:
            what = f"points {seen[point.routers] + 1} and {point.index + 1} are the same"
            yield Problem(loc, what, "each point once (trial.repeats measures it repeatedly)")
        seen.setdefault(point.routers, point.index)


@dataclass(frozen=True)
class Line:
    """A limit of the offered load that is known before the run, and its origin."""

    rate_bps: float
    of: str
    """Such as ``a line of 1 Gbps``."""
    capacity_pps: float | None = None
    """The capacity, 1x, if it is known before the run."""


def _line(data: ExperimentData) -> Iterator[Problem]:
    """Check the loads in pps and bps; loads in ``x`` are known only in the run."""
    line_bps = data.traffic.line_rate_bps
    yield from beyond(data, Line(line_bps, f"a line of {format_bps(line_bps)}"))


def beyond(data: ExperimentData, line: Line) -> Iterator[Problem]:
    """Yield the loads that are known to be more than a line carries."""
    # Arms that share the wires in the same way are one case: the first of them is named.
    arms = {tuple(r.wire for r in arm.routers): arm for arm in reversed(resolve_arms(data))}
    for point in resolve_points(data):
        for arm in reversed(arms.values()):
            wires: dict[str, list[PointRouter]] = defaultdict(list)
            for router in point.routers:
                of_arm = arm.router(router.group)
                wires[of_arm.wire if of_arm.shares_wire else router.name].append(router)
            worst = max(wires.values(), key=lambda routers: _wire_bps(data, routers, line))
            if _wire_bps(data, worst, line) > line.rate_bps * (1 + 1e-9):
                yield _overload(data, point, worst, arm.name if data.arms else None, line)
                break  # once for the point: the other arms would only repeat it


def _wire_bps(data: ExperimentData, routers: list[PointRouter], line: Line) -> float:
    given = line.capacity_pps
    units = {"pps", "bps"} if given is None else {"pps", "bps", "x"}
    known = [router for router in routers if router.load.unit in units]
    return sum(
        traffic.wire_bps(
            router.pattern.timing.while_sending_pps(
                router.load.to_pps(given, traffic.mean_frame_bytes), data.trial.duration_ns
            )
        )
        for router, traffic in ((r, data.traffic_of(r.group)) for r in known)
    )


def _overload(
    data: ExperimentData, point: Point, routers: list[PointRouter], arm: str | None, line: Line
) -> Problem:
    largest = max(routers, key=lambda router: _wire_bps(data, [router], line))
    traffic = data.traffic_of(largest.group)
    limit_pps = line.rate_bps / traffic.wire_bps(1.0)
    names = listed(router.name for router in routers)
    together = f"{names} together take" if len(routers) > 1 else f"{names} takes"
    where = f" in arm {show(arm)}" if arm else ""
    taken = format_bps(_wire_bps(data, routers, line))
    what = (
        f"{largest.load} for {largest.name}: {together} {taken}{where} "
        "(20 bytes of preamble and gap per frame)"
    )
    accepted = (
        f"at most {format_rate(Load(float(int(limit_pps)), 'pps'))} in total of "
        f"{traffic.mean_frame_bytes:g}-byte frames on {line.of}"
    )
    return Problem(("load", largest.group, point.index), what, accepted)


def _size(data: ExperimentData) -> Iterator[Problem]:
    points, arms, repeats = len(resolve_points(data)), len(resolve_arms(data)), data.trial.repeats
    trials = points * arms * repeats
    if trials > MAX_TRIALS:
        what = f"{points} points x {arms} arms x {repeats} repeats are {trials} trials"
        yield Problem(("trial", "repeats"), what, f"at most {MAX_TRIALS}")


def _published(data: ExperimentData) -> Iterator[Problem]:
    if data.published is None:
        return
    if data.published.capacity.value == 0 or data.published.capacity.unit == "x":
        what = f"{data.published.capacity} is not a capacity"
        yield Problem(("published", "capacity"), what, "a rate above 0 in pps or bps")
    arms = {arm.name for arm in resolve_arms(data)}
    known = [router.name for router in data.routers]
    known += [name for r in data.routers for name in r.member_names() if name not in known]
    for i, row in enumerate(data.published.rows):
        loc: Loc = ("published", "rows", i)
        yield from _published_value(row, loc)
        if row.arm in arms:  # of other set-ups nothing is known but what the row says
            names = [((*loc, "load", name), name) for name in row.load]
            names += [((*loc, "router"), row.router)] if row.router != "total" else []
            for at, name in names:
                if name not in known:
                    what = f"figure about an unknown router {show(name)}"
                    yield Problem(at, what, f"{listed(known)}, total{nearest(name, known)}")


def _published_value(row: PublishedRow, loc: Loc) -> Iterator[Problem]:
    units = UNITS_OF_METRIC[row.metric]
    if row.value is not None and row.value.unit not in units:
        examples = {"pps": "400kpps", "ratio": "61%", "ns": "85us"}
        what = f"{row.value} is not a value of {show(row.metric)}"
        yield Problem((*loc, "value"), what, f"a value such as {examples[units[0]]}")
