"""Builds experiments on a test bed that mirrors a policy. Pure.

Each router becomes a container on path isolane with the same policy; one wire stands for the
NIC that they share. Core numbers become positions in the
list of the test bed's cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isolane.enforce.fair_share import Link, wants_link
from isolane.spec import Dut, Experiment, Load, Policy, Router, Traffic
from isolane.spec.policy_models import ALONE

LINE_BPS = 10e9
"""Rate of the test bed's wire where neither the policy nor the NIC's driver says one."""


@dataclass(frozen=True)
class Mirror:
    """Some routers of a policy as an experiment."""

    experiment: Experiment
    names: dict[str, str]
    """Router of the policy -> router of the test bed, whose names are shorter."""


def cores_of(policy: Policy, routers: tuple[str, ...]) -> tuple[int, ...]:
    """Return all cores that any of the routers is pinned to; empty if none is pinned."""
    return tuple(sorted({core for name in routers for core in policy.routers[name].cores}))


def mirror(
    policy: Policy,
    routers: tuple[str, ...],
    *,
    frame_bytes: int,
    line_bps: float,
    fold: bool = False,
) -> Mirror:
    """Return an experiment with some of a policy's routers.

    Parameters
    ----------
    frame_bytes
        Size of all frames, with the checksum.
    line_bps
        Rate of the test bed's wire, bit/s.
    fold
        Put all routers on one core, for promises that do not concern cores.
    """
    cores = () if fold else cores_of(policy, routers)
    names = {name: f"r{number + 1}" for number, name in enumerate(routers)}
    entries = []
    for name in routers:
        router = policy.routers[name]
        positions = tuple(cores.index(core) for core in router.cores) if cores else ()
        cap = min(100.0, router.cpu_max) if fold and router.cpu_max else router.cpu_max
        keys = router.model_copy(update={"cores": positions, "cpu_max": cap}).as_keys()
        entries.append(Router.model_construct(name=names[name], path="isolane", policy=keys))
    experiment = Experiment.model_construct(
        isolane=1,
        name="verify",
        title="verify",
        dut=Dut(cores=max(1, len(cores))),
        traffic=Traffic.model_construct(
            frame_size=frame_bytes, line_rate_bps=float(round(line_bps))
        ),
        routers=tuple(entries),
        load=dict.fromkeys(names.values(), (Load(1.0, "pps"),)),
    )
    return Mirror(Experiment.model_validate(experiment), names)


def links_of(policy: Policy, routers: tuple[str, ...]) -> tuple[dict[str, Link], dict[str, str]]:
    """Return the NICs whose link the policy divides among routers.

    Returns
    -------
    links, unknown
        Links by NIC; and for NICs of unknown rate why their promises cannot be measured.
    """
    links, unknown = {}, {}
    for nic in policy.nics:
        members = tuple(name for name in routers if _leaves_by(policy, name, nic))
        if not any(wants_link(policy.routers[name]) for name in members):
            continue
        rate_bps = policy.nics[nic].rate_bps or _speed_bps(nic)
        if rate_bps is None:
            unknown[nic] = (
                f"the rate of {nic} is not known on this host; set nics.{nic}.rate in the policy"
            )
        links[nic] = Link(nic, round((rate_bps or LINE_BPS) / 8), members)
    return links, unknown


def whole_line_bps(policy: Policy) -> float:
    """Return the rate of one wire that stands for all NICs of the policy, bit/s."""
    rates = [nic.rate_bps or _speed_bps(name) for name, nic in policy.nics.items()]
    return sum(rate or LINE_BPS for rate in rates) or LINE_BPS


def _leaves_by(policy: Policy, router: str, nic: str) -> bool:
    """Tell whether a router may send by a NIC: by any, where the policy names none."""
    if policy.routers[router].identity[0] in ALONE:
        return False
    named = policy.nics_of(router)
    return nic in named if named else True


def _speed_bps(nic: str) -> float | None:
    """Return the speed that the driver of an interface of this host reports, bit/s."""
    try:
        speed = int(Path("/sys/class/net", nic, "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * 1e6 if speed > 0 else None
