"""The lock that lets one run work on this host, and the journals of what each run created.

Everything that outlives a process is written into the run's journal *before* it is made, and
carries a mark that names the run. Cleaning up removes only what is in a journal and carries that
journal's mark: a namespace of the user's survives whatever its name. The journals need no fsync:
when the machine stops, so do the namespaces.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from isolane import procfs
from isolane.errors import TestbedError
from isolane.locks import lock_soon

RUN_DIR = Path("/run/isolane")
_numbers = itertools.count()
_own: set[Path] = set()


class Journal:
    """The list of what this run creates; one JSON object a line, written before each step."""

    def __init__(self, directory: Path = RUN_DIR) -> None:
        self.run = f"{os.getpid()}-{procfs.started()}-{next(_numbers)}"
        self.path = directory / f"journal-{self.run}.jsonl"
        self.made: set[str] = set()
        """Kinds of things that were recorded."""
        _own.add(self.path)

    def record(self, what: str, **facts: str | int) -> None:
        """Record what the run is about to create.

        Raises
        ------
        TestbedError
            When the journal cannot be written; the caller must then create nothing.
        """
        self.made.add(what)
        try:
            with self.path.open("a") as file:
                file.write(json.dumps({"what": what, "run": self.run, **facts}) + "\n")
        except OSError as error:
            raise TestbedError(
                f"cannot write the journal {self.path}: {error.strerror}; nothing was created"
            ) from None

    def finish(self) -> None:
        """Delete the journal: everything in it has been removed."""
        self.path.unlink(missing_ok=True)
        self.made.clear()

    def close(self) -> None:
        """Give up the journal: the next clean-up removes what is still in it."""
        _own.discard(self.path)


@contextlib.contextmanager
def exclusive(directory: Path = RUN_DIR) -> Iterator[Journal]:
    """Hold the lock that lets one run at a time work on this host.

    The lock is a flock(2), which ends with the process, however that ends.

    Yields
    ------
    Journal
        The journal of this run, for :class:`~isolane.testbed.bed.Testbed`.

    Raises
    ------
    TestbedError
        When another run holds the lock; the message names its pid, start and command.
    """
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise TestbedError(
            f"cannot open {directory}/lock ({error.strerror}): the test bed needs root"
        ) from None
    try:
        try:
            lock_soon(lock)
        except BlockingIOError:
            raise TestbedError(f"another run is under way ({_holder(lock)})") from None
        _sign(lock)
        journal = Journal(directory)
        try:
            yield journal
        finally:
            journal.close()
            os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def _sign(lock: int) -> None:
    command = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    text = json.dumps(
        {
            "pid": os.getpid(),
            "started": datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": shlex.join(part.decode(errors="replace") for part in command),
        }
    )
    os.ftruncate(lock, 0)
    os.pwrite(lock, text.encode(), 0)


def _holder(lock: int) -> str:
    """Say who holds the lock; its holder signs within microseconds of taking it."""
    for _ in range(20):
        with contextlib.suppress(ValueError):
            facts = json.loads(os.pread(lock, 65536, 0))
            return f"pid {facts['pid']}, started {facts['started']}, command {facts['command']}"
        time.sleep(0.01)
    return f"which is not yet named in {RUN_DIR}/lock"


def left_behind(directory: Path = RUN_DIR) -> Iterator[tuple[Path, str]]:
    """Yield the journals of dead runs: file, run. The caller holds the lock."""
    for path in sorted(directory.glob("journal-*.jsonl")):
        if path not in _own:
            yield path, path.stem.removeprefix("journal-")


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Read the entries of a journal; the last line of a run that was killed may be cut short."""
    entries = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("what"), str):
                entries.append(entry)
    return entries
