"""Files that grow by whole lines: a line that a crash cut short is ignored."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def append_line(path: Path, line: bytes) -> None:
    """Append a line, overwrite an incomplete one at the end, and wait until the disk has it.

    Raises
    ------
    OSError
        If that failed; what was there before is unchanged.
    """
    line += b"\n"
    descriptor = os.open(path, os.O_RDWR)
    try:
        end = _end_of_last_line(descriptor)
        os.lseek(descriptor, end, os.SEEK_SET)
        try:
            _write_all(descriptor, line)
            os.ftruncate(descriptor, end + len(line))
            os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, end)
            raise
    finally:
        os.close(descriptor)


def complete_lines(path: Path) -> list[bytes]:
    """Read all lines but a last one that a crash cut short."""
    return path.read_bytes().split(b"\n")[:-1]


def _end_of_last_line(descriptor: int) -> int:
    """Find where the file's last complete line ends, bytes, before any incomplete one."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65_536)
        block = os.pread(descriptor, end - start, start)
        if not block:
            return 0
        newline = block.rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_all(descriptor: int, content: bytes) -> None:
    while content:  # a nearly full disk takes a part first and refuses the rest
        content = content[os.write(descriptor, content) :]
