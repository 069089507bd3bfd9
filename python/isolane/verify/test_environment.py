"""What a test environment tells of routers."""

from __future__ import annotations

import pytest

from isolane.enforce import RouterSample, Sample
from isolane.verify.environment import caused_cpu, nic_cpu


def sample(at_s: int, **routers: tuple[int, int | None]) -> Sample:
    """Counters of own CPU time and of the NICs', ms."""
    return Sample(
        at_s * 10**9,
        tuple(
            RouterSample(name, present=True, cpu_ns=own * 10**6, nic_cpu_ns=nic and nic * 10**6)
            for name, (own, nic) in routers.items()
        ),
        {},
        {},
    )


def test_what_a_router_causes_is_its_own_work_and_the_nics() -> None:
    before = sample(1, heavy=(1000, 10), light=(10, None))
    after = sample(3, heavy=(1500, 310), light=(110, None), late=(5, 5))
    names = "heavy", "light", "late", "nobody"
    caused = [caused_cpu(name, (before, after)) for name in names]
    assert caused == [pytest.approx(0.4), pytest.approx(0.05), None, None]
    of_nics = [nic_cpu(name, (before, after)) for name in names]
    assert of_nics == [pytest.approx(0.15), None, None, None]


def test_nothing_is_told_without_a_policy() -> None:
    assert caused_cpu("heavy", (None, sample(1, heavy=(1, 1)))) is None
    assert caused_cpu("heavy", (sample(1, heavy=(1, 1)), None)) is None
