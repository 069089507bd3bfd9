"""Shares of a core, caps and ceilings under a policy, each beside a router that wants more."""

from __future__ import annotations

import time

from isolane.stats.promises import Bar

from acceptance.subject import Figures, Promise, Subject
from acceptance.subjects.rigs import FAST_PPS, STEADY_S, on_rig, steady
from tests import soak
from tests.enforce.rig import Rig

OF_FOUR_TO_ONE = "a weight of 4:1 gives 80 % of the work caused"
UNUSED = "what one leaves, the other gets"
CAP, CAP_PERCENT = "cpu_max 5 % is not exceeded", 5
UNCAPPED = "without it the router takes more than twice as much"
LIGHT_PPS = 400e3
"""More than a fifth of a core forwards; telling as many frames apart takes less than a fifth."""
KEPT_BESIDE = "a router within its share keeps 99 % beside a program"
WITHIN_PPS, MORE_PPS, LOOKED_S = 100e3, 250e3, 0.2
"""Loads that the core can do, but not beside a program that wants all of it; and a time in which
the pacemaker has seen that program."""
KEPT_AFTER = "routers that the core has time for keep 99 % after pauses"
TOGETHER_PPS = 240e3
FRAMES_PPS = 20e3
BITS_PPS = 20e6 / (84 * 8)
"""64-byte frames with preamble and gap on a link of 20 Mbit/s."""
KEPT = "the ceiling is reached, and no more"


def weights(rig: Rig) -> Figures:
    """Overload both, then the lesser one alone."""
    before = _caused_ns(rig)
    both = rig.offer({"vr1": 2 * FAST_PPS, "vr2": LIGHT_PPS})
    used = {name: ns - before[name] for name, ns in _caused_ns(rig).items()}
    share = used["vr1"] / max(1, sum(used.values()))
    alone = rig.offer({"vr2": FAST_PPS})
    return {
        OF_FOUR_TO_ONE: [abs(share - 0.8)],
        UNUSED: [alone.rate("vr2") / max(1.0, both.rate("vr2"))],
    }


def _caused_ns(rig: Rig) -> dict[str, int]:
    """Return the CPU time that each router has caused: its own, and the NIC's for its frames."""
    sample = rig.enforcer.sample()
    assert sample is not None
    return {router.name: router.cpu_ns + (router.nic_cpu_ns or 0) for router in sample.routers}


def cap(rig: Rig) -> Figures:
    """Overload a router with its cap, then without it."""
    capped = _core_share(rig)
    rig.enforcer.set_keys("vr1", {"cpu_max": "none"})
    free = _core_share(rig)
    rig.enforcer.set_keys("vr1", {"cpu_max": f"{CAP_PERCENT}%"})
    return {CAP: [capped], UNCAPPED: [free / capped]}


def _core_share(rig: Rig) -> float:
    """Return the share of a core that the overloaded router's threads use."""
    before = _cpu_ns(rig, "vr1")
    trial = rig.offer({"vr1": FAST_PPS, "vr2": 1e3}, 1.0)
    return (_cpu_ns(rig, "vr1") - before) / 1e9 / trial.seconds


def _cpu_ns(rig: Rig, name: str) -> int:
    sample = rig.enforcer.sample()
    assert sample is not None
    return next(router.cpu_ns for router in sample.routers if router.name == name)


def beside_a_program(rig: Rig) -> Figures:
    """Offer both the same without a program on their core and with one."""
    loads = {"vr1": WITHIN_PPS, "vr2": MORE_PPS}
    alone = rig.offer(loads, 1.0)
    with soak.disturbed({rig.core}, soak.BUSY):
        time.sleep(LOOKED_S)
        beside = rig.offer(loads, 1.0)
    return {KEPT_BESIDE: [beside.rate("vr1") / max(1.0, alone.rate("vr1"))]}


def after_pauses(rig: Rig) -> Figures:
    """Offer all what the core can do, once it has been taken away for some moments."""
    loads = dict.fromkeys(rig.routers, TOGETHER_PPS / len(rig.routers))
    with soak.disturbed({rig.core}, soak.TAKEN):
        rig.offer(loads, 0.5)
    after = rig.offer(loads, 1.0)
    return {KEPT_AFTER: [min(after.received[name] / after.sent[name] for name in loads)]}


def ceiling(name: str, keys: str, pps: float) -> Subject:
    """Return what offers four times a ceiling and tells by how much the rate misses it."""

    def measure(rig: Rig) -> Figures:
        rates = steady(rig, {"vr1": 4 * pps, "vr2": 5e3})
        return {KEPT: [abs(rates["vr1"] / pps - 1)]}

    promise = Promise(KEPT, Bar(0.0, 0.01, at_most=True))
    return Subject(name, (promise,), on_rig(measure, vr1=keys), STEADY_S)


SUBJECTS = (
    Subject(
        "cpu weights",
        (
            Promise(OF_FOUR_TO_ONE, Bar(0.0, 0.01, at_most=True)),
            Promise(UNUSED, Bar(1.5, 0.0)),
        ),
        on_rig(weights, vr1="cpu_weight: 400"),
        0.9,
    ),
    Subject(
        "cpu cap",
        (
            Promise(CAP, Bar(CAP_PERCENT / 100, 0.02, at_most=True)),
            Promise(UNCAPPED, Bar(2.0, 0.0)),
        ),
        on_rig(cap, vr1=f"cpu_max: {CAP_PERCENT}%"),
        2.5,
    ),
    Subject(
        "beside a program",
        (Promise(KEPT_BESIDE, Bar(0.99, 0.01)),),
        on_rig(beside_a_program),
        2.8,
    ),
    Subject(
        "after pauses",
        (Promise(KEPT_AFTER, Bar(0.99, 0.01)),),
        on_rig(after_pauses),
        1.7,
    ),
    Subject(
        "many after pauses",
        (Promise(KEPT_AFTER, Bar(0.99, 0.01)),),
        on_rig(after_pauses, "10Gbps", 8),
        1.7,
    ),
    ceiling("rate_max in frames", "rate_max: 20kpps", FRAMES_PPS),
    ceiling("rate_max in bits", "rate_max: 20Mbps", BITS_PPS),
    ceiling("rate_max ingress in frames", "rate_max: {ingress: 20kpps}", FRAMES_PPS),
    ceiling("rate_max ingress in bits", "rate_max: {ingress: 20Mbps}", BITS_PPS),
)
