import json
import resource
from pathlib import Path

import polars as pl
import pytest

from isolane.errors import MeasurementError, SpecError
from isolane.report import test_data as data
from isolane.results import folder as run_folder
from isolane.results import record
from isolane.results.appending import append_line
from isolane.results.folder import CAPTURES, JOURNAL, RunFolder
from isolane.results.parquet import SCHEMA
from isolane.results.results import Trial


@pytest.fixture
def trials(tmp_path: Path) -> list[Trial]:
    return data.trials_of(data.experiment(tmp_path, data.NOISY), 1)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs" / "one", b"isolane: 1\r\n", data.HOST)


def test_what_was_written_is_read_again(folder: RunFolder, trials: list[Trial]) -> None:
    for trial in trials:
        folder.append_trial(trial)
    again = RunFolder.open(folder.path)
    assert again.trials() == trials
    assert again.experiment_text() == b"isolane: 1\r\n"
    assert again.host() == data.HOST
    assert again.summary() is None


def test_captured_frames_are_files_of_their_own(folder: RunFolder) -> None:
    folder.write_capture(3, None)
    assert not (folder.path / CAPTURES).exists()
    for trial in (3, 12):
        folder.write_capture(trial, b"frames of %d" % trial)
    kept = sorted((folder.path / CAPTURES).iterdir())
    assert [path.name for path in kept] == ["trial-12.pcapng", "trial-3.pcapng"]
    assert kept[1].read_bytes() == b"frames of 3"
    folder.write_capture(3, None)
    assert [path.name for path in (folder.path / CAPTURES).iterdir()] == ["trial-12.pcapng"]
    assert RunFolder.open(folder.path).trials() == []


def test_a_folder_of_captures_that_cannot_be_made_is_named(folder: RunFolder) -> None:
    (folder.path / CAPTURES).write_text("in the way")
    with pytest.raises(MeasurementError, match="captures: cannot be written: file exists"):
        folder.write_capture(0, b"")


@pytest.mark.parametrize("torn", [b'{"trial": 7, "arm": "dir', b"\x00" * 70_000, b"{}"])
def test_a_torn_last_line_is_no_loss(folder: RunFolder, trials: list[Trial], torn: bytes) -> None:
    folder.append_trial(trials[0])
    with (folder.path / "trials.jsonl").open("ab") as journal:
        journal.write(torn)
    assert folder.trials() == trials[:1]
    folder.append_trial(trials[1])
    assert folder.trials() == trials[:2]


def test_a_broken_line_in_the_middle_is_named(folder: RunFolder, trials: list[Trial]) -> None:
    (folder.path / "trials.jsonl").write_text('{"trial": 1}\n')
    folder.append_trial(trials[0])
    with pytest.raises(MeasurementError, match=r"trials\.jsonl, line 1: .*arm: Field required"):
        folder.trials()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SpecError, match=f"--resume {tmp_path}"):
        RunFolder.create(tmp_path, "", data.HOST)
    assert [found.name for found in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path, "text", data.HOST).experiment_text() == b"text"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MeasurementError, match="cannot be written: not a directory"):
        RunFolder.create(tmp_path / "file" / "run", "", data.HOST)


def test_a_full_disk(folder: RunFolder, trials: list[Trial]) -> None:
    (folder.path / "trials.jsonl").unlink()
    (folder.path / "trials.jsonl").symlink_to("/dev/full")
    with pytest.raises(MeasurementError, match="no space left on device; free some space"):
        folder.append_trial(trials[0])


def test_a_journal_that_somebody_removes_is_not_begun_anew(
    folder: RunFolder, trials: list[Trial]
) -> None:
    folder.append_trial(trials[0])
    (folder.path / JOURNAL).unlink()
    with pytest.raises(MeasurementError, match="cannot be written: no such file"):
        folder.append_trial(trials[1])


def test_a_summary_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=1)
    old = folder.summary()
    assert old is not None
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As a disk that has space for the record's line, and is full by then.
    limit = (folder.path / "record.jsonl").stat().st_size + 500
    assert limit < (folder.path / "summary.json").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    try:
        with pytest.raises(MeasurementError, match=r"summary\.json: cannot be written: file too l"):
            folder.write_summary(old.model_copy(update={"title": "new"}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(folder.path.glob(".*"))
    assert folder.summary() == old


@pytest.mark.parametrize("missing", ["experiment.yaml", "host.json", "trials.jsonl"])
def test_what_is_not_a_run_folder_is_refused(folder: RunFolder, missing: str) -> None:
    (folder.path / missing).unlink()
    with pytest.raises(SpecError, match=f"it has no {missing}"):
        RunFolder.open(folder.path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such run folder"):
        RunFolder.open(tmp_path / "none")


def test_a_summary_of_another_version_is_refused(folder: RunFolder) -> None:
    (folder.path / "summary.json").write_text(json.dumps({"isolane": "9"}))
    with pytest.raises(MeasurementError, match="was not written by this version"):
        folder.summary()


def test_the_table_has_a_row_per_trial_and_router(folder: RunFolder, trials: list[Trial]) -> None:
    early = trials[-1].model_copy(update={"status": "failed", "reason": "gone", "routers": ()})
    for trial in [*trials[:-1], early]:
        folder.append_trial(trial)
    table = pl.read_parquet(folder.write_parquet())
    assert table.height == sum(max(1, len(t.routers)) for t in trials[:-1]) + 1
    assert dict(table.schema) == SCHEMA
    assert table.filter(pl.col("status") == "failed")["router"].to_list() == [None]
    routers = table.filter(pl.col("purpose") == "measure", pl.col("router").is_not_null())
    lost = routers.select(pl.sum_horizontal(pl.col("^lost_.*$"))).to_series()
    assert (routers["offered_total"] == routers["received_total"] + lost).all()


def test_the_table_of_no_trials_has_its_columns(folder: RunFolder) -> None:
    table = pl.read_parquet(folder.write_parquet())
    assert table.height == 0
    assert table.schema["delay_p9999_ns"] == pl.Float64


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("number", range(4))
def test_a_signal_while_a_trial_is_kept_breaks_no_record(
    number: int,
    written: bool,
    folder: RunFolder,
    trials: list[Trial],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the lines that keeping a trial appends, one is cut off by Ctrl-C, before it or after."""
    appended = []

    def interrupted(path: Path, line: bytes) -> None:
        appended.append(line)
        if written or len(appended) != number + 1:
            append_line(path, line)
        if len(appended) == number + 1:
            raise KeyboardInterrupt

    folder.append_trial(trials[0])
    with monkeypatch.context() as changed:
        for module in (record, run_folder):
            changed.setattr(module, "append_line", interrupted)
        if number < 3:
            with pytest.raises(KeyboardInterrupt):
                folder.append_trial(trials[1])
        else:
            folder.append_trial(trials[1])
    assert len(appended) == min(number + 1, 3), "announced, written, kept"
    folder.keep_options({"repeats": 3})  # the run writes what it knows, and ends
    again = RunFolder.open(folder.path)
    kept = again.trials()
    assert kept == trials[: len(kept)]
    again.append_trial(trials[len(kept)])
    assert RunFolder.open(folder.path).trials() == trials[: len(kept) + 1]
