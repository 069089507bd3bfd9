"""Which answers of the kernel mean that a namespace is gone, and which that something is wrong."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isolane import rtnl
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.host_namespace import open_namespace
from isolane.enforce.host_access import Host
from isolane.testbed import kernel, netns
from isolane.testbed.netns import Namespace

OWN = "/proc/self/ns/net"


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    os.close(made._home)  # close() enters a namespace, which takes rights


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EINVAL])
def test_a_namespace_that_has_gone_is_none(
    code: int, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", failing(code))
    assert host.namespace(OWN) is None
    assert host.ifindex(OWN, "eth0") is None
    assert host.namespace("/proc/self/nowhere") is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_one_that_cannot_be_opened_for_lack_of_something_is_not_gone(
    code: int, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", failing(code))
    with pytest.raises(OSError, match=rf"\[Errno {code}\]"):
        host.namespace(OWN)
    with pytest.raises(OSError, match=rf"\[Errno {code}\]"):
        open_namespace(Path(OWN), "it has gone")
    monkeypatch.setattr(os, "open", failing(errno.ENOENT))
    with pytest.raises(Absent, match="it has gone"):
        open_namespace(Path(OWN), "it has gone")


@pytest.mark.parametrize("step", ["enter", "open_detached", "IPRoute"])
def test_what_is_opened_in_part_is_closed(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Namespace, "enter", lambda _: None)
    monkeypatch.setattr(kernel, "open_detached", lambda: os.open("/", os.O_RDONLY))
    where = {"enter": Namespace, "open_detached": kernel, "IPRoute": rtnl}[step]
    monkeypatch.setattr(where, step, failing(errno.EMFILE))
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - as many as there are
    with pytest.raises(OSError, match="Too many open files"):
        netns.Namespace("one", os.open(OWN, os.O_RDONLY | os.O_CLOEXEC))
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208
