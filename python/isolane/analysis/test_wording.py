import pytest

from isolane.analysis import wording
from isolane.results.results import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.41, "41"),
        (0.998, "99.8"),
        (0.987, "98.7"),
        (1.0, "100"),
        (0.0123, "1.2"),
        (0.0004, "0.04"),
        (0, "0"),
    ],
)
def test_percent(value: float, text: str) -> None:
    assert wording.percent(value) == text


def test_share_with_its_interval() -> None:
    assert wording.share(Interval(median=0.41, low=0.38, high=0.44, n=5)) == "41 % [38, 44]"
    assert wording.share(Interval(median=0.998, low=0.9, high=1, n=5)) == "99.8 % [90.0, 100.0]"
    assert wording.share(Interval(median=0.41, low=0.41, high=0.41, n=1)) == "41 %"


@pytest.mark.parametrize(
    ("value", "text"), [(4.0, "4"), (0.27, "0.27"), (12345.6, "12,300"), (9.999, "10"), (0, "0")]
)
def test_digits(value: float, text: str) -> None:
    assert wording.digits(value) == text


def test_listing() -> None:
    assert wording.listing(["a"]) == "a"
    assert wording.listing(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0 to 2"), ([6, 0, 4, 2, 1, 1], "0 to 2, 4, 6")],
)
def test_numbers_that_follow_each_other_are_written_together(numbers: list[int], text: str) -> None:
    assert wording.ranges(numbers) == text
