from __future__ import annotations

import os

import pytest

from isolane.errors import NotSupported
from isolane.trials.live.cores import divide, staying_on


@pytest.mark.parametrize(
    ("dut", "available", "expected"),
    [
        (1, (0, 1), ((1,), (0,))),
        (1, (0, 1, 2, 3), ((3,), (0, 1, 2))),
        (2, (0, 1, 2, 3), ((2, 3), (0, 1))),
        (1, (4, 7), ((7,), (4,))),
    ],
)
def test_the_last_cores_are_the_device_under_test(
    dut: int, available: tuple[int, ...], expected: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    cores = divide(dut, available)
    assert (cores.dut, cores.measure) == expected


@pytest.mark.parametrize(("dut", "available"), [(1, (0,)), (2, (0, 1)), (8, (0, 1))])
def test_without_a_core_to_measure_on_it_says_how_many_are_needed(
    dut: int, available: tuple[int, ...]
) -> None:
    with pytest.raises(NotSupported, match=rf"{dut} core\(s\) .* and {len(available)} may be used"):
        divide(dut, available)


def test_this_host_is_divided_by_what_the_process_may_use() -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("needs two cores")
    cores = divide(1)
    assert (*cores.measure, *cores.dut) == tuple(usable)


def test_affinity_is_given_back_after_an_error() -> None:
    before = os.sched_getaffinity(0)
    first = (min(before),)
    seen: list[set[int]] = []

    def fail() -> None:
        with staying_on(first):
            seen.append(os.sched_getaffinity(0))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert seen == [set(first)]
    assert os.sched_getaffinity(0) == before
