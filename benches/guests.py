"""Routers as virtual machines beside the same router as a container: start, memory, rate, delay."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from isolane.guests import kvm
from isolane.procfs import memory_info
from isolane.testbed import UML, Journal, Machine, Testbed
from isolane.trials.live.cores import staying_on

from benches import beds
from benches.common import (
    GENERATOR_CORE,
    Check,
    Options,
    Outcome,
    main,
    median,
    spread,
)

MODERATION_NS = 50_000
OVERLOADS_PPS = (300_000.0, 150_000.0, 75_000.0, 40_000.0, 10_000.0)
"""What guests under QEMU are offered in turn; the others the first alone. The best is told."""
LIGHT = 0.1
"""Load at which delays are measured, of what the router forwards of an overload."""
MANY = 8
ONE_S, MANY_S, REMOVE_S = 3.0, 12.0, 2.0


@dataclass(frozen=True)
class Variant:
    """A sort of router on a path."""

    name: str
    kind: str
    path: str
    machine: Machine = UML


_TCG = (Machine("tcg", "virtio"), Machine("tcg", "e1000"))
VARIANTS = (
    Variant("container, direct", "container", "direct"),
    *(Variant(f"uml, {path}", "vm", path) for path in ("tap", "bridge", "macvtap")),
    Variant("uml, netback", "vm", "netback", Machine("uml", "virtio")),
    Variant("tcg virtio, netback", "vm", "netback", _TCG[0]),
    *(Variant(f"tcg {m.nic}, {path}", "vm", path, m) for m in _TCG for path in ("tap", "macvtap")),
)
KVM = tuple(
    Variant(f"kvm {nic}, tap", "vm", "tap", Machine("kvm", nic)) for nic in ("virtio", "e1000")
)
"""Where it works."""


@dataclass
class Figures:
    """Of one variant, a value a round; times in s, memory in MiB."""

    one_s: list[float] = field(default_factory=list)
    many_s: list[float] = field(default_factory=list)
    remove_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    """Each router's: by how much less was free with all of them than before."""
    rate_pps: list[float] = field(default_factory=list)
    cpu_ns: list[float] = field(default_factory=list)
    """For a frame that is forwarded, under overload."""
    p50_ns: list[float] = field(default_factory=list)
    p99_ns: list[float] = field(default_factory=list)


def free_mb() -> float:
    """Return the memory that is free or could be, MiB."""
    return memory_info()["MemAvailable"] / 2**20


@contextlib.contextmanager
def built(variant: Variant, routers: int, journal: Journal) -> Iterator[float]:
    """Build a test bed; tells how long that took, s."""
    begun = time.monotonic()
    plan = beds.plan(variant.kind, variant.path, routers, "softirq", MODERATION_NS, variant.machine)
    with Testbed(plan, journal):
        yield time.monotonic() - begun


def build(variant: Variant, found: Figures, journal: Journal) -> None:
    """Start one router and many, and end them."""
    with built(variant, 1, journal) as seconds:
        found.one_s.append(seconds)
    before_mb = free_mb()
    with built(variant, MANY, journal) as seconds:
        found.many_s.append(seconds)
        found.memory_mb.append((before_mb - free_mb()) / MANY)
        ending = time.monotonic()
    found.remove_s.append(time.monotonic() - ending)


def forward(variant: Variant, found: Figures, journal: Journal, seconds: float) -> None:
    """Overload a router, then offer it a tenth of what it forwarded."""
    arm = beds.Arm(variant.path, ("",), kind=variant.kind, machine=variant.machine)
    with beds.bed(arm, journal, seconds) as bed:
        # A guest in a receive livelock forwards less of more.
        loads = OVERLOADS_PPS[:1] if variant.machine == UML else OVERLOADS_PPS
        tried = [bed.offer((load,)).routers[0] for load in loads]
        full = max(tried, key=lambda router: router.received_pps)
        found.rate_pps.append(full.received_pps)
        if full.cpu_ns_per_frame is not None:
            found.cpu_ns.append(full.cpu_ns_per_frame)
        light = bed.offer((float(round(LIGHT * full.received_pps)),)).routers[0]
        if light.delay is not None:
            found.p50_ns.append(light.delay.p50_ns)
            found.p99_ns.append(light.delay.p99_ns)


def bench(options: Options) -> Outcome:
    """Measure all variants in turn, round by round."""
    variants = VARIANTS + (() if kvm.fault_with_routers() else KVM)
    found = {variant: Figures() for variant in variants}
    with beds.host() as journal:
        for _ in range(options.rounds):
            for variant, figures in found.items():
                with staying_on((GENERATOR_CORE,)):
                    build(variant, figures, journal)
                forward(variant, figures, journal, options.seconds)
    # What QEMU's translator takes is told; it is no promise.
    guests = [f for v, f in found.items() if v.kind == "vm" and v.machine.hypervisor != "tcg"]
    checks = [
        _check(f"one guest ready in under {ONE_S:g} s", [g.one_s for g in guests], ONE_S),
        _check(f"{MANY} guests ready in under {MANY_S:g} s", [g.many_s for g in guests], MANY_S),
        _check(f"ended in under {REMOVE_S:g} s", [g.remove_s for g in guests], REMOVE_S),
    ]
    return Outcome(
        title=f"Containers and guests: medians of {options.rounds} rounds",
        columns=("router", f"1 / {MANY} ready, s", "ended, s", "MiB each", "kpps",
                 "range", "CPU ns/frame", "p50 / p99 at 10 %, us"),
        rows=[_row(variant.name, figures) for variant, figures in found.items()],
        checks=checks,
        data={"figures": {variant.name: vars(f) for variant, f in found.items()}},
    )  # fmt: skip


def _check(target: str, values: list[list[float]], limit_s: float) -> Check:
    slowest = max(median(each) for each in values)
    return Check(target, f"{slowest:.2f} s on the slowest path", slowest < limit_s)


def _row(name: str, found: Figures) -> tuple[str, ...]:
    return (
        name,
        f"{median(found.one_s):.2f} / {median(found.many_s):.2f}",
        f"{median(found.remove_s):.2f}",
        f"{max(0.0, median(found.memory_mb)):.1f}",
        f"{median(found.rate_pps) / 1e3:.1f}",
        spread(found.rate_pps, 1e3, 1),
        f"{median(found.cpu_ns):.0f}" if found.cpu_ns else "-",
        f"{median(found.p50_ns) / 1e3:.0f} / {median(found.p99_ns) / 1e3:.0f}"
        if found.p50_ns
        else "-",
    )


if __name__ == "__main__":
    main("guests", bench, Options(rounds=3, seconds=0.5), str(__doc__))
