"""The run folder: every result on disk as soon as there is one."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from isolane.errors import MeasurementError, SpecError
from isolane.files import replace
from isolane.results.appending import append_line, complete_lines
from isolane.results.record import WORDS, Kind, Record
from isolane.results.results import HostFacts, Summary, Trial
from isolane.results.search_results import SearchSummary
from isolane.results.series import TrialSeries
from isolane.results.trial_profile import TrialProfile

EXPERIMENT = "experiment.yaml"
HOST = "host.json"
JOURNAL = "trials.jsonl"
TABLE = "trials.parquet"
SERIES = "series.jsonl"
SERIES_TABLE = "series.parquet"
PROFILES = "cpu-profiles.jsonl"
JOURNALS: Final[Mapping[Kind, str]] = {"trial": JOURNAL, "series": SERIES, "profile": PROFILES}
SUMMARY = "summary.json"
SEARCH = "search.json"
REPORT = "report.html"
OPTIONS = "options.json"
LOG = "run.log"
CAPTURES = "captures"

Data = TypeVar("Data", bound=BaseModel)


class _Options(BaseModel):
    """Options of the command line that change an experiment; more may be kept."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | str]

    repeats: int = Field(default=1, ge=1, le=1000)
    invocations: int = Field(default=1, ge=1, le=100)
    on: Literal["live", "sim"] = "live"
    profile: str = ""


class RunFolder:
    """One run on disk; see :mod:`isolane.results.results` for what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = Record(path)

    @classmethod
    def create(
        cls,
        output_dir: Path,
        experiment_text: str | bytes,
        host: HostFacts,
        settings: Mapping[str, str] | None = None,
    ) -> RunFolder:
        """Make the folder and write what is known before the first trial.

        Parameters
        ----------
        output_dir
            The folder to make, with its parents. It may exist if it is empty.
        experiment_text
            The experiment file as the user gave it, kept byte for byte.
        host
            The machine that the run is made on.
        settings
            All that the trials depend on, for :mod:`isolane.results.resume`.

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
        with _errors(folder.record.path, "be written"):
            folder.record.begin(settings)
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
        return self._checked(HOST, HostFacts)

    def summary(self) -> Summary | None:
        """Read the summary; None where the run was killed before it wrote one."""
        if not (self.path / SUMMARY).exists():
            return None
        return self._checked(SUMMARY, Summary)

    def trials(self) -> list[Trial]:
        """Read the journal, without a last line that a crash cut short.

        Raises
        ------
        MeasurementError
            If another line than the last is not a trial; it is named.
        """
        journal = self.path / JOURNAL
        with _errors(journal, "be read"):
            lines = complete_lines(journal)
        found = []
        for number, line in enumerate(lines, start=1):
            location = f"{journal}, line {number}: this is not a trial of this version of Isolane"
            found.append(_parsed(line, Trial, location))
        self.record.check_lines("trial", journal, lines)
        return found

    def append_trial(self, trial: Trial) -> None:
        """Write one trial and wait until the disk has it.

        Raises
        ------
        MeasurementError
            If that failed (disk full, folder gone). What was written before stays readable.
        """
        self._append("trial", trial)

    def append_series(self, series: TrialSeries) -> None:
        """Write a trial's time series, before the trial itself; raises as `append_trial`."""
        self._append("series", series)

    def write_capture(self, trial: int, frames: bytes | None) -> None:
        """Write the frames of a trial's window, or that it has none; raises as above."""
        folder = self.path / CAPTURES
        name = f"trial-{trial}.pcapng"
        with _errors(folder, "be written"):
            if frames is None:  # an attempt that was lost may have had some
                (folder / name).unlink(missing_ok=True)
                return
            folder.mkdir(exist_ok=True)
        self._replace(f"{CAPTURES}/{name}", frames)

    def append_profile(self, profile: TrialProfile) -> None:
        """Write a trial's CPU profile, before the trial itself; raises as `append_trial`."""
        self._append("profile", profile)

    def _append(self, kind: Kind, what: BaseModel) -> None:
        journal = self.path / JOURNALS[kind]
        line = what.model_dump_json().encode()
        with _errors(self.record.path, "be written"):
            self.record.announce(kind, journal, line)
        with _errors(journal, "be written"):
            if kind != "trial":  # which is there from the beginning, or somebody has removed it
                journal.touch()
            append_line(journal, line)
        with _errors(self.record.path, "be written"):
            self.record.keep(kind, line)

    def series(self) -> list[TrialSeries]:
        """Read the time series; empty in folders of older versions.

        Raises
        ------
        MeasurementError
            If a line is not a time series, or was changed; it is named.
        """
        # After a crash between series and trial, the trial that was done again has its number.
        found = self._beside_trials("series", TrialSeries)
        return list({series.trial: series for series in found}.values())

    def profiles(self) -> list[TrialProfile]:
        """Read the CPU profiles; empty where none were asked for.

        Raises
        ------
        MeasurementError
            If a line is not a CPU profile, or was changed; it is named.
        """
        found = self._beside_trials("profile", TrialProfile)
        return list({profile.trial: profile for profile in found}.values())

    def _beside_trials(self, kind: Kind, model: type[Data]) -> list[Data]:
        journal = self.path / JOURNALS[kind]
        with _errors(journal, "be read"):
            lines = complete_lines(journal) if journal.is_file() else []
        found = []
        for number, line in enumerate(lines, start=1):
            location = (
                f"{journal}, line {number}: this is none of the {WORDS[kind]} of this version"
            )
            found.append(_parsed(line, model, location))
        self.record.check_lines(kind, journal, lines)
        return found

    def write_summary(self, summary: Summary) -> None:
        """Write or replace the summary, so that a crash leaves the old or the new one."""
        self._replace(SUMMARY, summary.model_dump_json(indent=2).encode())

    def write_search(self, summary: SearchSummary) -> None:
        """Write or replace what a search found."""
        self._replace(SEARCH, summary.model_dump_json(indent=2).encode())

    def search(self) -> SearchSummary | None:
        """Read what a search found; None in the folder of a run."""
        if not (self.path / SEARCH).exists():
            return None
        return self._checked(SEARCH, SearchSummary)

    def keep_options(self, options: Mapping[str, int | str]) -> None:
        """Keep the options that change the experiment, for a resumed run."""
        self._replace(OPTIONS, json.dumps(dict(options)).encode())

    def options(self) -> dict[str, int | str]:
        """Read the options that changed the experiment; empty if there were none."""
        path = self.path / OPTIONS
        if not path.exists():
            return {}
        with _errors(path, "be read"):
            text = path.read_bytes()
        self.record.check_file(path, text)
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
        """Write ``trials.parquet`` and ``series.parquet`` from the journals."""
        from isolane.results.parquet import (  # noqa: PLC0415 - polars takes 0.2 s to load
            write_series,
            write_trials,
        )

        target = self.path / TABLE
        with _errors(target, "be written"):
            write_trials(self.trials(), target)
        series = self.series()
        if series:
            with _errors(self.path / SERIES_TABLE, "be written"):
                write_series(series, self.path / SERIES_TABLE)
        return target

    def _checked(self, name: str, model: type[Data]) -> Data:
        with _errors(self.path / name, "be read"):
            text = (self.path / name).read_bytes()
        found = _parsed(text, model, f"{self.path / name}: was not written by this version")
        self.record.check_file(self.path / name, text)
        return found

    def _replace(self, name: str, content: bytes) -> None:
        with _errors(self.record.path, "be written"):
            self.record.add_file(name, content)
        with _errors(self.path / name, "be written"):
            replace(self.path / name, content)


@contextlib.contextmanager
def _errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            reason += "; free some space"
        raise MeasurementError(f"{path}: cannot {what}: {reason}") from error


def _parsed(text: bytes, model: type[Data], otherwise: str) -> Data:
    """Read a model from JSON; no figure may be NaN or infinite."""
    try:
        from_json(text, allow_inf_nan=False)
        return model.model_validate_json(text)
    except ValidationError as error:
        raise MeasurementError(f"{otherwise}: {_first(error)}") from error
    except ValueError as error:
        raise MeasurementError(f"{otherwise}: {error}") from error


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    location = ".".join(str(part) for part in problem["loc"])
    return f"{location}: {problem['msg']}" if location else problem["msg"]
