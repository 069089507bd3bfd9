"""Problems of an experiment or a policy, separate from how they are shown.

A check knows the key and the value; only the loader knows the file and the line. So checks raise
or return these, and the loader turns them into one :class:`~isolane.errors.SpecError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Loc = tuple[str | int, ...]
"""Where in the document: keys and list positions from the root, as in ("routers", 0, "path")."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    loc: Loc
    what: str
    accepted: str | None = None

    def __str__(self) -> str:
        """Return the message without its location."""
        return self.what if self.accepted is None else f"{self.what}; accepted: {self.accepted}"


class Refused(ValueError):  # noqa: N818 - a verdict on a value, turned into an error by its caller
    """A single value is refused; the caller of the check knows the location."""

    def __init__(self, what: str, accepted: str | None = None):
        problem = Problem((), what, accepted)
        super().__init__(str(problem))
        self.problem = problem


class Contradictions(ValueError):  # noqa: N818 - carries problems, is never shown itself
    """Values that are right one by one do not fit together."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


def show(value: object) -> str:
    """Return a value as the message quotes it: short, on one line, and marked as text if it is."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value) if isinstance(value, int | float) else repr(str(value))
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def listed(words: Iterable[str]) -> str:
    """Return accepted words as they stand in a message."""
    return ", ".join(words)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean X?)" with the nearest known word, or nothing if none is near."""
    known = tuple(known)
    found = [k for k in known if k.lower() == word.lower()]
    found = found or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {found[0]}?)" if found else ""
