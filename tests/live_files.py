"""Live tests alone are collected without importing the files of all others: half of the time.

A plugin of pytest, for ``-m root...``. Which files those are is told from their text, and whenever
all are collected, that this is so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.host_as_before import CHANGE_THE_HOST

_SIGNS = re.compile(rb"\bmark\.root\b|\b(%s)\b" % "|".join(sorted(CHANGE_THE_HOST)).encode())


def may_be_live(file: Path) -> bool:
    """Tell whether a file says anything that makes a test a live one."""
    return bool(_SIGNS.search(file.read_bytes()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over what holds no live test, where nothing else is asked for."""
    if not config.option.markexpr.startswith("root") or not collection_path.match("test_*.py"):
        return None
    return None if may_be_live(collection_path) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a live test that would be passed over: its file does not say that it has one."""
    live = {item.path for item in items if item.get_closest_marker("root")}
    if passed_over := sorted(str(file) for file in live if not may_be_live(file)):
        raise pytest.UsageError(f"live tests without a word of it: {', '.join(passed_over)}")
