"""The pacemaker: the process that keeps the CPU scheduler choosing among a policy's routers."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.errors import TestbedError
from isolane.procfs import started

MODULE = "isolane.pacemaker"
_READY_S = 10.0
_END_S = 5.0


@dataclass(frozen=True)
class Pacemaker(Setting):
    """The pacemaker of a policy, ``group`` being the parent of its routers' cgroups."""

    kind: ClassVar[str] = "pacemaker"
    group: str

    def __str__(self) -> str:
        """Name it for the user."""
        return "pacemaker"

    def read(self, host: Host) -> Value:  # noqa: ARG002 - in no namespace
        """Return what the running pacemaker looks after; None when there is none."""
        work = [text for _, text in running(self.group)]
        return json.loads(work[0]) if len(work) == 1 else (work or None)

    def write(self, host: Host, value: Value) -> None:
        """End the running pacemaker, and start one that looks after ``value`` (None: do not)."""
        for process, _ in running(self.group):
            _end(process)
        if value is not None:
            process = _start(self.group, json.dumps(value))
            with suppress(OSError):  # where the controller is not mounted, nothing holds it back
                host.groups.move(process, "")


def running(group: str) -> Iterator[tuple[int, str]]:
    """Yield the pacemakers of a policy that run: process and work."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):  # processes come and go
            if entry.stat().st_uid != os.geteuid():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
            if words[-3:-1] == [MODULE.encode(), group.encode()]:
                yield int(entry.name), words[-1].decode()


def _start(group: str, work: str) -> int:
    """Start a pacemaker that outlives this process; wait until it runs."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", MODULE, group, work],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    assert child.stdout is not None and child.stderr is not None  # noqa: PT018 - asked for
    with child.stdout, child.stderr:
        heard, _, _ = select.select([child.stdout], [], [], _READY_S)
        if heard and child.stdout.readline() == b"ready\n":
            return child.pid
        _end(child.pid)
        lines = child.stderr.read().decode(errors="replace").strip().splitlines()
    why = lines[-1] if lines else f"it did not say ready within {_READY_S:.0f} s"
    raise TestbedError(f"the pacemaker did not start: {why}")


def _end(process: int) -> None:
    """End a pacemaker and wait until it is gone."""
    began = started(process)
    deadline = time.monotonic() + _END_S
    sign = signal.SIGTERM
    while began is not None and started(process) == began and not _reaped(process):
        with suppress(ProcessLookupError):
            os.kill(process, sign)
        if time.monotonic() > deadline:
            sign = signal.SIGKILL
        time.sleep(0.002)


def _reaped(process: int) -> bool:
    """Collect it if it is a child of this process that has ended."""
    with suppress(ChildProcessError):
        return os.waitpid(process, os.WNOHANG)[0] == process
    return False
