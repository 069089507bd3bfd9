"""The log of `isolane run`, and its message on how to resume an interrupted run."""

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
    from isolane.results.folder import RunFolder


class _LogFile(logging.FileHandler):
    """A log file that stops when the disk is full; the run goes on, because its results count."""

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
            print(f"isolane: warning: {self._path} is incomplete: {reason}", file=sys.stderr)

    def close(self) -> None:
        with suppress(OSError):  # handleError() has reported it
            super().close()


@contextmanager
def logged(folder: RunFolder) -> Iterator[None]:
    """Write the messages of the package into the run's log.

    Raises
    ------
    MeasurementError
        If the log cannot be opened.
    """
    from isolane.results.folder import LOG

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
    """Say how many trials are kept and how to resume, when something ends a run early."""
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
