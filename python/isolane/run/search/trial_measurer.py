"""Carries out the trials that MLRsearch asks for, and remembers what each told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from MLRsearch import AbstractMeasurer, MeasurementResult

from isolane.errors import MeasurementError
from isolane.results.cpu_results import CorePartName
from isolane.results.invalid import MADE_AGAIN, VALID, InvalidKind
from isolane.results.results import RouterTrial
from isolane.results.search_results import MAX_IDLE
from isolane.trials.backend import Observation

ATTEMPTS: Final = 6
"""Trials at one load and duration of which one must be valid."""
AT_LIMIT: Final = 0.9
"""From this share of the generator's maximum on, a load counts as the maximum: one that falls short
below has lost its core to somebody else."""
OneTrial = Callable[[float, int], tuple[Observation, str | None]]
"""Carries out a trial at an offered load (frames/s) with a window (ns), and returns what was
observed, and why it gives no verdict."""


class NoVerdictError(MeasurementError):
    """All attempts at one load gave no verdict."""


class TimeUpError(Exception):
    """The search has used up its time."""


@dataclass(frozen=True)
class Tried:
    """One valid trial."""

    load_pps: float
    window_ns: int
    rate_pps: float
    loss_ratio: float
    delay_p99_ns: float | None
    whole_pps: float | None
    """See :class:`isolane.results.search_results.FoundRate`."""
    met: bool
    """Whether the delay objective that was in force was met."""
    idle: float | None = None
    """Part of its time that the DUT's busiest core was idle; None where none is the DUT's."""
    free: float | None = None
    """The same with what processes of others used, which the routers would have had, or a part."""
    lost_behind: float = 0.0
    """Part of the lost frames that the routers had forwarded: they were lost on the way out."""


@dataclass
class TrialMeasurer(AbstractMeasurer):  # type: ignore[misc] # the library has no types
    """Carries out trials for one subject.

    Parameters
    ----------
    one
        Carries out one trial.
    short
        Share of the offered frames that the generator may fail to send.
    sendable_pps
        The generator's own maximum, frames/s, where it is known.
    deadline_s
        When to stop, by `clock`.
    told
        Called after each valid trial.
    """

    one: OneTrial
    short: float
    sendable_pps: float = 0.0
    deadline_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    told: Callable[[], None] = lambda: None
    max_delay_ns: int | None = None
    """The delay objective in force."""
    worst_ratio: float = 0.0
    """The highest loss ratio that is searched for; what misses another objective loses more."""
    tried: list[Tried] = field(default_factory=list)
    limited: dict[float, float] = field(default_factory=dict)
    """Loads that the generator could not send, and what it sent, frames/s."""
    invalid: int = 0

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Carry out a trial, again if it gives no verdict; see the library.

        Parameters
        ----------
        intended_duration
            Measuring window, s.
        intended_load
            Offered load, frames/s.

        Raises
        ------
        TimeUpError
            Instead of a trial, if the time is up.
        NoVerdictError
            If no attempt gives a verdict, and the generator is not the reason.
        """
        window_ns = round(intended_duration * 1e9)
        observation = self.valid(intended_load, window_ns, enough=self.worst_ratio)
        if observation is None:
            return self._unsent(intended_duration, intended_load)
        sent, received = _frames(observation)
        if not self.tried[-1].met:
            received = min(received, int(sent * (1 - self.worst_ratio)) - 1)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            forwarding_count=max(0, received),
        )

    def valid(
        self, load_pps: float, window_ns: int, *, enough: float | None = None
    ) -> Observation | None:
        """Carry out trials until one is valid; None if the generator cannot send the load.

        Where the generator was held up or the DUT paused in each of them, the one counts that was
        not paused and in which the largest share was sent, judged at what was sent.

        Parameters
        ----------
        enough
            A trial that loses a larger share than this has told enough, though less was sent.

        Raises
        ------
        NoVerdictError
            If none is.
        """
        reason, limits = "no trial gave a verdict", list[float]()
        doubtful: list[Observation] = []
        for _ in range(ATTEMPTS):
            if self.deadline_s is not None and self.clock() >= self.deadline_s:
                raise TimeUpError
            observation, why = self.one(load_pps, window_ns)
            if why is None:
                if self._tells(observation, enough):
                    return self._remember(load_pps, window_ns, observation)
                doubtful.append(observation)
            elif self._at_limit(observation):
                limits.append(sum(router.generated_pps for router in observation.routers))
            self.invalid += 1
            reason = why or reason
        if doubtful:
            best = max(doubtful, key=lambda seen: (not _paused(seen), _sent_share(seen)))
            return self._remember(load_pps, window_ns, best)
        if not limits:
            raise NoVerdictError(
                f"{ATTEMPTS} trials in a row gave no verdict, the last one because: {reason}"
            )
        self.limited[load_pps] = max(*limits, self.limited.get(load_pps, 0.0))
        return None

    def _tells(self, observation: Observation, enough: float | None) -> bool:
        """Tell whether a trial says what it was made for, however much of its load was sent."""
        if _paused(observation):
            return False  # what it lost may be the pause's
        if _sent_share(observation) >= 1 - self.short:
            return True
        sent, received = _frames(observation)
        return enough is not None and received < (1 - enough) * sent

    def _at_limit(self, observation: Observation) -> bool:
        """Tell whether a trial tells nothing only because of what a generator can send."""
        harmless = VALID | {InvalidKind.GENERATOR_LIMIT}
        offered_pps = sum(router.offered_pps for router in observation.routers)
        return (
            all(reason.kind in harmless for reason in observation.invalid)
            and offered_pps >= AT_LIMIT * self.sendable_pps
        )

    def _remember(self, load_pps: float, window_ns: int, observation: Observation) -> Observation:
        routers = observation.routers
        sent, received = _frames(observation)
        delay = _worst_delay(routers)
        limit = self.max_delay_ns
        # While frames came, they came at the load that was asked for: that time alone counts.
        rate_pps = sum(router.received_pps for router in routers) / (_sent_share(observation) or 1)
        self.tried.append(
            Tried(
                load_pps=load_pps,
                window_ns=window_ns,
                rate_pps=rate_pps,
                loss_ratio=1 - received / sent if sent else 0.0,
                delay_p99_ns=delay,
                whole_pps=_whole_pps(rate_pps, observation),
                met=limit is None or (delay is not None and delay <= limit),
                idle=_part(observation, "idle"),
                free=_part(observation, "idle", "processes"),
                lost_behind=_lost_behind(observation),
            )
        )
        self.told()
        return observation

    def _unsent(self, duration_s: float, load_pps: float) -> MeasurementResult:
        """Return a bad trial: the library then turns to lower loads."""
        intended = max(1, round(load_pps * duration_s))
        sent = round(self.limited[load_pps] * duration_s)
        passed = min(sent, int(intended * (1 - self.worst_ratio)) - 1)
        return MeasurementResult(
            intended_duration=duration_s,
            intended_load=load_pps,
            offered_count=intended,
            forwarding_count=max(0, passed),
        )


def _frames(observation: Observation) -> tuple[int, int]:
    """Return how many frames were sent and received in the window."""
    routers = observation.routers
    return sum(r.generated_frames for r in routers), sum(r.received_frames for r in routers)


def _paused(observation: Observation) -> bool:
    """Tell whether the hypervisor took the DUT's cores away for long."""
    return any(reason.kind in MADE_AGAIN for reason in observation.invalid)


def _parts(observation: Observation) -> list[dict[CorePartName, float]]:
    """Return what became of the time of each of the DUT's cores, where that is known."""
    return [core.parts for core in observation.cores if core.part == "dut" and core.parts]


def _part(observation: Observation, *names: CorePartName) -> float | None:
    """Return how much of its time the DUT's busiest core spent so; None where none is the DUT's."""
    parts = _parts(observation)
    return min((sum(part[name] for name in names) for part in parts), default=None)


def _lost_behind(observation: Observation) -> float:
    """Return which part of the lost frames was lost at `egress`; those never sent are not lost."""
    lost = [
        (point, frames)
        for router in observation.routers
        for point, frames in router.lost.items()
        if point != "generator"
    ]
    behind = sum(frames for point, frames in lost if point == "egress")
    return behind / total if (total := sum(frames for _, frames in lost)) else 0.0


def _whole_pps(rate_pps: float, observation: Observation) -> float | None:
    """Return the rate without other users of the DUT's cores; None if these were not the limit."""
    parts = _parts(observation)
    if not parts or any(part["idle"] > MAX_IDLE for part in parts):
        return None
    left = 1 - sum(part["processes"] + part["steal"] for part in parts) / len(parts)
    return rate_pps / left if left > 0 else None


def _sent_share(observation: Observation) -> float:
    """Return the share of its load that was sent."""
    offered = sum(router.offered_frames for router in observation.routers)
    # One frame of each router may fall on either side of a window's end.
    sent = _frames(observation)[0] + len(observation.routers)
    return min(1.0, sent / offered) if offered else 1.0


def _worst_delay(routers: tuple[RouterTrial, ...]) -> float | None:
    """Return the highest p99 delay, ns; None if a router that was loaded has none."""
    delays = [router.delay.p99_ns if router.delay else None for router in routers]
    known = [delay for delay in delays if delay is not None]
    return max(known) if known and len(known) == len(delays) else None
