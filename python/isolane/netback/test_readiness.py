from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pytest

from isolane.netback.readiness import tell_ready


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"@{uuid.uuid4()}" if abstract else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        manager.bind(name.replace("@", "\0") if abstract else name)
        tell_ready()
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("name", ["", "/nobody/listens", "vsock:2:1"])
def test_without_one_nothing_happens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    tell_ready()
    monkeypatch.delenv("NOTIFY_SOCKET")
    tell_ready()
