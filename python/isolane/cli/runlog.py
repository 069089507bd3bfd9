"""What `isolane run` keeps beside the results: its log, and words on how to go on."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from isolane.errors import IsolaneError, MeasurementError

if TYPE_CHECKING:
    from isolane.run.folder import RunFolder


class _LogFile(logging.FileHandler):
    """A log that may end where the disk does: results count, and they tell on their own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self._told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        if not self._told:
            self._told = True
            reason = (error.strerror or str(error)).lower()
            print(f"isolane: {self._path} is not complete: {reason}", file=sys.stderr)

    def close(self) -> None:
        with suppress(OSError):  # what could not be written has been told
            super().close()


@contextmanager
def logged(folder: RunFolder) -> Iterator[None]:
    """Write what happens into the run's log.

    Raises
    ------
    MeasurementError
        If the log cannot be opened.
    """
    from isolane.run.folder import LOG

    path = folder.path / LOG
    try:
        handler = _LogFile(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MeasurementError(f"{path}: cannot be written: {reason}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("isolane")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def resumable(folder: RunFolder) -> Iterator[None]:
    """Say what is kept, and how to go on, whatever ends a run early."""
    try:
        yield
    except BaseException:
        kept = 0
        with suppress(IsolaneError):
            kept = sum(trial.status != "failed" for trial in folder.trials())
        path = shlex.quote(str(folder.path))
        trials = "1 trial is" if kept == 1 else f"{kept} trials are"
        print(
            f"isolane: {trials} kept in {folder.path}; go on with: isolane run --resume {path}",
            file=sys.stderr,
        )
        raise
