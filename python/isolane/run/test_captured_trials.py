"""Files of the frames of trials: which trials have one, and when it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from isolane.errors import MeasurementError
from isolane.results.folder import CAPTURES, RunFolder
from isolane.run.runner import Run
from isolane.run.test_runner import ABSOLUTE, RELATIVE, Imaginary, fail_at
from isolane.run.test_runner import start as begin
from isolane.spec import Arm, PointRouter
from isolane.trials.backend import Bench, Observation, Setting

CAPTURED = ", retries: 0, capture: true}"


@dataclass
class Capturing(Imaginary):
    """A back end that keeps frames where it is asked to: which, is the number of the setting."""

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        with super().bench(arm, routers) as made:
            bare = made.trial

            def trial(setting: Setting) -> Observation:
                number = len(self.settings)
                frames = b"%d" % number if setting.capture else None
                return replace(bare(setting), capture=frames)

            made.trial = trial  # type: ignore[method-assign]
            yield made


def start(folder: Path, back_end: Imaginary, text: str = ABSOLUTE) -> Run:
    return begin(folder, back_end, text.replace(", retries: 0}", CAPTURED))


def files(folder: Path) -> dict[str, bytes]:
    """Name of a trial's file -> what is in it."""
    return {path.name: path.read_bytes() for path in (folder / CAPTURES).iterdir()}


def measured(folder: Path) -> list[str]:
    trials = RunFolder.open(folder).trials()
    return [f"trial-{t.trial}.pcapng" for t in trials if t.purpose == "measure"]


def test_trials_of_rounds_have_files_and_those_of_capacities_have_none(tmp_path: Path) -> None:
    back_end = Capturing()
    start(tmp_path / "run", back_end, RELATIVE).execute()
    found = files(tmp_path / "run")
    assert sorted(found) == sorted(measured(tmp_path / "run"))
    assert len(back_end.settings) > len(found), "capacities were measured, too"
    assert len(set(found.values())) == len(found), "each has its own frames"


def test_a_failed_trial_has_none_and_gets_one_when_it_is_done_again(tmp_path: Path) -> None:
    back_end = Capturing(fail_at(3))
    start(tmp_path / "run", back_end).execute()
    failed = [t for t in RunFolder.open(tmp_path / "run").trials() if t.status == "failed"]
    assert [t.trial for t in failed] == [3]
    before = files(tmp_path / "run")
    assert "trial-3.pcapng" not in before
    assert len(before) == len(measured(tmp_path / "run")) - 1
    start(tmp_path / "run", Capturing()).execute()
    after = files(tmp_path / "run")
    assert {name: after[name] for name in before} == before
    done = [t for t in RunFolder.open(tmp_path / "run").trials() if t.status != "failed"]
    assert sorted(after) == sorted(f"trial-{t.trial}.pcapng" for t in done)


def test_a_trial_whose_frames_cannot_be_kept_is_not_taken_for_done(tmp_path: Path) -> None:
    run = start(tmp_path / "run", Capturing())
    (tmp_path / "run" / CAPTURES).write_text("in the way")
    with pytest.raises(MeasurementError, match="captures"):
        run.execute()
    assert RunFolder.open(tmp_path / "run").trials() == []
