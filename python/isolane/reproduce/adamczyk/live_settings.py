"""Whether a run with real frames has the settings of the variant that it is to stand beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from isolane.reproduce.adamczyk.runs import load_host
from isolane.reproduce.adamczyk.spec import Sweep, Variant
from isolane.reproduce.adamczyk.variant_model import FRAME_BYTES, NS, weights_at
from isolane.results.results import RouterTrial, Trial
from isolane.spec import WIRE_OVERHEAD_BYTES, Arm, Experiment
from isolane.spec.patterns import read_pattern
from isolane.spec.policy_router import PolicyValues
from isolane.spec.work_models import DISK_WORK, NO_WORK

ON_WIRE_BYTES: Final = FRAME_BYTES + WIRE_OVERHEAD_BYTES
"""What a frame with a full datagram takes of a link."""
HIGH_MBPS: Final = 49.0
"""A credit of a higher rate is more than 20 ms of the link."""
NEAR: Final = 0.05
"""By how much a load may differ from what the link, or several of it, carries."""


def differences(experiment: Experiment, variant: Variant, trial: Trial) -> Iterator[str]:
    """Say what of an arm, at a point, is otherwise than in the variant that it stands for.

    Parameters
    ----------
    trial
        Any of that arm and point.
    """
    idle = variant.disk is not None
    sending = [router for router in trial.routers if router.offered_pps or not idle]
    names = [router.router for router in sending]
    if names != list(variant.guests):
        yield f"its routers are {', '.join(names)}, and the paper's {', '.join(variant.guests)}"
        return
    arm = next(one for one in experiment.resolved_arms() if one.name == trial.arm)
    yield from _of_uplink(arm, variant)
    if variant.sweep is not None:
        yield from _of_sweep(arm, variant.sweep, round(experiment.trial.duration_ns / 1e9))
    for router in trial.routers:
        vm = router.router
        size = experiment.traffic_of(vm).frame_size
        if (router.kind, router.path, size) != ("vm", "netback", FRAME_BYTES):
            yield f"{vm} is a {router.kind} on {router.path} with frames of {size} bytes"
    yield from _of_loads(experiment, variant, sending)
    yield from _of_rates(arm, variant)
    yield from _of_disk(experiment, arm, variant)


def _of_uplink(arm: Arm, variant: Variant) -> Iterator[str]:
    scheduler: str = variant.scheduler
    if scheduler == "credit" and variant.random:
        scheduler = "credit-random"
    rates = [guest.rate_max for guest in variant.guests.values() if guest.rate_max is not None]
    for what, has, wanted in (
        ("uplink_burst", arm.uplink.burst_ns, _burst_ns(max(rates)) if rates else None),
        ("scheduler", arm.uplink.scheduler, scheduler),
        ("back_pressure", arm.uplink.back_pressure, variant.look),
        ("uplink_rate", arm.uplink.rate_bps, load_host(None).link_mbps * 1e6),
    ):
        if has != wanted:
            yield f"{what} is {has}, and the paper's {wanted}"


def _burst_ns(rate_mbps: float) -> int:
    """Return what a link takes at once so that the credit of one guest with a rate fits."""
    return 50_000_000 if rate_mbps > HIGH_MBPS else 20_000_000


def _of_loads(
    experiment: Experiment, variant: Variant, sending: Sequence[RouterTrial]
) -> Iterator[str]:
    link_pps = load_host(None).link_mbps * 1e6 / 8 / ON_WIRE_BYTES
    for router, (vm, guest) in zip(sending, variant.guests.items(), strict=True):
        timing = read_pattern(router.pattern).timing
        start_s, kind = timing.from_ns / 1e9, timing.kind
        if start_s != guest.start or kind not in ("constant", "from"):
            yield f"{vm} sends {router.pattern}, and the paper's from {guest.start:g} s on"
            return
        sends = timing.while_sending_pps(router.offered_pps, experiment.trial.duration_ns)
        if abs(sends / (link_pps * guest.connections) - 1) > NEAR:
            many = f"{guest.connections} times " if guest.connections > 1 else ""
            yield f"{vm} is offered {sends:.0f} pps, and the paper's {many}what the link carries"


def _of_rates(arm: Arm, variant: Variant) -> Iterator[str]:
    for vm, guest in variant.guests.items():
        policy = arm.router(vm).policy or PolicyValues()
        rate_max = policy.rate_max.egress
        has_bps = rate_max.bps if rate_max is not None else None
        wanted_bps = guest.rate_max * 1e6 if guest.rate_max is not None else None
        if has_bps != wanted_bps:
            yield f"rate_max of {vm} is {has_bps} bit/s, and the paper's {wanted_bps}"


def _of_disk(experiment: Experiment, arm: Arm, variant: Variant) -> Iterator[str]:
    disk = variant.disk
    wanted = [] if disk is None else [((DISK_WORK,), round(disk.start * NS), round(disk.stop * NS))]
    working = [router for router in experiment.routers if set(router.work) != {NO_WORK}]
    if [(r.work, r.work_from_ns, r.work_until_ns) for r in working] != wanted:
        yield "no other machine reads its disk when the paper's does" if wanted else "routers work"
        return
    if disk is None:
        return
    sends, reads = (
        (arm.router(vm).policy or PolicyValues()).cpu_weight
        for vm in (next(iter(variant.guests)), working[0].name)
    )
    if reads > sends or (reads < sends) != disk.protected:
        yield f"the machine that reads has cpu_weight {reads}, and the other one {sends}"


def _of_sweep(arm: Arm, sweep: Sweep, seconds: int) -> Iterator[str]:
    first = {router.group: router.policy for router in arm.routers}
    moments = [(0, first), *((moment.at_ns, moment.policies) for moment in arm.changes)]
    has = [(at_ns, _weights(list(policies.values()))) for at_ns, policies in moments]
    wanted = [(i * 1_000_000_000, weights_at(sweep, i, seconds)) for i in range(seconds)]
    if has != wanted:
        yield "weights do not change as the paper's, a step each second"


def _weights(policies: Sequence[PolicyValues | None]) -> tuple[int, ...]:
    return tuple((policy or PolicyValues()).link_weight for policy in policies)
