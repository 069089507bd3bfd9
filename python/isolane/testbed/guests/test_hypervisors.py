"""What a host must have for virtual machines; each lack is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported
from isolane.procfs import memory_info
from isolane.testbed.guests import GUEST_MEMORY_BYTES, choose, hypervisors, need_memory


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hypervisors, "UML", tmp_path / "linux.uml")
    with pytest.raises(NotSupported, match="install the Debian package user-mode-linux"):
        choose("auto")


@pytest.mark.parametrize("asked", ["kvm", "tcg"])
def test_what_this_version_cannot_run_is_refused(asked: str) -> None:
    with pytest.raises(NotSupported, match=f"hypervisor {asked}: .*User-Mode Linux only"):
        choose(asked)


def test_too_little_memory_is_refused_with_the_sum() -> None:
    free = memory_info()["MemAvailable"]
    count = free // GUEST_MEMORY_BYTES * 2 + 2
    with pytest.raises(NotSupported, match=f"need {count * 64} MB of memory, and \\d+ MB are"):
        need_memory(count)
    need_memory(1)
