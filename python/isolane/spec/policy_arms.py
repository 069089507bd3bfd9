"""Checks of policies in experiments: do they fit the arms, the cores and the line?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from isolane.spec.arms import Arm, ArmRouter, resolve_arms
from isolane.spec.kinds import runs_live
from isolane.spec.models import ExperimentData
from isolane.spec.policy_checks import of_one_router
from isolane.spec.policy_models import CPU_KEYS, LINK_KEYS
from isolane.spec.policy_router import PolicyValues, policy_values
from isolane.spec.port_keys import port_keys, port_keys_of
from isolane.spec.problems import Loc, Problem, Refused, listed, nearest, show
from isolane.spec.schedulers import SchedulerName
from isolane.spec.units import format_bps, format_duration_ns, read_bit_rate

OWN_WIRE_KEYS: Final = ("cpu_weight", "cores")
"""Keys of the policy of a router whose wire is its own: no demultiplexer is there that would drop
or delay frames, and no cgroup caps the kernel thread that takes them off the wire."""
OWN_LINK_KEYS: Final = ("rate_max", "burst")
"""Those that a virtual machine has besides all of the CPU's, its threads being its own: it sends by
that wire alone."""
NOT_OF_MACHINES: Final = ("forward",)
"""Keys that a virtual machine on path isolane cannot have: its own kernel forwards."""


def misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of the policies of an experiment."""
    arms = resolve_arms(data)
    yield from _misplaced(data, arms)
    told: set[str] = set()
    for i, arm in enumerate(arms):
        changing = _changing(data, arm, i) if data.arms else ()
        for problem in (*_within_routers(data, arm, i), *_on_the_line(data, arm, i), *changing):
            if str(problem) not in told:  # what the routers bring along is wrong in every arm
                told.add(str(problem))
                yield problem


def _misplaced(data: ExperimentData, arms: tuple[Arm, ...]) -> Iterator[Problem]:
    """Yield policies of routers that do not exist, or that are under a policy in no arm."""
    known = [router.name for router in data.routers]
    managed = {r.group for arm in arms for r in arm.routers if r.policy is not None}
    for j, router in enumerate(data.routers):
        if router.policy is not None and router.name not in managed:
            what = f"policy of router {show(router.name)}, which never has path isolane"
            accepted = "path isolane, for it or for an arm, or an arm with path direct and a policy"
            yield Problem(("routers", j, "policy"), what, accepted)
    for i, change in enumerate(data.arms):
        for name in change.policy or ():
            loc: Loc = ("arms", i, "policy", name)
            if name not in known:
                what = f"policy of an unknown router {show(name)}"
                yield Problem(loc, what, listed(known) + nearest(name, known))
            elif arms[i].router(name).policy is None:
                path = arms[i].router(name).path
                what = f"policy of router {show(name)}, whose path is {path} in this arm"
                yield Problem(loc, what, "a policy where the path is isolane or direct")


def _unkept(
    router: ArmRouter, policy: PolicyValues, scheduler: SchedulerName, loc: Loc
) -> Iterator[Problem]:
    """Yield the policy keys that nobody keeps of a router of this kind on this path."""
    given = policy.as_keys().model_dump(exclude_none=True)
    machine = router.kind == "vm"
    if router.path == "isolane":
        for key in NOT_OF_MACHINES if machine else ():
            if key in given:
                what = f"{key} of router {show(router.group)}, a virtual machine on path isolane"
                yield Problem((*loc, key), what, f"all keys but {listed(NOT_OF_MACHINES)}")
        return
    if router.path == "netback":
        yield from _unkept_by_port(router.group, policy, scheduler, loc)
        return
    kept = _kept(router)
    of = f"of router {show(router.group)}, {'a virtual machine ' if machine else ''}on path"
    for key in given:
        if key not in kept:
            what = f"{key} {of} {router.path}"
            yield Problem((*loc, key), what, f"{listed(kept)}: the rest is kept on path isolane")
        elif key == "rate_max":
            yield from _beyond_classes(policy, f"{of} {router.path}", (*loc, key))


def _kept(router: ArmRouter) -> tuple[str, ...]:
    """Return the keys that are kept of a router whose frames no demultiplexer tells apart."""
    if not router.shares_wire:
        return (*CPU_KEYS, *OWN_LINK_KEYS) if router.kind == "vm" else OWN_WIRE_KEYS
    return (*CPU_KEYS, *LINK_KEYS) if runs_live(router.kind, router.path) else CPU_KEYS


def _beyond_classes(policy: PolicyValues, of: str, loc: Loc) -> Iterator[Problem]:
    """Yield limits that no class of a link keeps."""
    sent = policy.rate_max.egress
    if policy.rate_max.ingress is not None:
        yield Problem(loc, f"rate_max.ingress {of}", "rate_max: RATE, of what the router sends")
    if sent is not None and sent.pps is not None:
        yield Problem(loc, f"rate_max {of}, in frames per second", "a rate in bit/s")


def _unkept_by_port(
    group: str,
    policy: PolicyValues,
    scheduler: SchedulerName,
    loc: Loc,
    others: tuple[str, ...] = CPU_KEYS,
) -> Iterator[Problem]:
    """Yield the policy keys that neither a network back-end keeps nor others."""
    kept = (*others, *port_keys_of(scheduler))
    for key in policy.as_keys().model_dump(exclude_none=True):
        if key not in kept:
            what = f"{key} of router {show(group)}, on path netback with scheduler {scheduler}"
            yield Problem((*loc, key), what, listed(kept))
    for key, limit in (("rate_min", policy.rate_min), ("rate_max", policy.rate_max.egress)):
        in_frames = limit is not None and getattr(limit, "unit", None) == "pps"
        if in_frames or getattr(limit, "pps", None) is not None:
            what = f"{key} of router {show(group)} in frames per second, on path netback"
            yield Problem((*loc, key), what, "a rate in bit/s")
    for key, text in port_keys(policy, scheduler).items():
        if isinstance(text, str):
            try:
                read_bit_rate(text)
            except Refused as refused:
                what = f"{refused.problem.what}, on path netback"
                yield Problem((*loc, key), what, refused.problem.accepted)
    if policy.rate_max.ingress is not None:
        what = f"rate_max.ingress of router {show(group)}, on path netback"
        yield Problem((*loc, "rate_max"), what, "rate_max: RATE, of what the router sends")


def _changing(data: ExperimentData, arm: Arm, number: int) -> Iterator[Problem]:
    """Yield what is wrong with shares that change while a trial runs."""
    known = [router.name for router in data.routers]
    last_ns = -1
    for i, moment in enumerate(data.arms[number].changes):
        loc: Loc = ("arms", number, "changes", i)
        if not last_ns < moment.at_ns < data.trial.duration_ns:
            what = f"a change at {format_duration_ns(moment.at_ns)}"
            accepted = "times one after the other, before the trial ends (trial.duration)"
            yield Problem((*loc, "at"), what, accepted)
        last_ns = moment.at_ns
        for name, keys in moment.policy.items():
            here = (*loc, "policy", name)
            if name not in known:
                what = f"policy of an unknown router {show(name)}"
                yield Problem(here, what, listed(known) + nearest(name, known))
            elif arm.router(name).path != "netback":
                what = f"a change of router {show(name)}, whose path is {arm.router(name).path}"
                yield Problem(here, what, "path netback")
            else:
                policy, scheduler = policy_values(keys), arm.uplink.scheduler
                yield from _unkept_by_port(name, policy, scheduler, here, ())
                yield from of_one_router(here, arm.changes[i].policies[name])
        yield from _sum_fits(
            data, arm, arm.changes[i].policies, dict.fromkeys(known, (*loc, "policy"))
        )


def _within_routers(data: ExperimentData, arm: Arm, number: int) -> Iterator[Problem]:
    """Yield contradictions within a router's policy in an arm."""
    for j, router in enumerate(arm.routers):
        if router.policy is None:
            continue
        loc = _location(data, number, j, router.group)
        yield from of_one_router(loc, router.policy)
        yield from _unkept(router, router.policy, arm.uplink.scheduler, loc)
        for core in router.policy.cores:
            if core >= arm.cores:
                what = f"core {core} of router {show(router.group)} in arm {show(arm.name)}"
                positions = "0" if arm.cores == 1 else f"0 to {arm.cores - 1}"
                accepted = f"{positions}: positions among the DUT's cores (dut.cores)"
                yield Problem((*loc, "cores"), what, accepted)


def _on_the_line(data: ExperimentData, arm: Arm, number: int) -> Iterator[Problem]:
    """Yield guarantees that the wire cannot hold."""
    policies = {router.group: router.policy for router in arm.routers if router.policy}
    locations = {
        router.group: (*_location(data, number, j, router.group), "rate_min")
        for j, router in enumerate(arm.routers)
    }
    yield from _sum_fits(data, arm, policies, locations)


def _sum_fits(
    data: ExperimentData,
    arm: Arm,
    policies: Mapping[str, PolicyValues],
    locations: Mapping[str, Loc],
) -> Iterator[Problem]:
    """Yield guarantees that the wire cannot hold together; told where the largest one is."""
    line_bps = arm.uplink.rate_bps or data.traffic.line_rate_bps
    promised = {
        group: policy.rate_min_bps * max(data.router(group).count)
        for group, policy in policies.items()
        if policy.rate_min_bps is not None
    }
    total_bps = sum(promised.values())
    if total_bps > line_bps * (1 + 1e-9):
        largest = max(promised, key=lambda group: promised[group])
        of = f" of {listed(promised)} adds up to" if len(promised) > 1 else " is"
        what = f"rate_min{of} {format_bps(total_bps)}"
        key = "uplink_rate" if arm.uplink.rate_bps else "traffic.line_rate"
        accepted = f"at most the line's {format_bps(line_bps)} in all ({key})"
        yield Problem(locations[largest], what, accepted)


def _location(data: ExperimentData, arm: int, router: int, name: str) -> Loc:
    """Return where a router's policy stands: the arm's, if it has one of its own there."""
    if data.arms and name in (data.arms[arm].policy or {}):
        return ("arms", arm, "policy", name)
    return ("routers", router, "policy")
