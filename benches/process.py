"""Starting a generator as a process of its own, and ending it whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from isolane.errors import MeasurementError, NotSupported

from benches.common import GENERATOR_CORE, RECEIVER_CORE
from benches.wire import Wire

FLOW_LIMIT_S = 15.0
"""Python and DPDK need about a second to start on an idle machine."""
SETTLE_S = 0.3
GRACE_S = 3.0
END_S = 10.0
FLOWING = 1000
"""Frames after which a tool counts as under way."""
SEND_BUFFER = Path("/proc/sys/net/core/wmem_default")
SEND_BUFFER_BYTES = 4 << 20
"""What trafgen itself would set in the host's own namespace."""


@contextmanager
def larger_send_buffers() -> Iterator[None]:
    """Let sockets that are made meanwhile have a larger send buffer; then it is as before.

    With the usual 208 KiB trafgen gives up at once ("Flushing TX_RING failed: Resource temporarily
    unavailable"): a veth holds more frames than the buffer does. trafgen sets the buffers of the
    host for its run, but cannot from another namespace. Only the tool's start needs it.
    """
    before = SEND_BUFFER.read_text()
    with suppress(OSError):  # not permitted: then the tool says what it thinks of that
        SEND_BUFFER.write_text(str(max(SEND_BUFFER_BYTES, int(before))))
    try:
        yield
    finally:
        with suppress(OSError):
            SEND_BUFFER.write_text(before)


@contextmanager
def sending(argv: Sequence[str], wire: Wire, env: dict[str, str]) -> Iterator[None]:
    """Run a tool in the wire's sending namespace; its frames flow while the context lasts.

    Raises
    ------
    NotSupported
        If the tool is not installed.
    MeasurementError
        If it sends nothing or ends by itself; with its last words.
    """
    if shutil.which(argv[0]) is None:
        raise NotSupported(f"{argv[0]} is not installed: make bench-setup")
    with tempfile.TemporaryFile() as log:
        with larger_send_buffers():
            process = _start(argv, wire, env, log.fileno())
            try:
                flowing = _await_frames(process, wire)
            except BaseException:
                _end(process)
                raise
        try:
            if flowing:
                time.sleep(SETTLE_S)
                yield
            if not flowing or process.poll() is not None:
                log.seek(0)
                what = "ended by itself" if flowing else "sent nothing"
                raise MeasurementError(f"{argv[0]} {what}: {_last_words(log.read())}")
        finally:
            _end(process)


def _start(
    argv: Sequence[str], wire: Wire, env: dict[str, str], log: int
) -> subprocess.Popen[bytes]:
    # None of the wrappers forks, so the process that is started is the tool's.
    command = [
        *("setpriv", "--pdeathsig", "KILL"),
        *("taskset", "--cpu-list", f"{GENERATOR_CORE},{RECEIVER_CORE}"),
        *("nsenter", f"--net={wire.target.netns}"),
        *argv,
    ]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # testpmd runs for as long as its input is open
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, **env},
    )


def _await_frames(process: subprocess.Popen[bytes], wire: Wire) -> bool:
    """Wait for the first frames; false when none come."""
    start, deadline = wire.count().offered, time.monotonic() + FLOW_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        if wire.count().offered - start >= FLOWING:
            return True
        time.sleep(0.02)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tool and its children: its process group is its own, as Ctrl-C would find it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
            break
    with suppress(ProcessLookupError):  # children that outlived their parent
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()


def terminate(process: subprocess.Popen[Any]) -> None:
    """End a process that has no children by SIGTERM, or else by SIGKILL; close its streams."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _last_words(output: bytes) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and "socket memory" not in line]
    return " / ".join(lines[-3:]) or "without a word"
