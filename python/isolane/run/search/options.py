"""What to search for: loss ratios, delay objectives, limits, and how closely."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise

from MLRsearch import Config, SearchGoal

from isolane.errors import SpecError

PRECEDING_TARGETS = 1
"""Coarser searches with shorter trials before the last one; the library's default is 2, which takes
a third longer."""


@dataclass(frozen=True)
class SearchOptions:
    """What is searched for; the names are those of MLRsearch where it has the same thing.

    Parameters
    ----------
    loss_ratios
        Highest share of lost frames, for each rate: 0 is the NDR, others are PDRs.
    max_delays_ns
        Delay objectives: for each of them every loss ratio is searched once more, and a load then
        counts only if its p99 delay stays below.
    min_pps, max_pps
        Lowest and highest offered load, frames/s; no highest one means all that can be offered.
    initial_ns, final_ns
        Window of the first trials, and of those that decide, ns.
    sum_ns
        Total window of the trials that decide about one load, ns.
    relative_width
        Distance of the two bounds at the end, as a share of the upper one.
    exceed_ratio
        Share of `sum_ns` that may miss the objective; 0: no trial may.
    limit_s
        Longest time for one arm and router, s; None for no limit.
    """

    loss_ratios: tuple[float, ...] = (0.0, 0.005)
    max_delays_ns: tuple[int, ...] = ()
    min_pps: float = 1_000.0
    max_pps: float | None = None
    initial_ns: int = 50_000_000
    final_ns: int = 200_000_000
    sum_ns: int = 600_000_000
    relative_width: float = 0.005
    exceed_ratio: float = 0.5
    limit_s: float | None = None

    def __post_init__(self) -> None:
        for wrong, what in self._wrong():
            if wrong:
                raise SpecError(what)

    def _wrong(self) -> tuple[tuple[bool, str], ...]:
        lowest, highest = self.min_pps, self.max_pps
        ratios = self.loss_ratios
        return (
            (not ratios, "--loss-ratio: none; accepted: 0 (NDR) or a share below 1 such as 0.005"),
            (
                any(not 0 <= ratio < 1 for ratio in ratios),
                f"--loss-ratio {max(ratios, default=0):g}: accepted: 0 (NDR) to below 1, or 0.5%",
            ),
            (
                any(b <= a for a, b in pairwise(sorted(ratios))),
                "--loss-ratio: the same ratio twice",
            ),
            (
                highest is not None and highest <= lowest,
                f"--max-rate {highest or 0:g}pps: is not above --min-rate {lowest:g}pps",
            ),
            (lowest <= 0, f"--min-rate {lowest:g}pps: accepted: more than 0"),
            (
                self.final_ns < self.initial_ns,
                "--duration: is shorter than --initial-duration; accepted: at least as long",
            ),
            (
                self.sum_ns < self.final_ns,
                "--duration-sum: is shorter than --duration; accepted: at least as long",
            ),
            (
                not 0 < self.relative_width < 1,
                f"--width {self.relative_width:g}: accepted: above 0 and below 1, or 0.5%",
            ),
            (
                not 0 <= self.exceed_ratio < 1,
                f"--exceed-ratio {self.exceed_ratio:g}: accepted: 0 to below 1",
            ),
        )

    def goals(self) -> dict[SearchGoal, float]:
        """Return the library's goals with their loss ratios, the lowest ratio first."""
        return {self._goal(ratio): ratio for ratio in sorted(self.loss_ratios)}

    def _goal(self, ratio: float) -> SearchGoal:
        return SearchGoal(
            loss_ratio=ratio,
            exceed_ratio=self.exceed_ratio,
            relative_width=self.relative_width,
            initial_trial_duration=self.initial_ns / 1e9,
            final_trial_duration=self.final_ns / 1e9,
            duration_sum=self.sum_ns / 1e9,
            preceding_targets=PRECEDING_TARGETS,
            expansion_coefficient=2,
            fail_fast=False,
        )

    def config(self, goals: dict[SearchGoal, float], max_pps: float) -> Config:
        """Return the library's configuration; time limits are the measurer's."""
        return Config(
            goals=list(goals),
            min_load=self.min_pps,
            max_load=max_pps,
            search_duration_max=1e9,
            warmup_duration=None,
        )

    def as_data(self) -> dict[str, float | str | tuple[float, ...] | None]:
        """Return all options with their values, for the results."""
        return asdict(self)
