"""Whom a generator starves: real threads, and hosts of other sizes as data."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from isolane.trials.live import starving
from isolane.trials.live.starving import Thread, choose, warning

TWO = frozenset({0, 1})
ROUTER = Thread(77, "napi/isl-in0-8193", frozenset({0}))
FREE = Thread(78, "anywhere", TWO)


def test_a_core_that_nobody_is_bound_to_starves_nobody() -> None:
    assert warning(1, [0, 1], TWO, [ROUTER, FREE]) is None


def test_the_core_its_threads_and_a_remedy_are_named() -> None:
    assert warning(0, [0, 1], TWO, [ROUTER, FREE]) == (
        "core 0 is the only one that napi/isl-in0-8193 (77) may run on: they get next to nothing "
        "while this sends; name another core: --core 1"
    )


def test_many_are_counted() -> None:
    others = [Thread(number, f"t{number}", frozenset({0})) for number in range(5)]
    found = warning(0, [0, 1], TWO, others) or ""
    assert "t0 (0), t1 (1), t2 (2) and 2 more" in found


def test_where_no_other_core_may_be_used_the_remedy_is_another() -> None:
    found = warning(0, [0], TWO, [ROUTER]) or ""
    assert "taskset -p" in found
    assert "--core" not in found


@pytest.mark.parametrize("others", [[], [ROUTER]])
def test_on_a_host_of_one_core_all_others_starve(others: list[Thread]) -> None:
    found = warning(0, [0], frozenset({0}), others) or ""
    assert found.startswith("core 0 is the only one of this host: everything else")
    assert "another machine" in found


def test_the_core_with_the_fewest_bound_threads_is_chosen() -> None:
    assert choose([1, 0], [FREE]) == 0
    assert choose([0, 1], [ROUTER, FREE]) == 1
    assert choose([0, 1], [ROUTER, Thread(79, "x", frozenset({1}))]) == 0
    assert choose([0], [ROUTER]) == 0


@pytest.fixture
def bound() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may run on the last core only."""
    core = max(os.sched_getaffinity(0))
    process = subprocess.Popen(["sleep", "infinity"])
    try:
        os.sched_setaffinity(process.pid, {core})
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_bound_process_is_found(bound: subprocess.Popen[bytes]) -> None:
    found = {thread.pid: thread for thread in starving.threads()}
    assert found[bound.pid].cores == {max(os.sched_getaffinity(0))}
    assert os.getpid() not in found
    names = {thread.name for thread in found.values()}
    assert any(line.startswith("ksoftirqd/") for line in _kernel_threads()), "each core has one"
    assert not [name for name in names if name.startswith(("ksoftirqd/", "migration/"))]


def _kernel_threads() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if entry.name.isdecimal():
                yield (entry / "comm").read_text()


def test_the_hosts_cores_are_counted() -> None:
    assert os.sched_getaffinity(0) <= starving.online()
