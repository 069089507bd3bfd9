"""The maximum forwarding rate of imaginary routers: steady, livelocking, slow, noisy, limited."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import median

import pytest

from isolane.analysis.maximum_rate import ATTEMPTS, Reading, Span, maximum, next_load

Router = Callable[[float], float]


def steady(load: float) -> float:
    return min(load, 720e3)


def livelocking(load: float) -> float:
    """Forwards all up to a knee, and beyond it spends its time on frames that it drops."""
    return load if load <= 280e3 else 150e3


def declining(load: float) -> float:
    """Each dropped frame costs a tenth of a forwarded one."""
    forward, drop = 1 / 720e3, 0.1 / 720e3
    return load if load <= 720e3 else max(0.0, (1 - load * drop) / (forward - drop))


def lossy(load: float) -> float:
    """Loses a tenth of whatever it is offered."""
    return min(0.9 * load, 270e3)


def search(router: Router, noise: float = 0.0, seed: int = 0, top: float = 2e6) -> list[Reading]:
    chance, readings, span = random.Random(seed), list[Reading](), Span(top)
    while (load := next_load(readings, span)) is not None:
        readings.append(Reading(load, router(load) * (1 - abs(chance.gauss(0, noise)))))
        assert len(readings) < 100, "the search does not end"
    return readings


@pytest.mark.parametrize(
    ("router", "mfr", "frmol"),
    [
        (steady, 720e3, 720e3),
        (livelocking, 280e3, 150e3),
        (declining, 720e3, declining(2e6)),
        (lossy, 270e3, 270e3),
        (lambda load: min(load, 3e3), 3e3, 3e3),
        (lambda load: load / 2, 1e6, 1e6),
    ],
)
def test_the_highest_rate_is_found_from_below(router: Router, mfr: float, frmol: float) -> None:
    readings = search(router)
    found = maximum(readings, Span(2e6))
    assert found is not None
    assert 0.97 * mfr <= median(found.rates_pps) <= mfr
    assert found.max_load_pps == 2e6
    assert median(found.max_load_rates_pps) == frmol
    assert not found.at_least
    assert len(readings) <= 25
    assert readings[0].load_pps < mfr or router(readings[0].load_pps) < readings[0].load_pps


@pytest.mark.parametrize(
    ("router", "mfr"), [(steady, 720e3), (livelocking, 280e3), (declining, 720e3)]
)
def test_noise_does_not_mislead_it(router: Router, mfr: float) -> None:
    """Trials lose up to some percent at random, as on a busy host; 100 searches each."""
    for seed in range(100):
        readings = search(router, noise=0.01, seed=seed)
        found = maximum(readings, Span(2e6))
        assert found is not None
        assert -0.06 < median(found.rates_pps) / mfr - 1 <= 0
        assert len(readings) < 40


def test_only_fresh_trials_count() -> None:
    readings = search(steady)
    found = maximum(readings, Span(2e6))
    assert found is not None
    there = [r for r in readings if r.load_pps == found.load_pps]
    assert len(found.rates_pps) == len(there) - 1 == 3


def test_a_router_that_cannot_be_overloaded_has_a_lower_bound() -> None:
    found = maximum(search(lambda load: load), Span(2e6))
    assert found is not None
    assert (found.at_least, found.load_pps) == (True, 2e6)


def test_what_the_generator_cannot_send_is_no_reading() -> None:
    """It sends at most 1 Mpps; 2 Mpps are tried a few times, then 0.95 Mpps is the most."""
    readings, span = list[Reading](), Span(2e6)
    while (load := next_load(readings, span)) is not None:
        short = load > 1e6
        readings.append(Reading(load, 700e3 if short else min(load, 720e3), not short, 1e6))
    found = maximum(readings, span)
    assert found is not None
    assert sum(r.load_pps == 2e6 for r in readings) == ATTEMPTS
    assert found.max_load_pps == pytest.approx(0.95e6)
    assert median(found.rates_pps) == 720e3
    assert not found.at_least


def test_a_load_whose_trials_are_all_invalid_is_left_out() -> None:
    readings, span = list[Reading](), Span(2e6)
    while (load := next_load(readings, span)) is not None:
        readings.append(Reading(load, min(load, 720e3), valid=load != 500e3))
    assert sum(not r.valid for r in readings) == ATTEMPTS
    found = maximum(readings, span)
    assert found is not None
    assert median(found.rates_pps) == 720e3


def test_without_any_valid_trial_it_ends_and_knows_nothing() -> None:
    readings, span = list[Reading](), Span(2e6)
    while (load := next_load(readings, span)) is not None:
        readings.append(Reading(load, 0.0, valid=False))
        assert len(readings) < 100
    assert maximum(readings, span) is None


def test_it_goes_on_where_it_was() -> None:
    whole = search(livelocking)
    for cut in range(len(whole)):
        assert next_load(whole[:cut], Span(2e6)) == whole[cut].load_pps


def test_a_load_at_the_generators_limit_is_not_tried_for_ever() -> None:
    """One lucky trial at the top, better than all others: it cannot be confirmed, and is left."""
    readings, span = list[Reading](), Span(2e6)
    while (load := next_load(readings, span)) is not None:
        at_top = [reading for reading in readings if reading.load_pps == 2e6]
        valid = load < 2e6 or not at_top
        rate = 800e3 if load == 2e6 else min(load, 720e3)
        readings.append(Reading(load, rate, valid=valid, limit_pps=None if valid else 1.7e6))
    assert sum(not reading.valid for reading in readings) == ATTEMPTS
    found = maximum(readings, span)
    assert found is not None
    assert found.load_pps < 2e6
    assert median(found.rates_pps) == 720e3
