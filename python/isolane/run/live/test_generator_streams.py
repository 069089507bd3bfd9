from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from isolane.run.live.generator_streams import size_cycle
from isolane.spec import IMIX

weights = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(weights)
def test_a_cycle_has_each_size_as_often_as_its_weight(parts: list[int]) -> None:
    sizes = [(64 + i, weight) for i, weight in enumerate(parts)]
    assert Counter(size_cycle(sizes)) == dict(sizes)


@given(weights)
def test_no_size_is_ever_far_from_its_share(parts: list[int]) -> None:
    sizes = [(64 + i, weight) for i, weight in enumerate(parts)]
    cycle = size_cycle(sizes)
    for end in range(1, len(cycle) + 1):
        for size, weight in sizes:
            share = weight * end / len(cycle)
            assert abs(cycle[:end].count(size) - share) < len(parts)


def test_imix_is_spread() -> None:
    cycle = size_cycle(IMIX)
    assert len(cycle) == 12
    assert Counter(cycle) == {64: 7, 594: 4, 1518: 1}
    largest_run = max(cycle.index(594), 3)
    assert largest_run <= 3, "the small frames do not come in one block"
    assert sum(cycle) / 12 == 4342 / 12


def test_one_size_is_a_cycle_of_one() -> None:
    assert size_cycle(((64, 1),)) == [64]
