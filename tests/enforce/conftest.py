"""Fixtures of the tests of policies on running routers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.enforce.rig import Rig, rigged


@pytest.fixture(autouse=True)
def _root(needs_root: None) -> None:
    """All tests here build test beds."""


@pytest.fixture
def make_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rig]]:
    """Make a rig: ``make_rig(routers=2, path="isolane", ip=4)``."""
    with contextlib.ExitStack() as stack:

        def make(routers: int = 2, path: str = "isolane", ip: int = 4) -> Rig:
            rig = stack.enter_context(rigged(tmp_path, routers, path, ip))
            monkeypatch.setenv("ISOLANE_POLICY", rig.tag)
            return rig

        yield make


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    """Two routers, vr1 and vr2, that share two NICs."""
    return make_rig()
