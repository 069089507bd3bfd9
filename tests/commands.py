"""The command as a process of its own, without a second of imports for each call."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LIMIT_S = 600.0
"""How long an answer may take: a limit for what hangs. Jobs have limits of their own."""


@dataclass(frozen=True)
class Job:
    """A command line, and what its process is to be like."""

    arguments: list[str]
    env: Mapping[str, str]
    stdout: str
    """Path, or ``closed``; so are the others."""
    stderr: str
    stdin: str = "/dev/null"
    cwd: str = field(default_factory=os.getcwd)
    limits: Mapping[str, int] = field(default_factory=dict)
    """Name of a limit, such as ``nofile`` -> its value."""
    netns: str = field(
        default_factory=lambda: f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
    )
    """The network namespace; by default the caller's."""
    cores: list[int] = field(default_factory=lambda: sorted(os.sched_getaffinity(0)))
    limit_s: float = 300.0
    ended_file: str = ""
    """Where its status is written once it has ended; empty: it is waited for."""
    begin_file: str = ""
    """It begins once this file is there; empty: at once."""
    code: str = ""
    """Python that is run in place of the command; it finds the arguments in sys.argv."""


@dataclass(frozen=True)
class Ended:
    """What became of a job."""

    status: int | None
    """As of :class:`subprocess.Popen`; None: it took longer than it may."""
    pid: int
    """Number of its process and of its process group."""


class Begun:
    """A command at work in the background; in what it is asked, a :class:`subprocess.Popen`."""

    def __init__(self, pid: int, ended: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """Return the exit status (minus the signal that ended it); None while it runs."""
        if self.returncode is None and self._ended.exists():
            self.returncode = int(self._ended.read_text())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.002)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.send_signal(signal.SIGKILL)


class CommandServer:
    """A process that has imported all that commands import, and forks for each of them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        argv = [sys.executable, "-m", "tests.command_server", str(theirs.fileno())]
        # Threads do not survive a fork.
        made = {**env, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"}
        self.process = subprocess.Popen(argv, cwd=ROOT, env=made, pass_fds=(theirs.fileno(),))
        theirs.close()
        ours.settimeout(LIMIT_S)
        self._socket = ours
        self._answers = ours.makefile("r", encoding="utf-8")
        self._mounts = mounts_of("self")
        self._turn = threading.Lock()
        assert json.loads(self._answers.readline()) == "ready"

    def is_like_us(self) -> bool:
        """Tell whether its processes see the mounts that this one sees."""
        return mounts_of("self") == self._mounts

    def do(self, job: Job) -> Ended:
        """Carry out a job and wait for its end."""
        with self._turn:
            self._socket.sendall(json.dumps(asdict(job)).encode() + b"\n")
            answer: Any = json.loads(self._answers.readline())
        return Ended(answer["status"], answer["pid"])

    def begin(self, job: Job) -> Begun:
        """Begin a job that is not waited for."""
        assert job.ended_file
        return Begun(self.do(job).pid, Path(job.ended_file))


def mounts_of(process: str) -> int:
    """Number of a process's mount namespace."""
    return Path(f"/proc/{process}/ns/mnt").stat().st_ino


_SERVERS: dict[int, CommandServer] = {}


def command_server(env: Mapping[str, str]) -> CommandServer:
    """Return the server of this process, which is started when it is first asked for.

    It ends when this process has ended.
    """
    mine = os.getpid()
    if mine not in _SERVERS:
        _SERVERS[mine] = CommandServer(env)
    return _SERVERS[mine]


def is_command_server(pid: int) -> bool:
    """Tell whether a process is one of ours, and not what a test has started."""
    return any(server.process.pid == pid for server in _SERVERS.values())
