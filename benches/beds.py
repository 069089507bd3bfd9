"""Trials on test beds of the live back end, as an experiment would run them, but one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from isolane.spec import parse_experiment
from isolane.spec.demands import Demand
from isolane.testbed import UML, BedPlan, Journal, Machine, RouterPlan, clean, exclusive
from isolane.trials.backend import Bench, Observation, Setting
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import GENERATOR_CORE, RECEIVER_CORE

WARMUP_NS = 100_000_000
ATTEMPTS = 3
"""At one trial: it is repeated while it is invalid."""


@dataclass(frozen=True)
class Arm:
    """A test bed: its path, and the policy of each router on ``isolane`` or ``direct``."""

    path: str
    policies: tuple[str, ...]
    """YAML of each router's policy without braces (``cpu_weight: 200``); as many as routers."""
    line_rate: str = "10Gbps"
    frame_size: str = "64"
    moderation: str = "50us"
    ip: int = 4
    kind: str = "container"
    machine: Machine = UML
    """What a virtual machine is."""

    def yaml(self) -> str:
        """Return the experiment."""
        routers = []
        for number, policy in enumerate(self.policies):
            managed = policy and (self.path in ("isolane", "direct") or self.kind == "vm")
            more = f", policy: {{{policy}}}" if managed else ""
            if self.kind == "vm":
                more += f", hypervisor: {self.machine.hypervisor}, nic: {self.machine.nic}"
            routers.append(f"- {{name: r{number}, kind: {self.kind}, path: {self.path}{more}}}")
        loads = ", ".join(f"r{number}: 1pps" for number in range(len(self.policies)))
        return "\n".join(
            [
                "isolane: 1",
                "name: bench",
                f"dut: {{moderation: {self.moderation}}}",
                (
                    f"traffic: {{frame_size: {self.frame_size}, line_rate: {self.line_rate}, "
                    f"ip: {self.ip}}}"
                ),
                "routers:",
                *routers,
                f"load: {{{loads}}}",
            ]
        )


def plan(
    kind: str, path: str, routers: int, receive: str, moderation_ns: int, machine: Machine = UML
) -> BedPlan:
    """Describe a test bed of equal routers, on the cores of all benches."""
    return BedPlan(
        routers=tuple(
            RouterPlan(f"vr-{i + 1}", kind, path, None, machine)  # type: ignore[arg-type]
            for i in range(routers)
        ),
        receive=receive,  # type: ignore[arg-type]
        moderation_ns=moderation_ns,
        dut_cores=(RECEIVER_CORE,),
        measure_cores=(GENERATOR_CORE,),
        ip=4,
    )


@dataclass
class Bed:
    """A test bed, ready for trials."""

    bench: Bench
    routers: Sequence[object]
    seconds: float
    invalid: list[str] = field(default_factory=list)
    """Reasons of the trials that stayed invalid."""

    def offer(self, rates_pps: Sequence[float]) -> Observation:
        """Offer these rates; returns what came of it. An invalid trial is repeated, as in `run`."""
        for _ in range(ATTEMPTS):
            seen = self._offer_once(rates_pps)
            if not seen.invalid:
                break
        self.invalid += [reason.text for reason in seen.invalid]
        return seen

    def _offer_once(self, rates_pps: Sequence[float]) -> Observation:
        demands = tuple(
            Demand(router, rate, None)  # type: ignore[arg-type]
            for router, rate in zip(self.routers, rates_pps, strict=True)
        )
        return self.bench.trial(Setting(demands, WARMUP_NS, round(self.seconds * 1e9)))

    def forwarded(self, rates_pps: Sequence[float]) -> list[float] | None:
        """Offer these rates; returns what each router forwarded, frames/s; None if invalid."""
        seen = self.offer(rates_pps)
        return None if seen.invalid else [router.received_pps for router in seen.routers]


@contextmanager
def host() -> Iterator[Journal]:
    """Hold the right to change the host, with what dead runs left removed."""
    with exclusive() as journal:
        clean()
        yield journal


@contextmanager
def bed(arm: Arm, journal: Journal, seconds: float) -> Iterator[Bed]:
    """Build a test bed."""
    experiment = parse_experiment(arm.yaml())
    resolved, routers = experiment.resolved_arms()[0], experiment.points()[0].routers
    with closing(LiveBackEnd(experiment, journal)) as back_end:
        back_end.check([resolved])
        with back_end.bench(resolved, routers) as bench:
            yield Bed(bench, routers, seconds)
