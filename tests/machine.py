"""Who looks at all of the machine waits for the tests that run beside others, and they for it.

Each has a host of its own (tools/private-host). But a trace of the kernel's polls, say, has those
of all hosts, by names of interfaces that are the same on each.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 300.0
_LOCK = Path(__file__).parent.parent / ".build" / "machine.lock"


@contextmanager
def shared() -> Iterator[None]:
    """Be one of those that may run beside each other."""
    with _locked(fcntl.LOCK_SH):
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Have none of those do anything meanwhile, nor their interfaces. It cannot be nested."""
    with _locked(fcntl.LOCK_EX):
        await_removed_namespaces()
        yield


def await_removed_namespaces() -> None:
    """Wait until the kernel has cleared up the network namespaces that are on their way out.

    It takes them in turn, and so one last: whose interface has its other end here.
    """
    end = "isl-last"
    add = f"ip link add isl-first type veth peer name {end} netns {os.getpid()}"
    subprocess.run(["unshare", "--net", "sh", "-c", add], check=True)
    deadline = time.monotonic() + LIMIT_S
    while end in (name for _, name in socket.if_nameindex()):
        assert time.monotonic() < deadline, "network namespaces are not cleared up"
        time.sleep(0.005)


@contextmanager
def _locked(how: int) -> Iterator[None]:
    _LOCK.parent.mkdir(exist_ok=True)
    with _LOCK.open("ab") as file:
        fcntl.flock(file, how)
        yield
