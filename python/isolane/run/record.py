"""What a run wrote into its folder: settings, version, and a digest of each file and trial.

``record.jsonl`` only grows. Its first line holds the version of Isolane and all settings that the
trials depend on; then each file that is written, and each trial, adds its SHA-256. So results that
somebody edited are noticed, and a run is continued only with the settings that it began with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isolane import __version__
from isolane.errors import MeasurementError
from isolane.run.appending import append_line, complete_lines
from isolane.run.method import METHOD

RECORD = "record.jsonl"


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
        self._counted: dict[str, int] = {}

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
        append_line(self.path, json.dumps(first).encode())

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

    def add_trial(self, journal: Path) -> None:
        """Record the line that was just appended to the journal.

        If a crash prevented the record of an earlier line, that line comes first.
        """
        self._add_line(journal, "trial")

    def add_series(self, journal: Path) -> None:
        """Do the same for the time series of a trial."""
        self._add_line(journal, "series")

    def _add_line(self, journal: Path, kind: str) -> None:
        if not self.exists:
            return
        if kind in self._counted:
            new = [_last_line(journal)]
        else:
            self._counted[kind] = len(self._digests(kind))
            new = complete_lines(journal)[self._counted[kind] :]
        for line in new:
            self._append({kind: self._counted[kind] + 1, "sha256": _digest(line)})
            self._counted[kind] += 1

    def check_file(self, path: Path, content: bytes) -> None:
        """Raise MeasurementError if a file is not what the run wrote.

        The version before is accepted too: a crash may have come between record and file.
        """
        if self.exists and _digest(content) not in self._digests(path.name)[-2:]:
            raise MeasurementError(
                f"{path}: was changed after Isolane wrote it ({RECORD} has another digest); "
                "put the original back, or measure anew"
            )

    def check_trials(self, journal: Path, lines: Sequence[bytes]) -> None:
        """Raise MeasurementError if the journal is not what the run wrote; the line is named."""
        self._check_lines(journal, lines, "trial")

    def check_series(self, journal: Path, lines: Sequence[bytes]) -> None:
        """Do the same for the time series."""
        self._check_lines(journal, lines, "series")

    def _check_lines(self, journal: Path, lines: Sequence[bytes], kind: str) -> None:
        if not self.exists:
            return
        known = self._digests(kind)
        for number, (line, digest) in enumerate(zip(lines, known, strict=False), start=1):
            if _digest(line) != digest:
                raise MeasurementError(
                    f"{journal}, line {number}: was changed after Isolane wrote it ({RECORD} has "
                    "another digest); put the original back, or measure anew"
                )
        if len(lines) < len(known):
            raise MeasurementError(
                f"{journal}: {len(known)} trials were written ({RECORD}), and {len(lines)} are "
                "there; put the original back, or measure anew"
            )
        if len(lines) > len(known) + 1:  # one may have been written just before a crash
            raise MeasurementError(
                f"{journal}, line {len(known) + 1}: was not written by this run ({RECORD} does "
                "not have it); put the original back, or measure anew"
            )

    def same_file(self, name: str, content: bytes) -> bool:
        """Tell whether a file is, byte for byte, what the run wrote."""
        return not self.exists or _digest(content) in self._digests(name)[-2:]

    def _append(self, entry: Mapping[str, object]) -> None:
        append_line(self.path, json.dumps(entry).encode())

    def _digests(self, name: str) -> list[str]:
        """Return the digests of a file, or of the trials, in the order of their writing."""
        entries = self._entries()[1:]
        return [str(e["sha256"]) for e in entries if name in (e.get("file"), *_kind(e))]

    def _entries(self) -> list[dict[str, object]]:
        found = []
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
        if not found:
            raise MeasurementError(f"{self.path}: is empty; put the original back")
        return found


def _kind(entry: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(kind for kind in ("trial", "series") if kind in entry)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _last_line(path: Path) -> bytes:
    """Read the last complete line, from the end of the file."""
    with path.open("rb") as stream:
        end = stream.seek(0, 2)
        size, block = 65_536, b""
        while block[:-1].rfind(b"\n") < 0 and len(block) < end:
            stream.seek(max(0, end - size))
            block = stream.read(min(size, end))
            size *= 4
    return block[:-1].rpartition(b"\n")[2]
