from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from isolane.doctor.answers import Answer, Probe
from isolane.doctor.bounded import answer_all

PATIENT_S = 600.0


def fine() -> Mapping[str, Answer]:
    return {"fine": Answer("yes", "it works")}


def broken() -> Mapping[str, Answer]:
    raise OSError(19, "No such device")


def forbidden() -> Mapping[str, Answer]:
    raise PermissionError(1, "Operation not permitted")


def hangs() -> Mapping[str, Answer]:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(60)
    return {}


def hangs_with_a_folder() -> Mapping[str, Answer]:
    tempfile.mkdtemp()
    return hangs()


def dies() -> Mapping[str, Answer]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_answers_come_back() -> None:
    assert answer_all([Probe(("fine",), fine, PATIENT_S)]) == {"fine": Answer("yes", "it works")}


def test_what_one_had_in_folders_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answers = answer_all([Probe(("a",), hangs_with_a_folder, 1.0)])
    assert answers["a"].status == "unknown"
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert answer_all([Probe(("fine",), fine, PATIENT_S)])["fine"].status == "yes"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (broken, "No such device"),
        (forbidden, "only root can try this"),
        (dies, "ended without an answer"),
        (hangs, "no answer within 0.2 s"),
    ],
)
def test_what_goes_wrong_is_unknown_with_its_reason(
    function: Callable[[], Mapping[str, Answer]], reason: str
) -> None:
    probe = Probe(("a", "b"), function, seconds=0.2 if function is hangs else PATIENT_S)
    answers = answer_all([probe, Probe(("fine",), fine, PATIENT_S)])
    assert answers["fine"].status == "yes"
    assert {answers["a"], answers["b"]} == {answers["a"]}
    assert answers["a"].status == "unknown"
    assert reason in answers["a"].detail


def test_probes_run_side_by_side_and_leave_no_child(tmp_path: Path) -> None:
    def meeting() -> Mapping[str, Answer]:
        (tmp_path / str(os.getpid())).touch()
        while len(list(tmp_path.iterdir())) < 6:  # one after the other would wait for ever
            time.sleep(0.01)
        return {}

    before = children()
    probes = [Probe((f"{number}",), meeting, PATIENT_S) for number in range(6)]
    answer_all([*probes, Probe(("h",), hangs, 0.2)])
    assert children() == before


def test_an_interrupted_examination_ends_its_children() -> None:
    def interrupt() -> Mapping[str, Answer]:
        os.kill(os.getppid(), signal.SIGINT)
        return {}

    before, usual = children(), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            answer_all([Probe(("h",), hangs, PATIENT_S), Probe(("i",), interrupt, PATIENT_S)])
    finally:
        signal.signal(signal.SIGINT, usual)
    assert children() == before


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()
