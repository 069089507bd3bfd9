"""What a run wrote into its folder: settings, version, and a digest of each file and trial.

``record.jsonl`` only grows. Its first line holds the version of Isolane and all settings that the
trials depend on; then each file that is written, and each trial, adds its SHA-256. So results that
somebody edited are noticed, and a run is continued only with the settings that it began with.

A trial is recorded twice: before it is written and after that; so is what else it gives. So a
trial that is there without record was added by somebody, and one that is recorded twice and is not
there was taken out; a crash leaves neither. Each line of the record also holds the digest of itself
and all lines before it. There is no secret in this: it shows accidents and careless edits, not a
forger who writes anew all that follows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isolane import __version__
from isolane.errors import MeasurementError
from isolane.results.appending import append_line, complete_lines
from isolane.results.method import METHOD

RECORD = "record.jsonl"

Kind = Literal["trial", "series", "profile"]
"""What is recorded before it is written, under this key."""
KEPT: Mapping[Kind, str] = {"trial": "kept", "series": "series_kept", "profile": "profile_kept"}
"""The key under which it is recorded again after that."""
WORDS: Mapping[Kind, str] = {
    "trial": "trials",
    "series": "time series",
    "profile": "CPU profiles",
}


@dataclass(frozen=True)
class Began:
    """What a run began with."""

    version: str
    """Of Isolane."""
    settings: Mapping[str, str]
    """Dotted key to value, as text."""
    method: int = 1
    """Version of the method; 1 where the record does not say."""


class Record:
    """The record of one run folder; see the module.

    Parameters
    ----------
    folder
        The run folder. A folder of an older version has no record: nothing is checked there.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORD
        self._counted: dict[Kind, int] = {}
        self._chain: str | None = None

    @property
    def exists(self) -> bool:
        """Whether the folder has a record."""
        return self.path.is_file()

    def begin(self, settings: Mapping[str, str] | None) -> None:
        """Write the first line."""
        first = {
            "isolane": __version__,
            "method": METHOD,
            "settings": None if settings is None else dict(settings),
        }
        self.path.write_bytes(b"")
        self._chain = ""
        self._append(first)

    def began(self) -> Began | None:
        """Read what the run began with; None where that was not recorded."""
        if not self.exists:
            return None
        first = self._entries()[0]
        settings = first.get("settings")
        if not isinstance(settings, dict):
            return None
        return Began(str(first["isolane"]), settings, self.method())

    def method(self) -> int:
        """Return the version of the method that the trials were made by; 1 where nothing says."""
        found = self._entries()[0].get("method") if self.exists else None
        return found if isinstance(found, int) else 1

    def add_file(self, name: str, content: bytes) -> None:
        """Record the digest of a file that is about to be written."""
        if self.exists:
            self._append({"file": name, "sha256": _digest(content)})

    def announce(self, kind: Kind, journal: Path, line: bytes) -> None:
        """Record a line that is about to be appended to its journal."""
        if self.exists:
            if kind not in self._counted:
                # A device in its place has no end; to append there fails, and says why.
                self._counted[kind] = len(complete_lines(journal)) if journal.is_file() else 0
            self._append({kind: self._counted[kind] + 1, "sha256": _digest(line)})

    def keep(self, kind: Kind, line: bytes) -> None:
        """Record that the line announced is in its journal now."""
        if self.exists and kind in self._counted:
            self._counted[kind] += 1
            self._append({KEPT[kind]: self._counted[kind], "sha256": _digest(line)})

    def check_file(self, path: Path, content: bytes) -> None:
        """Raise MeasurementError if a file is not what the run wrote.

        The version before is accepted too: a crash may have come between record and file.
        """
        if self.exists and _digest(content) not in self._digests(path.name)[-2:]:
            raise MeasurementError(
                f"{path}: was changed after Isolane wrote it ({RECORD} has another digest); "
                "put the original back, or measure anew"
            )

    def check_lines(self, kind: Kind, journal: Path, lines: Sequence[bytes]) -> None:
        """Raise MeasurementError if a journal is not what the run wrote; the line is named."""
        if not self.exists:
            return
        entries = self._entries()
        # What crashed before it was in the journal was announced again under the same number.
        known = {int(str(e[kind])): str(e["sha256"]) for e in entries if kind in e}
        # Earlier versions recorded a trial once, after it was written: a crash may lack the last.
        twice = "chain" in entries[0] or kind != "trial"
        kept = max((int(str(e[KEPT[kind]])) for e in entries if KEPT[kind] in e), default=0)
        for number, line in enumerate(lines, start=1):
            if number in known and _digest(line) != known[number]:
                raise MeasurementError(
                    f"{journal}, line {number}: was changed after Isolane wrote it ({RECORD} has "
                    "another digest); put the original back, or measure anew"
                )
        written = kept if twice else len(known)
        if len(lines) < written:
            raise MeasurementError(
                f"{journal}: {written} {WORDS[kind]} were written ({RECORD}), and {len(lines)} are "
                "there; put the original back, or measure anew"
            )
        if len(lines) > len(known) + (not twice):
            raise MeasurementError(
                f"{journal}, line {len(known) + 1}: was not written by this run ({RECORD} does "
                "not have it); put the original back, or measure anew"
            )

    def same_file(self, name: str, content: bytes) -> bool:
        """Tell whether a file is, byte for byte, what the run wrote."""
        return not self.exists or _digest(content) in self._digests(name)[-2:]

    def _append(self, entry: Mapping[str, object]) -> None:
        if self._chain is None:
            last = self._entries()[-1]
            self._chain = str(last["chain"]) if "chain" in last else None
        chain, self._chain = self._chain, None  # a signal may end this anywhere: the file knows
        if chain is not None:
            chain = _digest((chain + json.dumps(entry)).encode())
            entry = {**entry, "chain": chain}
        append_line(self.path, json.dumps(entry).encode())
        self._chain = chain

    def _digests(self, name: str) -> list[str]:
        """Return the digests of a file, in the order of their writing."""
        return [str(e["sha256"]) for e in self._entries()[1:] if e.get("file") == name]

    def _entries(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        chain = ""
        for number, line in enumerate(complete_lines(self.path), start=1):
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            wanted = "isolane" if number == 1 else "sha256"
            if not isinstance(entry, dict) or wanted not in entry:
                raise MeasurementError(
                    f"{self.path}, line {number}: was not written by Isolane; put the original "
                    "back, or measure anew"
                )
            found.append(entry)
            if "chain" in found[0]:
                body = {key: value for key, value in entry.items() if key != "chain"}
                chain = _digest((chain + json.dumps(body)).encode())
                if entry.get("chain") != chain:
                    raise MeasurementError(
                        f"{self.path}, line {number}: this line or one before it was changed, "
                        "added or taken out after Isolane wrote it; put the original back, or "
                        "measure anew"
                    )
        if not found:
            raise MeasurementError(f"{self.path}: is empty; put the original back")
        return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
