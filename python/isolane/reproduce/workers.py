"""Worker processes on all cores; after an interruption the finished results are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from isolane.reproduce.model import Item, Result
from isolane.trials.sim.worker import executor, stop, workers


@dataclass(frozen=True)
class Progress:
    """How many items of a list are done."""

    label: str
    done: int
    total: int


class Pool:
    """Worker processes; see :class:`isolane.reproduce.model.Workers`. Leaving it stops them.

    Parameters
    ----------
    jobs
        Number of processes; 1 works in this process. Default: the cores that may be used.
    watch
        Called after every result.
    """

    def __init__(
        self, jobs: int | None = None, watch: Callable[[Progress], None] = lambda _: None
    ) -> None:
        self._jobs = workers(jobs)
        self._watch = watch
        self._interrupted = False
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._executor is not None:
            stop(self._executor)
            self._executor = None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the work early."""
        return self._interrupted

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], label: str = ""
    ) -> list[Result]:
        """Return the results in order; after Ctrl-C those of the items before the first undone."""
        todo = list(items)
        found: list[Result] = []
        if self._interrupted:
            return found
        try:
            for result in self._results(function, todo):
                found.append(result)
                self._watch(Progress(label, len(found), len(todo)))
        except KeyboardInterrupt:
            self._interrupted = True
        return found

    def _results(self, function: Callable[[Item], Result], todo: list[Item]) -> Iterable[Result]:
        if self._jobs == 1 or len(todo) < 2:
            return map(function, todo)
        if self._executor is None:
            self._executor = executor(self._jobs)
        return self._executor.map(function, todo)
