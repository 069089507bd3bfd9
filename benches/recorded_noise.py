"""A host that keeps a policy but for recorded noise, for simulated verifications."""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from isolane.enforce.fair_share import share_out
from isolane.spec import Policy
from isolane.verify.environment import Measured, Seen, Trials
from isolane.verify.pace import BEYOND_TRIAL_S
from isolane.verify.scenarios import Scenario

CORE_PPS = 400_000.0
BLOCK = 5
"""Mean length of the blocks of consecutive pairs that are drawn together: noise comes in phases
(stationary bootstrap: Politis and Romano 1994)."""

Halves = tuple[float, float]
"""Part of its load that a router forwarded: with the aggressor, and in the reference."""


@dataclass(frozen=True)
class Noise:
    """What was recorded, the medians taken out."""

    attacks: tuple[tuple[Halves, ...], ...]
    """For each pair of an attack: the halves of each router that was not the aggressor. The first
    half is divided by the median of the ratio of both, so that a promise is kept exactly."""
    shares: tuple[float, ...]
    """CPU share of a router while all are overloaded, divided by its median."""

    def scaled(self, factor: float) -> Noise:
        """Return the same noise, wider or narrower by a factor."""

        def wider(value: float) -> float:
            return max(0.0, 1 + factor * (value - 1))

        attacks = tuple(
            tuple((wider(loaded / before) * before, before) for loaded, before in pair)
            for pair in self.attacks
        )
        return Noise(attacks, tuple(wider(share) for share in self.shares))

    def ratios(self) -> list[float]:
        """Return the figure of each pair and router: its median is 1."""
        return [loaded / before for pair in self.attacks for loaded, before in pair]

    @classmethod
    def read(cls, file: Path) -> Noise:
        """Read what ``benches.verify_noise`` has recorded."""
        pairs: dict[tuple[str, str, int], list[dict[str, str]]] = defaultdict(list)
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                key = row["recorded"], row["comparison"], int(row["pair"])
                pairs[key].append(row)
        attacks: dict[tuple[str, str], list[list[Halves]]] = defaultdict(list)
        shares: dict[tuple[str, str], list[float]] = defaultdict(list)
        for (recorded, comparison, _), rows in pairs.items():
            if comparison.startswith("attack:"):
                victims = [row for row in rows if row["router"] != comparison.split(":")[1]]
                attacks[recorded, comparison].append([_halves(row) for row in victims])
            elif comparison == "everyone":
                total = sum(float(row["loaded_cpu"]) for row in rows)
                for row in rows:
                    shares[recorded, row["router"]].append(float(row["loaded_cpu"]) / total)
        kept = [pair for series in attacks.values() for pair in _without_median(series)]
        return cls(tuple(kept), tuple(_relative(shares.values())))


def _halves(row: dict[str, str]) -> Halves:
    return (
        float(row["loaded_received_pps"]) / float(row["loaded_sent_pps"]),
        float(row["reference_received_pps"]) / float(row["reference_sent_pps"]),
    )


def _without_median(series: list[list[Halves]]) -> Iterator[tuple[Halves, ...]]:
    """Divide by each router's median ratio: what is left is noise."""
    medians = [
        median(now / before for now, before in router) for router in zip(*series, strict=True)
    ]
    for pair in series:
        yield tuple((now / m, before) for (now, before), m in zip(pair, medians, strict=True))


def _relative(series: Iterable[list[float]]) -> Iterator[float]:
    for values in series:
        middle = median(values)
        yield from (value / middle for value in values)


@dataclass
class NoisyHost:
    """Keeps a policy, but for noise, and but for what an aggressor takes."""

    policy: Policy
    noise: Noise
    random: random.Random
    true: float = 1.0
    """What each router truly retains under attack."""
    mode: Literal["test bed", "real interfaces"] = "test bed"
    max_cores: int | None = 1
    overload_pps: float = 2_000_000.0
    window_s: float = 0.3
    now_s: float = 0.0
    _at: int = 0
    """Recorded pair that the present pair has its noise from."""
    _half: dict[str, list[Halves]] = field(default_factory=dict)
    """Noise of the pair of which one half has been measured."""

    def clock(self) -> float:
        """Return the simulated time, s."""
        return self.now_s

    def reaches(self, nic: str) -> bool:
        """Tell whether the policy has the NIC."""
        return nic in self.policy.nics

    @contextmanager
    def open(
        self,
        routers: tuple[str, ...],
        *,
        frame_bytes: int,  # noqa: ARG002 - the interface's
        line_bps: float,  # noqa: ARG002
        fold: bool,  # noqa: ARG002
    ) -> Iterator[Trials]:
        """Need as long as a test bed."""
        self.now_s += 3.0
        yield _NoisyTrials(self, routers)

    def pair_noise(self, aggressor: str, victims: int) -> list[Halves]:
        """Return the noise of a pair: the same for both of its halves."""
        if aggressor in self._half:
            return self._half.pop(aggressor)
        found: list[Halves] = []
        while len(found) < victims:
            if self.random.random() < 1 / BLOCK:
                self._at = self.random.randrange(len(self.noise.attacks))
            self._at = (self._at + 1) % len(self.noise.attacks)
            found += self.noise.attacks[self._at]
        self._half[aggressor] = found
        return found


@dataclass
class _NoisyTrials:
    host: NoisyHost
    routers: tuple[str, ...]

    def trial(self, scenario: Scenario, label: str) -> Measured:  # noqa: ARG002 - the interface's
        """Carry out a trial."""
        host = self.host
        host.now_s += scenario.warmup_ns / 1e9 + host.window_s + BEYOND_TRIAL_S
        offered = {name: scenario.offered_pps.get(name, 0.0) for name in self.routers}
        caps = {name: min(1.0, pps / CORE_PPS) for name, pps in offered.items()}
        weights = {name: float(host.policy.routers[name].cpu_weight) for name in self.routers}
        cpu = share_out(weights, caps)
        pps = {name: min(offered[name], CORE_PPS * cpu[name]) for name in self.routers}
        kind, _, aggressor = scenario.key.partition(":")
        if scenario.key == "everyone":
            cpu = {
                name: share * host.random.choice(host.noise.shares) for name, share in cpu.items()
            }
        elif kind in ("attack", "without"):
            victims = [name for name in self.routers if name != aggressor]
            halves = host.pair_noise(aggressor, len(victims))
            for name, (loaded, before) in zip(victims, halves, strict=False):
                pps[name] = offered[name] * (host.true * loaded if kind == "attack" else before)
        seen = {
            n: Seen(offered[n], offered[n], pps[n], cpu[n], caused_cpu=cpu[n]) for n in self.routers
        }
        return Measured(seen, max(0.0, 1 - sum(cpu.values())))
