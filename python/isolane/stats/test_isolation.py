import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.stats.isolation import max_min_fair, paired_ratios, share_errors

amounts = st.lists(st.floats(0, 1e9), min_size=1, max_size=10)


@pytest.mark.parametrize(
    ("demands", "capacity", "shares"),
    [
        ([400, 1088], 1120, [400, 720]),  # Rathore 2013, table 1: the last row is max-min fair
        ([10, 10], 6, [3, 3]),
        ([1, 10, 10], 13, [1, 6, 6]),
        ([2, 3], 100, [2, 3]),
        ([5, 0], 3, [3, 0]),
    ],
)
def test_known_allocations(demands: list[float], capacity: float, shares: list[float]) -> None:
    assert max_min_fair(demands, capacity) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("demands", "weights", "shares"),
    [
        ([100, 100], [2, 1], [40, 20]),
        ([10, 100, 100], [1, 2, 3], [10, 20, 30]),  # the first wants less than its 10
        ([20, 100, 100], [3, 2, 1], [20, 80 / 3, 40 / 3]),
        ([5, 1], [1, 9], [5, 1]),
    ],
)
def test_known_weighted_allocations(
    demands: list[float], weights: list[float], shares: list[float]
) -> None:
    assert max_min_fair(demands, 60, weights) == pytest.approx(shares)


def test_a_share_by_weight_is_no_error() -> None:
    assert share_errors([900, 900], [400, 200], [2, 1]) == pytest.approx([0, 0])
    assert share_errors([900, 900], [400, 200]) == pytest.approx([100 / 6, -100 / 6])


@given(amounts, st.floats(0, 1e10))
def test_allocation_is_fair_and_complete(demands: list[float], capacity: float) -> None:
    shares = max_min_fair(demands, capacity)
    assert sum(shares) == pytest.approx(min(capacity, sum(demands)), abs=1e-3)
    assert all(share <= demand for share, demand in zip(shares, demands, strict=True))
    largest = max(shares)
    for share, demand in zip(shares, demands, strict=True):
        if share < demand - 1e-3:  # who is short has no less than anybody else
            assert share == pytest.approx(largest, rel=1e-6, abs=1e-3)


def test_share_errors_of_a_starved_victim() -> None:
    # Fair would be 200 of 800 for the victim; it got 100.
    assert share_errors([200, 3000], [100, 700]) == pytest.approx([-12.5, 12.5])


def test_share_errors_when_all_is_served() -> None:
    assert share_errors([200, 300], [200, 300]) == pytest.approx([0, 0])


def test_a_frame_from_before_the_window_is_no_error() -> None:
    assert share_errors([100, 100], [101, 100]) == pytest.approx([0, 0])


@pytest.mark.parametrize(("demands", "served"), [([5], [5]), ([5, 5], [0, 0]), ([], [])])
def test_shares_that_mean_nothing(demands: list[float], served: list[float]) -> None:
    assert share_errors(demands, served) is None


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=2, max_size=8))
def test_share_errors_add_up_to_zero(pairs: list[tuple[float, float]]) -> None:
    errors = share_errors([a for a, _ in pairs], [b for _, b in pairs])
    assert errors is None or sum(errors) == pytest.approx(0, abs=1e-6)


def test_ratios_are_paired_by_repeat() -> None:
    assert paired_ratios({0: 5.0, 1: 6.0, 3: 1.0}, {0: 10.0, 1: 8.0, 2: 9.0}) == {0: 0.5, 1: 0.75}


def test_a_reference_of_zero_gives_no_ratio() -> None:
    assert paired_ratios({0: 5.0}, {0: 0.0}) == {}
