"""The run folder: every result on disk as soon as there is one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from isolane.errors import MeasurementError, SpecError
from isolane.run.results import HostFacts, Summary, Trial

EXPERIMENT = "experiment.yaml"
HOST = "host.json"
JOURNAL = "trials.jsonl"
TABLE = "trials.parquet"
SUMMARY = "summary.json"
REPORT = "report.html"
OPTIONS = "options.json"
LOG = "run.log"


class _Options(BaseModel):
    """What the command line changed of an experiment; more may be kept."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | str]

    repeats: int = Field(default=1, ge=1, le=1000)
    on: Literal["live", "sim"] = "live"
    profile: str = ""


class RunFolder:
    """One run on disk; see :mod:`isolane.run.results` for what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, output_dir: Path, experiment_text: str | bytes, host: HostFacts) -> RunFolder:
        """Make the folder and write down what is known before the first trial.

        Parameters
        ----------
        output_dir
            Is made, with its parents. May exist if it is empty.
        experiment_text
            The experiment file as the user gave it, kept byte for byte.
        host
            The machine that the run is made on.

        Raises
        ------
        SpecError
            If the folder exists and holds something.
        MeasurementError
            If it cannot be written.
        """
        folder = cls(output_dir)
        with _errors(output_dir, "be written"):
            output_dir.mkdir(parents=True, exist_ok=True)
            occupied = any(output_dir.iterdir())
        if occupied:
            raise SpecError(
                f"{output_dir}: the folder exists and is not empty; name another one with "
                f"--output, or continue the run that it holds with --resume {output_dir}"
            )
        given = experiment_text.encode() if isinstance(experiment_text, str) else experiment_text
        folder._replace(EXPERIMENT, given)
        folder._replace(HOST, host.model_dump_json(indent=2).encode())
        with _errors(output_dir / JOURNAL, "be written"):
            (output_dir / JOURNAL).touch()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a folder that an earlier run made, to report on it or to continue it.

        Raises
        ------
        SpecError
            If there is no such folder, or no run in it.
        """
        folder = cls(path)
        if not path.is_dir():
            raise SpecError(f"{path}: there is no such run folder")
        missing = [name for name in (EXPERIMENT, HOST, JOURNAL) if not (path / name).is_file()]
        if missing:
            raise SpecError(
                f"{path}: this is not the folder of a run: it has no {' and no '.join(missing)}"
            )
        return folder

    def experiment_text(self) -> bytes:
        """Read the experiment as it was given."""
        with _errors(self.path / EXPERIMENT, "be read"):
            return (self.path / EXPERIMENT).read_bytes()

    def host(self) -> HostFacts:
        """Read the facts about the machine of the run."""
        return HostFacts.model_validate_json(self._checked(HOST, HostFacts))

    def summary(self) -> Summary | None:
        """Read the summary; None where the run was killed before it wrote one."""
        if not (self.path / SUMMARY).exists():
            return None
        return Summary.model_validate_json(self._checked(SUMMARY, Summary))

    def trials(self) -> list[Trial]:
        """Read the journal, without a last line that a crash cut short.

        Raises
        ------
        MeasurementError
            If another line than the last is not a trial; it is named.
        """
        with _errors(self.path / JOURNAL, "be read"):
            lines = (self.path / JOURNAL).read_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines[:-1], start=1):  # the last one was never finished
            try:
                found.append(Trial.model_validate_json(line))
            except ValidationError as error:
                raise MeasurementError(
                    f"{self.path / JOURNAL}, line {number}: this is not a trial of this version "
                    f"of Isolane: {_first(error)}"
                ) from error
        return found

    def append_trial(self, trial: Trial) -> None:
        """Write one trial and wait until the disk has it.

        Raises
        ------
        MeasurementError
            If that failed (disk full, folder gone). What was written before stays readable.
        """
        journal = self.path / JOURNAL
        line = trial.model_dump_json().encode() + b"\n"
        with _errors(journal, "be written"):
            descriptor = os.open(journal, os.O_RDWR)
            try:
                end = _end_of_last_line(descriptor)
                os.lseek(descriptor, end, os.SEEK_SET)
                try:
                    _write_all(descriptor, line)
                    os.ftruncate(descriptor, end + len(line))
                    os.fsync(descriptor)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.ftruncate(descriptor, end)
                    raise
            finally:
                os.close(descriptor)

    def write_summary(self, summary: Summary) -> None:
        """Write or replace the summary, so that a crash leaves the old or the new one."""
        self._replace(SUMMARY, summary.model_dump_json(indent=2).encode())

    def keep_options(self, options: Mapping[str, int | str]) -> None:
        """Keep what the command line changed of the experiment, for a resumed run."""
        self._replace(OPTIONS, json.dumps(dict(options)).encode())

    def options(self) -> dict[str, int | str]:
        """Read what the command line had changed; empty when nothing."""
        path = self.path / OPTIONS
        if not path.exists():
            return {}
        with _errors(path, "be read"):
            text = path.read_bytes()
        try:
            found = _Options.model_validate_json(text)
        except ValidationError as error:
            raise MeasurementError(
                f"{path}: was not written by this version of Isolane: {_first(error)}"
            ) from error
        return found.model_dump(exclude_unset=True)

    def add_nics(self, nics: Sequence[dict[str, str]]) -> None:
        """Add interfaces that took part to the facts about the host; known ones stay."""
        host = self.host()
        new = tuple(nic for nic in nics if nic not in host.nics)
        if new:
            host = host.model_copy(update={"nics": (*host.nics, *new)})
            self._replace(HOST, host.model_dump_json(indent=2).encode())

    def write_parquet(self) -> Path:
        """Write ``trials.parquet`` from the journal: one row per trial and router."""
        from isolane.run.parquet import write_trials  # noqa: PLC0415 - polars takes 0.2 s to load

        target = self.path / TABLE
        with _errors(target, "be written"):
            write_trials(self.trials(), target)
        return target

    def _checked(self, name: str, model: type[HostFacts | Summary]) -> bytes:
        with _errors(self.path / name, "be read"):
            text = (self.path / name).read_bytes()
        try:
            model.model_validate_json(text)
        except ValidationError as error:
            raise MeasurementError(
                f"{self.path / name}: was not written by this version of Isolane: {_first(error)}"
            ) from error
        return text

    def _replace(self, name: str, content: bytes) -> None:
        replace_file(self.path / name, content)


def check_writable(target: Path) -> None:
    """Refuse before the work what :func:`replace_file` would refuse after it.

    Raises
    ------
    MeasurementError
        If nothing can be written there as things are.
    """
    with _errors(target, "be written"):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target.parent.stat()
        if not target.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        written = target if target.exists() else target.parent
        if not os.access(written, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def replace_file(target: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises
    ------
    MeasurementError
        If it cannot be written; an older file of this name is still there.
    """
    # Not with_suffix(): a user may well name two outputs that differ in their suffix only.
    draft = target.with_name(f".{target.name}.new")
    with _errors(target, "be written"):
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise


def _end_of_last_line(descriptor: int) -> int:
    """Find where the journal's last complete line ends, bytes; a torn one after it is no loss."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65_536)
        block = os.pread(descriptor, end - start, start)
        if not block:
            return 0
        newline = block.rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_all(descriptor: int, content: bytes) -> None:
    while content:  # a nearly full disk takes a part first and refuses the rest
        content = content[os.write(descriptor, content) :]


@contextlib.contextmanager
def _errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            reason += "; make room, then continue with --resume"
        raise MeasurementError(f"{path}: cannot {what}: {reason}") from error


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg']}" if place else problem["msg"]
