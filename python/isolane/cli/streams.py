"""Handles standard streams that are closed or full, or whose encoding lacks a letter.

When data cannot be written to stdout, the command fails and says so. When a message cannot be
written to stderr, it is lost: it must not end a run of hours.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

from isolane.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ESCAPES: Final = "isolane-escapes"


def prepare() -> None:
    """Make all three standard streams usable, also those that the caller closed."""
    for number in (0, 1, 2):
        _occupy(number)
    if sys.stdin is None:  # Python has found the descriptor closed
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    codecs.register_error(_ESCAPES, _escaped)
    sys.stdout = _text(_Stdout(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Stderr(2, "w", closefd=False), sys.stderr, by_line=True)


def finish() -> None:
    """Flush stdout.

    Raises
    ------
    OutputError
        If it cannot be written.
    BrokenPipeError
        If nobody reads the pipe any more.
    """
    with suppress(ValueError):  # closed
        sys.stdout.flush()


def abandon() -> None:
    """Discard the buffer of stdout: Python would complain about it once more at its exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        sys.stdout.flush()


def _occupy(number: int) -> None:
    """Open a closed descriptor: else the next file that is opened would get it, and our output."""
    try:
        os.fstat(number)
    except OSError:
        # Open stdout for reading only: writing to it then fails, so that no data is lost silently.
        mode = os.O_RDWR if number == 2 else os.O_RDONLY
        nowhere = os.open(os.devnull, mode)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)


class _Stdout(io.FileIO):
    """Stdout whose errors name the reason and what to do."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            while (written := super().write(data)) is None:  # a terminal that does not block
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if error.errno == errno.EBADF:
                reason = "it is closed; redirect it to /dev/null if nobody needs the data"
            raise OutputError(f"stdout cannot be written to: {reason}") from None
        return written


class _Stderr(io.FileIO):
    """Stderr that drops messages which cannot be written."""

    def write(self, data: ReadableBuffer, /) -> int:
        with suppress(OSError):
            written = super().write(data)
            if written is not None:
                return written
        return memoryview(data).nbytes


def _text(raw: io.FileIO, like: TextIO | None, *, by_line: bool = False) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if like is None else like.encoding,
        errors=_ESCAPES,
        line_buffering=by_line or raw.isatty(),
    )


def _escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Replace letters that the encoding lacks by ``\uXXXX``, which is also valid in JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[i : i + 2] for i in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs), error.end
