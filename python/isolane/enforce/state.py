"""What a policy has changed on this host: on disk before it is changed.

``state.json`` is what is in force: for each setting what it was before us and what we made it.
``open.jsonl`` exists while a command changes things; a line for each setting, with its value before
and the number of the state that it began from. Whoever finds it without its writer rolls it back,
or clears everything; unless the state has another number by now, because the writer had come to
its end and was killed between the two files. No fsync: when the machine stops, so does all
that these files speak of.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from isolane.enforce.setting import Value
from isolane.errors import TestbedError


@dataclass
class Done:
    """A setting that is in force."""

    original: Value
    """What it was before the first policy."""
    wanted: Value
    floating: bool = False
    router: str = ""
    """Whose sake it is for; empty: that of all."""


@dataclass
class State:
    """The settings in force, in the order of their making; numbers given to queues and classes."""

    directory: Path
    done: dict[str, Done] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    """Counts what was saved since nothing was in force."""
    about: dict[str, Any] = field(default_factory=dict)
    """Free for the user's sake: name of the policy, when it was applied."""
    _asked: set[str] = field(default_factory=set)

    _open: TextIO | None = field(default=None, init=False, repr=False)
    """The journal of the command under way: a line is in the kernel's hands once it is written."""

    @classmethod
    def load(cls, directory: Path) -> State:
        """Read what is in force; empty when nothing is."""
        state = cls(directory)
        with contextlib.suppress(FileNotFoundError):
            text = json.loads((directory / "state.json").read_text())
            state.done = {key: Done(**value) for key, value in text["done"].items()}
            state.numbers = text["numbers"]
            state.about = text["about"]
            state.generation = text.get("generation", 0)
        return state

    def save(self) -> None:
        """Replace what is on disk, in one step; ends what :meth:`note` began."""
        self.generation = self.generation + 1 if self.done or self.about else 0
        text = {
            "generation": self.generation,
            "done": {key: vars(done) for key, done in self.done.items()},
            "numbers": self.numbers,
            "about": self.about,
        }
        path = self.directory / "state.json"
        try:
            if self.done or self.about:
                fresh = path.with_suffix(".new")
                fresh.write_text(json.dumps(text))
                fresh.replace(path)
            else:
                path.unlink(missing_ok=True)
            if self._open is not None:
                self._open.close()
                self._open = None
            self.journal.unlink(missing_ok=True)
        except OSError as error:
            raise TestbedError(f"cannot write {path}: {error.strerror}") from None

    @property
    def journal(self) -> Path:
        """What the command under way has changed so far."""
        return self.directory / "open.jsonl"

    def note(self, key: str, before: Value) -> None:
        """Write down that a setting is about to be changed.

        Raises
        ------
        TestbedError
            If that cannot be written: then nothing may be changed.
        """
        line = json.dumps({"of": self.generation, "key": key, "before": before}) + "\n"
        try:
            if self._open is None:
                if not self.unfinished():  # what is there says nothing of this state
                    self.journal.unlink(missing_ok=True)
                self._open = self.journal.open("a", buffering=1)
            self._open.write(line)
        except OSError as error:
            raise TestbedError(f"cannot write {self.journal}: {error.strerror}") from None

    def unfinished(self) -> list[tuple[str, Value]]:
        """Settings that a command changed that did not end, with their values before, in order."""
        entries = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.journal.read_text().splitlines():
                with contextlib.suppress(ValueError):  # the last one may be cut short
                    entry = json.loads(line)
                    if entry.get("of", self.generation) == self.generation:
                        entries.append((str(entry["key"]), entry["before"]))
        return entries

    def nics(self) -> set[str]:
        """Return the interfaces that a demultiplexer was put on, by an unfinished command too."""
        keys = [*self.done, *(key for key, _ in self.unfinished())]
        programs = (json.loads(key)[1] for key in keys if key.startswith('["program"'))
        return {fields["ifname"] for fields in programs if fields["hook"] in ("nic", "nic_tc")}

    def number(self, name: str, most: int, first: int = 0) -> int:
        """Return the number that ``name`` (``queue:vr1:eth0``) has, or give it the lowest free.

        Raises
        ------
        TestbedError
            When all numbers of its kind are taken.
        """
        self._asked.add(name)
        kind = name.partition(":")[0] + ":"
        if name not in self.numbers:
            taken = {n for other, n in self.numbers.items() if other.startswith(kind)}
            free = next((n for n in range(first, most) if n not in taken), None)
            if free is None:
                raise TestbedError(f"no number is left for {name}: {most - first} are in use")
            self.numbers[name] = free
        return self.numbers[name]

    def keep_asked(self) -> None:
        """Take numbers back that nobody has asked for since this was loaded."""
        self.numbers = {name: n for name, n in self.numbers.items() if name in self._asked}


def in_use(directory: Path) -> bool:
    """Tell whether a policy is in force, or a command has not ended what it began."""
    return any((directory / name).exists() for name in ("state.json", "open.jsonl"))


def drop(directory: Path) -> None:
    """Remove the directory if nothing is left in it but the lock."""
    with contextlib.suppress(OSError):
        for name in ("policy.yaml", "policy.new", "state.new", "lock"):
            (directory / name).unlink(missing_ok=True)
        os.rmdir(directory)  # noqa: PTH106 - fails when others are still in it
