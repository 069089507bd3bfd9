"""What a policy has changed on this host, written to disk before each change.

``state.json`` holds the policy in force: for each setting its value before the first policy and
the value that the policy gave it. ``open.jsonl`` exists while a command changes settings: one line
for each of them, with its value before the change and the generation of the state that the command
began from. When a command was killed, the next one finds its ``open.jsonl`` and rolls those changes
back (or clears everything). It ignores the file if the state has another generation by then: the
killed command had saved the state, and only had to remove the file.

Nothing is synced to the disk: when the host stops, all settings that these files list are gone.
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
class AppliedSetting:
    """A setting that a policy has applied."""

    original: Value
    """Its value before the first policy."""
    wanted: Value
    """The value that the policy gave it."""
    kernel_managed: bool = False
    router: str = ""
    """Router that it is set for; empty: for all of them."""

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> AppliedSetting:
        """Read what :meth:`as_json` has written."""
        return cls(
            fields["original"],
            fields["wanted"],
            kernel_managed=fields.get("floating", False),
            router=fields.get("router", ""),
        )

    def as_json(self) -> dict[str, Any]:
        """Return its fields by their names in ``state.json``, which never change."""
        return {
            "original": self.original,
            "wanted": self.wanted,
            "floating": self.kernel_managed,
            "router": self.router,
        }


@dataclass
class State:
    """The applied settings, in the order they were applied; the numbers of queues and classes."""

    directory: Path
    applied: dict[str, AppliedSetting] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    """How often the state was saved since no policy was in force."""
    about: dict[str, Any] = field(default_factory=dict)
    """For users: name and text of the policy, when it was applied."""
    _asked: set[str] = field(default_factory=set)

    _open: TextIO | None = field(default=None, init=False, repr=False)
    """The journal of the running command; line-buffered, so a line outlives a killed command."""

    @classmethod
    def load(cls, directory: Path) -> State:
        """Read the state of the policy in force; an empty state when there is none."""
        state = cls(directory)
        with contextlib.suppress(FileNotFoundError):
            text = json.loads((directory / "state.json").read_text())
            state.applied = {
                key: AppliedSetting.from_json(one) for key, one in text["done"].items()
            }
            state.numbers = text["numbers"]
            state.about = text["about"]
            state.generation = text.get("generation", 0)
        return state

    def save(self) -> None:
        """Replace the state on disk in one step, and remove the journal that :meth:`note` began."""
        self.generation = self.generation + 1 if self.applied or self.about else 0
        text = {
            "generation": self.generation,
            "done": {key: applied.as_json() for key, applied in self.applied.items()},
            "numbers": self.numbers,
            "about": self.about,
        }
        path = self.directory / "state.json"
        try:
            if self.applied or self.about:
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
        """Path of the journal: what the running command has changed so far."""
        return self.directory / "open.jsonl"

    def note(self, key: str, before: Value) -> None:
        """Write to the journal that a setting is about to be changed.

        Raises
        ------
        TestbedError
            If the journal cannot be written: the setting must not be changed then.
        """
        line = json.dumps({"of": self.generation, "key": key, "before": before}) + "\n"
        try:
            if self._open is None:
                if not self.unfinished():  # a journal on disk is about another generation
                    self.journal.unlink(missing_ok=True)
                self._open = self.journal.open("a", buffering=1)
            self._open.write(line)
        except OSError as error:
            raise TestbedError(f"cannot write {self.journal}: {error.strerror}") from None

    def unfinished(self) -> list[tuple[str, Value]]:
        """Return what a killed command changed: settings in order, each with its value before."""
        entries = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.journal.read_text().splitlines():
                with contextlib.suppress(ValueError):  # the last one may be cut short
                    entry = json.loads(line)
                    if entry.get("of", self.generation) == self.generation:
                        entries.append((str(entry["key"]), entry["before"]))
        return entries

    def nics(self) -> set[str]:
        """Return the interfaces that a demultiplexer was attached to, also by a killed command."""
        keys = [*self.applied, *(key for key, _ in self.unfinished())]
        programs = (json.loads(key)[1] for key in keys if key.startswith('["program"'))
        return {fields["ifname"] for fields in programs if fields["hook"] in ("nic", "nic_tc")}

    def number(self, name: str, end: int, first: int = 0) -> int:
        """Return the number of ``name`` (as ``queue:vr1:eth0``), or give it the lowest free one.

        Raises
        ------
        TestbedError
            When all numbers of its kind are taken.
        """
        self._asked.add(name)
        kind = name.partition(":")[0] + ":"
        if name not in self.numbers:
            taken = {n for other, n in self.numbers.items() if other.startswith(kind)}
            free = next((n for n in range(first, end) if n not in taken), None)
            if free is None:
                raise TestbedError(f"no number is left for {name}: {end - first} are in use")
            self.numbers[name] = free
        return self.numbers[name]

    def keep_asked(self) -> None:
        """Free the numbers that nothing has asked for since this state was loaded."""
        self.numbers = {name: n for name, n in self.numbers.items() if name in self._asked}


def in_use(directory: Path) -> bool:
    """Tell whether a policy is in force, or a killed command has left a journal."""
    return any((directory / name).exists() for name in ("state.json", "open.jsonl"))


def drop(directory: Path) -> None:
    """Remove the directory, unless it has files that matter without a policy."""
    with contextlib.suppress(OSError):
        for name in ("policy.yaml", "policy.new", "state.new", "lock"):
            (directory / name).unlink(missing_ok=True)
        os.rmdir(directory)  # noqa: PTH106 - fails when others are still in it
