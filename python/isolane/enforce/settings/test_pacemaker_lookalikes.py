"""Processes that look like a policy's pacemaker, which anybody may start: none is taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from isolane import procfs
from isolane.enforce.host_access import Host
from isolane.enforce.settings import pacemaking
from isolane.enforce.settings.pacemaking import MODULE, Pacemaker, running

GROUP = f"isolane-test-lookalike-{os.getpid()}"
NO_HOST = cast("Host", None)
BEGUN_AND_WAITING = "print(1, flush=True); input()"


@contextmanager
def lookalike(work: bytes) -> Iterator[int]:
    words = (sys.executable, "-c", BEGUN_AND_WAITING, MODULE, GROUP, work)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_one_with_work_that_can_be_read_is_found() -> None:
    with lookalike(b'{"cores": []}') as process:
        assert list(running(GROUP)) == [(process, '{"cores": []}')]
        assert Pacemaker(GROUP).read(NO_HOST) == {"cores": []}


@pytest.mark.parametrize(
    "work", [b"\xff", b"no json", b"", b"7", b"[]", b"9" * 9999, b"[" * 99_999], ids=len
)
def test_one_without_is_not_ours_and_stops_nobody(work: bytes) -> None:
    with lookalike(work):
        assert list(running(GROUP)) == []
        assert Pacemaker(GROUP).read(NO_HOST) is None


def test_one_with_other_rights_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def words_of(process: int) -> tuple[bytes, ...]:
        asked.append(process)
        return procfs.words_of(process)

    monkeypatch.setattr(pacemaking, "words_of", words_of)
    with lookalike(b"{}") as process:
        real, look = procfs.effective_user(process), procfs.effective_user
        assert real == os.geteuid()
        user = lambda one: -1 if one == process else look(one)  # noqa: E731
        monkeypatch.setattr(pacemaking, "effective_user", user)
        assert list(running(GROUP)) == []
        assert os.getpid() in asked
        assert process not in asked, "it could make whoever asks wait"


def test_one_among_processes_of_its_own_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with lookalike(b"{}") as process:
        assert procfs.sees_processes_of(process)
        monkeypatch.setattr(pacemaking, "sees_processes_of", lambda _: False)
        assert list(running(GROUP)) == []
    assert not procfs.sees_processes_of(process)
    assert procfs.effective_user(process) is None
