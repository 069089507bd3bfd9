"""Checks of traffic patterns and modes: do they fit the routers, and what is measured?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Literal

from isolane.spec.arms import resolve_arms
from isolane.spec.fields import Mode
from isolane.spec.load_points import patterns_of
from isolane.spec.models import ExperimentData, Router
from isolane.spec.patterns import CONSTANT, ENDING, FRAME_KINDS, FrameKind, Pattern
from isolane.spec.problems import Loc, Problem, listed, show
from isolane.spec.units import format_duration_ns

_NEVER_ANSWERED: Final[dict[Mode, tuple[FrameKind, ...]]] = {
    "forward": (),
    # Flows beyond those of one port are for other ports, at which nobody listens.
    "echo": ("new-flows", "fragments", *ENDING),
    "icmp-echo": ("fragments", *ENDING),
    "http": FRAME_KINDS,
}
"""Frames that end in a router without an answer to who sent them, by its mode."""
MAX_ECHO_FLOWS: Final = 50_000
"""Flows to one UDP port: the generator's next ones are to the port after it."""
_PASSED_ON = (CONSTANT, *(kind for kind in FRAME_KINDS if kind not in ENDING))


def pattern_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of the traffic patterns of an experiment."""
    external = {r.group for arm in resolve_arms(data) for r in arm.routers if r.kind == "external"}
    yield from _modes(data, external)
    for i, router in enumerate(data.routers):
        patterns = patterns_of(router)
        for step, pattern in enumerate(patterns):
            loc: Loc = ("routers", i, "traffic", "pattern")
            at = (*loc, step) if len(patterns) > 1 else loc
            yield from _of_router(data, router, pattern, at)
            if "no-route" in pattern.frames and router.name in external:
                what = f"pattern no-route of {show(router.name)}, an external router: its frames "
                what += "might find a route, and leave the host"
                yield Problem(at, what, "another pattern")


def _of_router(
    data: ExperimentData, router: Router, pattern: Pattern, loc: Loc
) -> Iterator[Problem]:
    name = show(router.name)
    mode = data.traffic_of(router.name).mode
    if any(kind in _NEVER_ANSWERED[mode] for kind in pattern.frames):
        what = f"pattern {pattern} of {name} with mode {mode}: nobody answers such frames"
        yield Problem(loc, what, "another pattern, or mode: forward")
    if pattern.ends and router.role == "victim":
        what = f"pattern {pattern} of {name}, a victim, whose frames are to come back"
        yield Problem(loc, what, listed(_PASSED_ON))
    if pattern.timing.from_ns >= data.trial.duration_ns:
        window = format_duration_ns(data.trial.duration_ns)
        what = f"pattern {pattern} of {name} with a window of {window}: it would send nothing"
        yield Problem(loc, what, "an earlier time, or a longer trial.duration")
    if "fragments" in pattern.frames and data.traffic.ip == 6:
        what = f"pattern fragments of {name} with IPv6"
        yield Problem(loc, what, "another pattern, or traffic.ip: 4")


def _modes(data: ExperimentData, external: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of modes: Isolane starts no server in what it has not set up itself."""
    imaged = {r.group for arm in resolve_arms(data) for r in arm.routers if r.image is not None}
    for i, router in enumerate(data.routers):
        traffic, name = data.traffic_of(router.name), show(router.name)
        if traffic.mode != "echo":
            continue
        if traffic.flows > MAX_ECHO_FLOWS:
            what = f"{traffic.flows} flows of {name} with mode echo"
            yield Problem(_where(data, i, "flows"), what, f"1 to {MAX_ECHO_FLOWS}")
        for groups, why in (
            (external, "an external router"),
            (imaged, "which starts from an image"),
        ):
            if router.name in groups:
                what = f"mode echo of {name}, {why}"
                yield Problem(_where(data, i, "mode"), what, "icmp-echo, forward")


def _where(data: ExperimentData, router: int, key: Literal["mode", "flows"]) -> Loc:
    """Return where a router's key of traffic stands: with the router, or with all of them."""
    override = data.routers[router].traffic
    own = override is not None and getattr(override, key) is not None
    return ("routers", router, "traffic", key) if own else ("traffic", key)
