"""What holds for all tests with a running back-end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from isolane.netback import DIRECTORY

from tests.live import assert_same_host, quiet_host


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = quiet_host()
    yield
    assert not DIRECTORY.exists()
    assert_same_host(before)
