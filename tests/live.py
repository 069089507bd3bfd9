"""What the end-to-end tests share: the command, and what a host looks like before and after."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isolane.testbed import NETNS_DIR

from tests.commands import Begun, CommandServer, Job, command_server
from tests.look import HELD, MARK, RUN_DIR, Look, look_around

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "isolane"]
LIMIT_S = 300.0
"""How long anything may take that is waited for: a limit for what hangs, not for what is slow."""
FREE_S = LIMIT_S
"""How long to wait for others on this machine that hold the test bed's lock."""
STARVES = re.compile(r"isolane: warning: core \d+ is the only one that .*\n?")
"""What ``generate`` says of threads that somebody else has pinned to its core."""
SETTLE_S = 60.0
"""How long the kernel (and others on this machine) may take until a host looks as before."""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), MARK: str(os.getpid())}


def isolane(
    *arguments: object, prefix: tuple[str, ...] = (), netns: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; one that another run on this machine held up is tried again.

    With a prefix its process has an interpreter that was started for it, else one that was forked,
    in the caller's network namespace or in one that has a name.
    """
    words = [str(argument) for argument in arguments]
    deadline = time.monotonic() + FREE_S
    server = command_server(environment())
    while True:
        if prefix or not server.is_like_us():
            assert not netns, "a process of its own is in the caller's namespace"
            done = subprocess.run(
                [*prefix, *COMMAND, *words],
                env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
            )  # fmt: skip
        else:
            done = _forked(server, words, netns)
        assert "Traceback" not in done.stderr, done.stderr
        if "another run is under way" not in done.stderr or time.monotonic() > deadline:
            return done
        time.sleep(0.2)


def _forked(
    server: CommandServer, words: list[str], netns: str
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="isolane-test-") as folder:
        out, err = Path(folder, "stdout"), Path(folder, "stderr")
        out.touch()
        err.touch()
        job = Job(words, environment(), stdout=str(out), stderr=str(err), limit_s=LIMIT_S)
        ended = server.do(replace(job, netns=str(NETNS_DIR / netns)) if netns else job)
        assert ended.status is not None, f"isolane {' '.join(words)}: not within {LIMIT_S} s"
        return subprocess.CompletedProcess(words, ended.status, out.read_text(), err.read_text())


def in_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Do the same without a process of its own: many times faster, for what ends at once."""
    from isolane.cli.app import build, guarded, needed  # noqa: PLC0415 - only some tests need it

    out, err = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    hook, logger = sys.unraisablehook, logging.getLogger("isolane")
    level, propagate = logger.level, logger.propagate
    words = [str(argument) for argument in arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = guarded(lambda: build(needed(words))(words, prog_name="isolane"))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
        logger.setLevel(level)
        logger.propagate = propagate
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def transmit(raw: socket.socket, frame: bytes) -> bool:
    """Send a frame from a packet socket; False where the other end's ring is full.

    Such a frame is sent and lost: veth drops it, counts it, and says so (ENOBUFS). However slowly
    a test sends, a machine that does not run the other end's poll fills any ring.
    """
    try:
        raw.send(frame)
    except OSError as error:
        if error.errno != errno.ENOBUFS:
            raise
        return False
    return True


def begin(
    folder: Path,
    *words: object,
    begin_file: Path | None = None,
    netns: str = "",
    code: str = "",
) -> Begun:
    """Begin the command in the background, with its output in files of a folder.

    In the caller's network namespace, or in one that has a name. Code, which is Python, is begun in
    place of the command.
    """
    server, job = command_server(environment()), [str(word) for word in words]
    assert server.is_like_us(), "it would not see the mounts that this process sees"
    streams = [folder / name for name in ("stdout", "stderr")]
    for stream in streams:
        stream.write_bytes(b"")
    (folder / "ended").unlink(missing_ok=True)
    out, err = map(str, streams)
    at_once = Job(job, environment(), stdout=out, stderr=err, ended_file=str(folder / "ended"))
    at_once = replace(at_once, begin_file=str(begin_file or ""), code=code)
    return server.begin(replace(at_once, netns=str(NETNS_DIR / netns)) if netns else at_once)


@dataclass
class Process:
    """The command at work, started in the background."""

    arguments: tuple[str, ...]
    folder: Path
    """Its output is kept in files there: nobody has to read pipes meanwhile."""
    fresh: bool = False
    """Whether it has an interpreter of its own, and so its own command line: that takes longer."""
    begun: Begun | subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        if not self.fresh:
            self.begun = begin(self.folder, *self.arguments)
            return
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            self.begun = subprocess.Popen(
                [*COMMAND, *self.arguments], env=environment(), stdout=out, stderr=err
            )

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def until(self, what: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Wait for something that the process is to bring about."""
        deadline = time.monotonic() + limit_s
        while not what():
            assert self.begun.poll() is None, f"ended with {self.begun.returncode}: {self.stderr}"
            assert time.monotonic() < deadline, f"not within {limit_s} s: {self.stderr}"
            time.sleep(0.005)

    def end(self, number: int = 0, limit_s: float = LIMIT_S) -> int:
        """Send a signal (0: none) and wait; returns the exit status."""
        if number:
            self.begun.send_signal(number)
        status = self.begun.wait(limit_s)
        assert "Traceback" not in self.stderr, self.stderr
        return status


def has(file: Path, what: bytes, times: int = 1) -> bool:
    """Whether something is so often in a file."""
    return file.read_bytes().count(what) >= times


@contextlib.contextmanager
def background(folder: Path, *arguments: object, fresh: bool = False) -> Iterator[Process]:
    """Start the command; whatever happens, it does not outlive the test."""
    folder.mkdir(parents=True, exist_ok=True)
    process = Process(tuple(map(str, arguments)), folder, fresh)
    try:
        yield process
    finally:
        if process.begun.poll() is None:
            process.begun.send_signal(signal.SIGTERM)
            try:
                process.begun.wait(60)
            except subprocess.TimeoutExpired:
                process.begun.kill()
        process.begun.wait()


@contextlib.contextmanager
def running(
    folder: Path, experiment: Path, *more: str, fresh: bool = False
) -> Iterator[tuple[Process, Path]]:
    """Start ``isolane run`` and wait until it holds the lock and has made its run folder."""
    deadline = time.monotonic() + FREE_S
    target = folder / "run"
    while True:
        await_free()
        words = "run", experiment, "--output", target, *more
        with background(folder, *words, fresh=fresh) as process:
            try:
                process.until((target / "trials.jsonl").exists)
            except AssertionError:
                busy = "another run is under way" in process.stderr
                if not busy or time.monotonic() > deadline:
                    raise
                continue
            yield process, target
            return


def lock_holder() -> int | None:
    """The process that holds the test bed's lock."""
    with contextlib.suppress(OSError):
        inode = (RUN_DIR / "lock").stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            parts = line.split()
            if parts[1] == "FLOCK" and parts[5].endswith(f":{inode}"):
                return int(parts[4])
    return None


def await_free() -> None:
    """Wait until nobody on this machine holds the test bed's lock."""
    deadline = time.monotonic() + FREE_S
    while (pid := lock_holder()) is not None:
        assert time.monotonic() < deadline, f"process {pid} holds {RUN_DIR}/lock"
        time.sleep(0.02)


def kill_inside(opened: Callable[[], AbstractContextManager[object]]) -> None:
    """Have a process of its own enter a context, and kill it there, as `kill -9` does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with opened():
                os.write(writing, b"up")
                time.sleep(LIMIT_S)
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 2) == b"up"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)


def quiet_host() -> Look:
    """The host while nobody on this machine has a test bed."""
    while True:
        await_free()
        found = look_around()
        if lock_holder() is None:
            return found


def assert_same_host(before: Look) -> None:
    """What is left may take a moment to go: threads end after their interfaces."""
    changed = changes(before)
    assert not changed, f"(before, after): {changed}"


def changes(before: Look) -> dict[str, tuple[Any, Any]]:
    """Return what is another than before, and stays so: what -> before and after."""
    deadline = time.monotonic() + SETTLE_S
    while (found := _changes(before, look_around())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _changes(before: Look, after: Look) -> dict[str, tuple[Any, Any]]:
    """Tell what differs; that something was open no longer is no fault."""
    return {
        key: (before[key], after[key])
        for key in before
        if (set(after[key]) - set(before[key]) if key == HELD else before[key] != after[key])
    }
