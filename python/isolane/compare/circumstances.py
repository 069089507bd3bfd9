"""What is different between two runs besides their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from isolane.analysis.drift import SHOWN, transfer_ns, unit_ns
from isolane.results.folder import RunFolder
from isolane.results.quality_models import CoreProbe
from isolane.results.results import HostFacts, Trial
from isolane.results.resume import OF_HOST

_FACTS: Final = {
    "kernel": "kernel",
    "cpu": "processor",
    "cores": "cores",
    "hypervisor": "hypervisor",
    "clocksource": "clock source",
    "mitigations": "mitigations",
}
"""Of a host -> what it is called."""
_MAX_SETTINGS: Final = 3
_MAX_LETTERS: Final = 40
_FAR: Final = 1.5
"""A cache line that takes so many times as long goes another way (docs/method.md)."""


def changed(before: RunFolder, after: RunFolder) -> tuple[str, ...]:
    """Return what is different, a few words each; empty where nothing is that is known of."""
    return (
        *_hosts(before.host(), after.host()),
        *_records(before, after),
        *_speeds(before.trials(), after.trials()),
    )


def _hosts(before: HostFacts, after: HostFacts) -> Iterator[str]:
    if before.simulated != after.simulated:
        yield f"{_world(before)}, then {_world(after)}"
        return
    for fact, name in _FACTS.items():
        then, now = getattr(before, fact), getattr(after, fact)
        if then != now:
            yield f"{name} {then or 'none'}, then {now or 'none'}"
    then, now = before.bridge_netfilter, after.bridge_netfilter
    if then != now and then is not None and now is not None:  # older versions did not tell
        yield f"netfilter on bridges {then}, then {now}"


def _world(host: HostFacts) -> str:
    return "measured" if host.simulated is None else f"simulated (profile {host.simulated})"


def _records(before: RunFolder, after: RunFolder) -> Iterator[str]:
    first, second = before.record.began(), after.record.began()
    if first is None or second is None:
        return
    if first.version != second.version:
        yield f"Isolane {first.version}, then {second.version}"
    if first.method != second.method:
        yield f"method {first.method}, then {second.method} (docs/method.md)"
    differing = list(_settings(first.settings, second.settings))
    yield from differing[:_MAX_SETTINGS]
    if len(differing) > _MAX_SETTINGS:
        yield f"{len(differing) - _MAX_SETTINGS} more settings"


def _settings(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings of the experiment, and options, that are not the same."""
    for key in {**before, **after}:
        then, now = before.get(key, "not given"), after.get(key, "not given")
        if then != now and not key.startswith((*OF_HOST, "--")):
            yield f"{key} {_short(then)}, then {_short(now)}"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_LETTERS else f"{text[:_MAX_LETTERS]}..."


def _speeds(before: Sequence[Trial], after: Sequence[Trial]) -> Iterator[str]:
    """Yield what the probes of the DUT's cores say of the machine, where they differ."""
    first, second = (_median_of(unit_ns, trials) for trials in (before, after))
    if first and second and abs(second / first - 1) > SHOWN:
        slower = "slower" if second > first else "faster"
        yield f"the DUT's cores {100 * abs(second / first - 1):.0f} % {slower} the second time"
    first, second = (_median_of(transfer_ns, trials) for trials in (before, after))
    if first and second and max(first, second) > _FAR * min(first, second):
        yield (
            f"the generator's core further from or nearer to the DUT's: a cache line takes "
            f"{first:.0f} ns, then {second:.0f} ns"
        )


def _median_of(
    speed: Callable[[Sequence[CoreProbe]], float | None], trials: Sequence[Trial]
) -> float | None:
    probed = [trial.probe for trial in trials if trial.probe and trial.purpose == "measure"]
    found = [value for value in map(speed, probed) if value is not None]
    return median(found) if found else None
