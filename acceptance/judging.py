"""Measures every subject until its promises are decided or the time is over."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isolane.errors import IsolaneError
from isolane.stats.promises import Answer, Evidence, decide
from isolane.stats.sequential import pairs_needed
from isolane.verify.pace import Pace, Progress

from acceptance.disturbance import Watch
from acceptance.results import Finding, Report
from acceptance.subject import Command, Decided, Promise, Subject

FAILURES = (AssertionError, IsolaneError, OSError, subprocess.SubprocessError, RuntimeError)
"""What an attempt may end with; the subject then has what was measured until then."""


@dataclass
class Course:
    """An acceptance that is under way.

    Parameters
    ----------
    folder
        Empty; each subject gets a folder of its own in it.
    limit_s
        No attempt begins after this.
    watch
        Called before every attempt.
    clock
        Seconds since whenever.
    """

    subjects: Sequence[Subject | Command]
    folder: Path
    limit_s: float
    watch: Callable[[Progress], None] = lambda _progress: None
    clock: Callable[[], float] = time.monotonic
    watching: Callable[[], Watch] = Watch
    _values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    _decided: dict[str, Sequence[Decided]] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _watches: dict[str, Watch] = field(default_factory=dict)
    _took_s: dict[str, float] = field(default_factory=dict)

    def run(self) -> Report:
        """Measure all; those that are undecided then, again, until the time is over."""
        began = self.clock()
        waiting: Sequence[Subject | Command] = self.subjects
        turn = 0
        while waiting and (left_s := began + self.limit_s - self.clock()) > 0:
            pace = Pace([self._planned_s(each) for each in waiting], left_s, self.watch, self.clock)
            for subject in waiting:
                pace.begin_stage()
                begun = self.clock()
                self._measure(subject, pace, self.folder / f"{turn}-{subject.name}")
                took = self.clock() - begun
                self._took_s[subject.name] = self._took_s.get(subject.name, 0.0) + took
            waiting = [each for each in self._measured(waiting) if self._is_open(each)]
            turn += 1
        return Report(
            findings=tuple(self._findings()),
            disturbances={name: watch.found for name, watch in self._watches.items()},
            subject_s=self._took_s,
            took_s=self.clock() - began,
            limit_s=self.limit_s,
        )

    def _measured(self, subjects: Iterable[Subject | Command]) -> Iterable[Subject]:
        """Return those that may be measured again: commands and what failed are not."""
        return (
            each for each in subjects if isinstance(each, Subject) and each.name not in self._failed
        )

    @property
    def _size(self) -> int:
        return sum(len(each.promises) for each in self.subjects if isinstance(each, Subject))

    def _planned_s(self, subject: Subject | Command) -> float:
        if isinstance(subject, Command):
            return subject.seconds
        attempts = -(-pairs_needed(max(1, self._size)) // subject.values)
        return subject.build_s + attempts * subject.attempt_s

    def _measure(self, subject: Subject | Command, pace: Pace, folder: Path) -> None:
        folder.mkdir(parents=True)
        watch = self._watches.setdefault(subject.name, self.watching())
        pace.tell(subject.name)
        try:
            if isinstance(subject, Command):
                watch.begin()
                self._decided[subject.name] = subject.run(folder)
                watch.end()
                return
            with subject.opened(folder) as attempt:
                while self._is_open(subject) and not pace.is_over():
                    pace.tell(subject.name)
                    watch.begin()
                    for name, values in attempt().items():
                        self._values.setdefault((subject.name, name), []).extend(values)
                    watch.end()
        except FAILURES as error:
            text = str(error).strip() or type(error).__name__
            self._failed[subject.name] = text.splitlines()[0]

    def _is_open(self, subject: Subject) -> bool:
        """Tell whether a promise of it is undecided still."""
        answers = self._answers()
        return any(answers[subject.name, each.name][0] == "undecided" for each in subject.promises)

    def _answers(self) -> dict[tuple[str, str], tuple[Answer, float]]:
        asked = [
            (each.name, promise)
            for each in self.subjects
            if isinstance(each, Subject)
            for promise in each.promises
        ]
        told = [
            Evidence.of(promise.bar, self._values.get((name, promise.name), []))
            for name, promise in asked
        ]
        keys = [(name, promise.name) for name, promise in asked]
        return dict(zip(keys, decide(told, self._size), strict=True))

    def _findings(self) -> Iterable[Finding]:
        answers = self._answers()
        for each in self.subjects:
            if isinstance(each, Command):
                yield from self._of_command(each)
                continue
            for promise in each.promises:
                yield self._of_subject(each, promise, *answers[each.name, promise.name])

    def _of_command(self, command: Command) -> Iterable[Finding]:
        found = {each.name: each for each in self._decided.get(command.name, ())}
        missing = self._failed.get(command.name, "the time ended before it was measured")
        for name in [*command.promises, *(name for name in found if name not in command.promises)]:
            told = found.get(name, Decided(name, "undecided", missing))
            yield Finding(command.name, name, told.answer, why=told.why)

    def _of_subject(
        self, subject: Subject, promise: Promise, answer: Answer, bound: float
    ) -> Finding:
        values = tuple(self._values.get((subject.name, promise.name), ()))
        why = None
        if answer == "undecided":
            kept = sum(promise.bar.keeps(values))
            why = self._failed.get(subject.name, f"kept in {kept} of {len(values)} by the end")
        return Finding(
            subject.name, promise.name, answer, promise.unit, promise.bar, values, bound, why
        )
