"""What /proc tells of a virtual machine's process: arguments, threads, taps, namespace."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from isolane.enforce.find.absent import Absent
from isolane.errors import NotSupported
from isolane.procfs import named_processes, words_of

PROC: Final = Path("/proc")
_TUN_DEVICE: Final = os.makedev(10, 200)


def netns_file(pid: int) -> Path:
    """Return the file of a process's network namespace."""
    return PROC / str(pid) / "ns/net"


def command_line(pid: int) -> tuple[str, ...]:
    """Return a process's arguments.

    Raises
    ------
    Absent
        When there is no such process, or it is a zombie.
    """
    words = words_of(pid)
    if not words:
        raise Absent(f"there is no process {pid}")
    return tuple(os.fsdecode(word) for word in words)


def threads_of_machine(pid: int) -> tuple[int, ...]:
    """Return the threads of a virtual machine: vCPUs, QEMU's own, and vhost workers.

    Since Linux 6.4 vhost workers are threads of the process, before that kernel threads with its
    number in their names.

    Raises
    ------
    Absent
        When there is no such process.
    """
    try:
        own = [int(entry.name) for entry in (PROC / str(pid) / "task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        raise Absent(f"there is no process {pid}") from None
    workers = (process for process, name in named_processes() if name == f"vhost-{pid}")
    return tuple(sorted({*own, *workers}))


def all_processes() -> Iterator[int]:
    """Yield the number of each process."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            yield int(entry.name)


def working_folder(pid: int) -> Path:
    """Return the current directory of a process."""
    return PROC / str(pid) / "cwd"


def tap_of(pid: int, descriptor: int) -> str | None:
    """Return the tap behind a file descriptor of a process; None: it is not a tap.

    Raises
    ------
    NotSupported
        Without the right to read the process's descriptors.
    """
    folder = PROC / str(pid)
    try:
        device = (folder / "fd" / str(descriptor)).stat()
        if not stat.S_ISCHR(device.st_mode):
            return None
        if device.st_rdev != _TUN_DEVICE:
            return _macvtap(device.st_rdev)
        info = (folder / f"fdinfo/{descriptor}").read_text()
        told = re.search(r"^iff:\s*(\S+)$", info, re.MULTILINE)
    except PermissionError:
        raise NotSupported(f"looking at the taps of process {pid} needs root") from None
    except OSError:  # closed meanwhile
        return None
    return None if told is None else told[1]


def _macvtap(device: int) -> str | None:
    """Return the macvtap interface whose character device this is, in whichever namespace."""
    found = Path(f"/sys/dev/char/{os.major(device)}:{os.minor(device)}")
    try:
        target = found.readlink()
    except OSError:
        return None
    # ../../devices/virtual/net/macvtap0/macvtap/tap7; older kernels have no folder of the kind.
    head, _, tail = str(target).partition("/net/")
    return tail.partition("/")[0] if head and target.name.startswith("tap") else None


def descriptors_of(pid: int) -> list[int]:
    """Return a process's file descriptors, sorted; none when it has ended.

    Raises
    ------
    NotSupported
        Without the right to read them.
    """
    try:
        return sorted(int(entry.name) for entry in (PROC / str(pid) / "fd").iterdir())
    except PermissionError:
        raise NotSupported(f"looking at what process {pid} has open needs root") from None
    except OSError:
        return []


def taps_of(pid: int) -> tuple[str, ...]:
    """Return all taps that a process has open, each once, in the order of its descriptors."""
    names = (tap_of(pid, descriptor) for descriptor in descriptors_of(pid))
    return tuple(dict.fromkeys(name for name in names if name is not None))
