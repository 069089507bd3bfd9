"""Checks of web requests: who can be a load balancer, and how much it can be asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from isolane.spec.arms import ArmRouter, resolve_router
from isolane.spec.load_points import patterns_of
from isolane.spec.models import ArmChange, ExperimentData
from isolane.spec.problems import Loc, Problem, show
from isolane.spec.units import RATES_ACCEPTED, REQUEST_RATES_ACCEPTED

_KINDS: Final = {"native": ("none",), "container": ("direct", "bridge", "macvlan")}
"""Of routers that can be load balancers, with their paths."""
_KEYS: Final = {"object_bytes": "object", "keep_alive": "keep_alive"}
_FRAMES: Final = {"frame_size": "frame_size", "flows": "flows", "line_rate_bps": "line_rate"}
_CLOSED: Final = "a number of requests that are always under way, such as 64conn"
_TIMINGS: Final = ("constant", "poisson")


def web_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield what does not go together with web requests, or without them."""
    web = {r.name for r in data.routers if data.traffic_of(r.name).mode == "http"}
    yield from _keys(data, web)
    yield from _configurations(data, web)
    yield from _loads(data, web)
    if not web:
        return
    for i, router in enumerate(data.routers):
        loc: Loc = ("routers", i, "traffic", "mode")
        if router.name not in web:
            what = f"mode {data.traffic_of(router.name).mode} of {show(router.name)} beside http"
            yield Problem(loc, what, "mode http for all routers, or for none")
        for pattern in patterns_of(router):
            if pattern.timing.kind not in _TIMINGS:
                what = f"pattern {pattern} of {show(router.name)} with mode http"
                yield Problem(("routers", i, "traffic", "pattern"), what, " or ".join(_TIMINGS))
    if data.trial.stamps:
        what = "capture points with mode http: they look for frames of the generator"
        key = "capture" if data.trial.capture else "capture_points"
        yield Problem(("trial", key), what, "false")
    for i, objective in enumerate(data.objectives):
        if objective.metric == "throughput":
            what = f"objective {show(objective.text)} with mode http"
            yield Problem(("objectives", i), what, "delivered, retained, loss, or a response time")
    yield from _of_frames(data)
    yield from _arms(data, web)


def _of_frames(data: ExperimentData) -> Iterator[Problem]:
    """Yield keys of frames, which mean nothing for web objects."""
    if data.published is not None:
        yield Problem(("published",), "published figures with mode http", "none")
    if data.capacity is not None:
        what = "capacity with mode http: nothing is asked in multiples of it"
        yield Problem(("capacity",), what, "leave capacity out")
    for field, key in _FRAMES.items():
        if getattr(data.traffic, field) != type(data.traffic).model_fields[field].default:
            yield Problem(("traffic", key), f"{key} with mode http", f"leave {key} out")
        for i, router in enumerate(data.routers):
            if router.traffic is not None and getattr(router.traffic, field, None) is not None:
                loc: Loc = ("routers", i, "traffic", key)
                yield Problem(loc, f"{key} with mode http", f"leave {key} out")


def _keys(data: ExperimentData, web: Collection[str]) -> Iterator[Problem]:
    for field, key in _KEYS.items():
        default = type(data.traffic).model_fields[field].default
        if getattr(data.traffic, field) != default and not web:
            yield Problem(("traffic", key), f"{key} without mode http", f"leave {key} out")
        for i, router in enumerate(data.routers):
            given = router.traffic is not None and getattr(router.traffic, field) is not None
            if given and router.name not in web:
                what = f"{key} of {show(router.name)}, whose mode is not http"
                yield Problem(("routers", i, "traffic", key), what, f"leave {key} out")


def _configurations(data: ExperimentData, web: Collection[str]) -> Iterator[Problem]:
    for i, router in enumerate(data.routers):
        if router.haproxy is not None and router.name not in web:
            what = f"haproxy of {show(router.name)}, whose mode is not http"
            yield Problem(("routers", i, "haproxy"), what, "traffic.mode: http, or leave it out")
    for i, change in enumerate(data.arms):
        if change.haproxy is not None and not web:
            what = f"haproxy of arm {show(change.name)} without mode http"
            yield Problem(("arms", i, "haproxy"), what, "traffic.mode: http, or leave it out")


def _loads(data: ExperimentData, web: Collection[str]) -> Iterator[Problem]:
    for router in data.routers:
        loads = data.load.get(router.name, ())
        for step, load in enumerate(loads):
            loc: Loc = ("load", router.name, step) if len(loads) > 1 else ("load", router.name)
            if router.name in web and load.unit not in ("rps", "conn"):
                what = f"load {load} of {show(router.name)}, which is asked for web objects"
                yield Problem(loc, what, f"{REQUEST_RATES_ACCEPTED}; or {_CLOSED}")
            if router.name in web and load.unit == "conn" and router.role == "victim":
                what = f"load {load} of {show(router.name)}, a victim: slow answers would spare it"
                yield Problem(loc, what, REQUEST_RATES_ACCEPTED)
            shared = [n for n in router.count if load.unit == "conn" and load.value % n]
            if shared:
                what = f"load {load} of {show(router.name)}, divided among {shared[0]}"
                yield Problem(loc, what, f"a multiple of {shared[0]}, such as {shared[0]}conn")
            if router.name not in web and load.unit in ("rps", "conn"):
                what = f"load {load} of {show(router.name)}, which is sent frames"
                yield Problem(loc, what, f"{RATES_ACCEPTED}; or traffic.mode: http")


def _arms(data: ExperimentData, web: Collection[str]) -> Iterator[Problem]:
    changes: tuple[ArmChange | None, ...] = data.arms or (None,)
    for i, change in enumerate(changes):
        for j, router in enumerate(data.routers):
            loc: Loc = ("arms", i) if change else ("routers", j)
            suffix = f" in arm {show(change.name)}" if change else ""
            if router.name in web:
                yield from _of_router(resolve_router(router, change), suffix, loc)


def _of_router(router: ArmRouter, suffix: str, loc: Loc) -> Iterator[Problem]:
    paths = _KINDS.get(router.kind)
    if paths is None or router.path not in paths:
        what = f"{router.kind} {show(router.group)} on path {router.path} with mode http{suffix}"
        accepted = "native, or container on path direct, bridge or macvlan"
        yield Problem(loc, what, accepted)
    elif router.policy is not None:
        what = f"a policy of {show(router.group)} with mode http{suffix}"
        yield Problem(loc, what, "no policy")
