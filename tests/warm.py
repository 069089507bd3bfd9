"""The command line, that begins when told to: so that it is killed at work, not at its start."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.commands import Begun
from tests.live import begin


@dataclass(frozen=True)
class Warm:
    """A command that waits to be told."""

    process: Begun
    begin_file: Path

    def begin(self) -> Begun:
        """Tell it to begin."""
        self.begin_file.touch()
        return self.process


@contextlib.contextmanager
def warm(*words: object) -> Iterator[Warm]:
    """A command that has imported everything, and waits; it does not outlive the context."""
    with tempfile.TemporaryDirectory(prefix="isolane-warm-") as folder:
        told = Path(folder, "begin")
        process = begin(Path(folder), *words, begin_file=told)
        try:
            yield Warm(process, told)
        finally:
            process.kill()
            process.wait()
