"""How often `isolane verify` errs: simulated verifications with recorded noise, fixed seeds.

`benches/verify_oc.py` does the same with more verifications; docs/method.md has its figures.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from isolane.spec import parse_policy
from scipy import stats

from benches.recorded_noise import Noise
from benches.verify_noise import FILE
from benches.verify_oc import ERROR, POLICY, Tally, sequential, verification

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TABLES = 15
NOISE = {
    "recorded": lambda: Noise.read(FILE),
    "narrow": lambda: synthetic(0.002, 30.0),
    "wide, with heavy tails": lambda: synthetic(0.01, 1.5),
}


def synthetic(width: float, freedom: float) -> Noise:
    """Noise of a known shape: t-distributed, of a pair whose median is 1."""
    draw = np.random.default_rng(5)
    factors = 1 + width * stats.t.rvs(freedom, size=(400, 2), random_state=draw)
    pairs = tuple(tuple((float(f), 1.0) for f in pair) for pair in np.clip(factors, 0.2, 1.8))
    return Noise(pairs, (0.999, 1.0, 1.001))


def tally(noise: Noise, true: float, tables: int = TABLES) -> Tally:
    found = Tally()
    for seed in range(tables):
        found.add(*sequential(noise, true, seed))
    return found


@pytest.fixture(params=NOISE)
def noise(request: pytest.FixtureRequest) -> Noise:
    return NOISE[request.param]()


def at_most(error: float, tables: int) -> float:
    """The number of tables in error that chance exceeds once in a thousand times."""
    return float(stats.binom.ppf(0.999, tables, error))


def test_what_is_clearly_broken_is_not_called_held(noise: Noise) -> None:
    found = tally(noise, 0.98)
    assert found.any_held <= at_most(ERROR, TABLES)


def test_what_is_clearly_kept_is_not_called_broken(noise: Noise) -> None:
    found = tally(noise, 0.995)
    assert found.any_broken <= at_most(ERROR, TABLES)


def test_little_noise_leaves_nothing_undecided() -> None:
    quiet = NOISE["narrow"]()
    for true, verdict in ((0.98, "broken"), (0.995, "held"), (1.0, "held")):
        found = tally(quiet, true, 5)
        assert found.part(verdict) == 1.0
        assert max(found.took_s) < 120


def test_much_noise_is_told_and_not_guessed() -> None:
    found = tally(synthetic(0.1, 3.0), 0.99, 5)
    assert found.part("undecided") > 0.9
    assert found.any_held + found.any_broken <= 1


def test_a_simulated_verification_is_one_of_the_command() -> None:
    report = verification(
        parse_policy(POLICY), NOISE["narrow"](), 1.0, random.Random(1).randrange(99)
    )
    assert report.count("held") == len(report.findings) == 16
    assert report.took_s < 120
    (crowd,) = report.crowds
    assert abs(crowd.cost) < 0.01
