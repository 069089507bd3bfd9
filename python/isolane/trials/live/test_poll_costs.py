from __future__ import annotations

import random

import pytest

from isolane._native import PollSums
from isolane.trials.live.poll_costs import frame_costs


def sums(polls: list[tuple[int, int, int]]) -> PollSums:
    """Return the sums over polls of (passed, dropped, ns)."""
    return PollSums(
        polls=len(polls),
        ns=sum(ns for _, _, ns in polls),
        ns_ns=sum(ns * ns for _, _, ns in polls),
        passed=sum(p for p, _, _ in polls),
        dropped=sum(d for _, d, _ in polls),
        passed_passed=sum(p * p for p, _, _ in polls),
        passed_dropped=sum(p * d for p, d, _ in polls),
        dropped_dropped=sum(d * d for _, d, _ in polls),
        passed_ns=sum(p * ns for p, _, ns in polls),
        dropped_ns=sum(d * ns for _, d, ns in polls),
    )


def made(
    count: int, *, noise_ns: float = 0.0, drops: float = 0.5, passed_ns: int = 240
) -> PollSums:
    """Return polls of up to 64 frames: 800 ns each, and 90 ns for a drop."""
    source, polls = random.Random(1), []
    for _ in range(count):
        frames = source.randrange(65)
        dropped = sum(source.random() < drops for _ in range(frames))
        exact = 800 + passed_ns * (frames - dropped) + 90 * dropped
        polls.append((frames - dropped, dropped, max(0, round(source.gauss(exact, noise_ns)))))
    return sums(polls)


def test_both_costs_are_found_exactly_without_noise() -> None:
    found = frame_costs(made(5_000))
    assert found is not None
    assert found.passed_ns == pytest.approx(240, rel=1e-6)
    assert found.dropped_ns == pytest.approx(90, rel=1e-6)


def test_both_costs_are_found_in_noise_within_their_error() -> None:
    found = frame_costs(made(20_000, noise_ns=2_000))
    assert found is not None
    assert found.passed_ns == pytest.approx(240, rel=0.05)
    assert found.dropped_ns == pytest.approx(90, rel=0.15)


@pytest.mark.parametrize(
    "polls",
    [
        made(100),
        made(5_000, drops=0.0),
        made(5_000, drops=0.005),
        made(2_000, noise_ns=50_000),
        sums([(32, 32, 5_000)] * 5_000),
        sums([]),
    ],
    ids=["few polls", "no drops", "hardly a drop", "noise", "always the same mixture", "nothing"],
)
def test_what_cannot_be_demultiplexed_is_not(polls: PollSums) -> None:
    assert frame_costs(polls) is None
