from __future__ import annotations

import os

import pytest

from isolane.cli.core_option import usable_core
from isolane.errors import SpecError


def test_a_core_that_this_process_may_not_use_is_refused() -> None:
    first = min(os.sched_getaffinity(0))
    assert usable_core(first) == first
    for core in (100_000, -1):
        with pytest.raises(SpecError, match=f"--core {core}: .*; accepted: {first}"):
            usable_core(core)
