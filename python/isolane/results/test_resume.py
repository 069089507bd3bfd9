"""Continuing a run: only with the settings that its trials were made with, and unedited."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.errors import MeasurementError, SpecError
from isolane.report import render
from isolane.report import test_data as data
from isolane.results import record
from isolane.results.folder import RunFolder
from isolane.results.method import METHOD
from isolane.results.resume import experiment_settings, refuse_changes, settings_of
from isolane.results.series import TrialSeries
from isolane.spec import parse_experiment

TEXT = """\
isolane: 1
name: two
routers: [{name: victim, role: victim}, {name: noise, role: aggressor}]
load: {victim: 20kpps, noise: [0pps, 300kpps]}
arms: [{name: here, path: bridge}, {name: there, path: direct}]
trial: {duration: 50ms, warmup: 10ms, repeats: 2}
"""
SPEC = parse_experiment(TEXT)
OPTIONS = {"--on": "live"}


def settings(text: str = TEXT, **host: object) -> dict[str, str]:
    facts = data.HOST.model_copy(update=host)
    return settings_of(parse_experiment(text), facts, OPTIONS, {})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.create(tmp_path / "run", TEXT, data.HOST, settings())
    made.keep_options({"repeats": 2})
    points = SPEC.points()
    for number in range(4):
        made.append_trial(data.trial("here", points[number % 2], number // 2, number))
    return made


def reopened(folder: RunFolder) -> RunFolder:
    return RunFolder.open(folder.path)


def test_an_unchanged_run_may_go_on(folder: RunFolder) -> None:
    refuse_changes(reopened(folder), settings(), 2)
    refuse_changes(reopened(folder), settings(), 5)


def test_what_a_load_balancer_is_configured_by_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    web = TEXT.replace("pps", "rps").replace("routers:", "traffic: {mode: http}\nrouters:")
    web = web.replace("path: bridge", "path: bridge, haproxy: own.cfg")
    assert not [key for key in settings(web) if key.startswith("haproxy.")], "it is not there yet"
    Path("own.cfg").write_text("first")
    before = settings(web)["haproxy.own.cfg"]
    Path("own.cfg").write_text("second")
    assert settings(web)["haproxy.own.cfg"] != before


CHANGES = {
    "load": ("victim: 20kpps", "victim: 30kpps", "load.victim: 20kpps in the folder's trials, 30k"),
    "a point": ("300kpps]", "400kpps]", "load.noise: [0pps, 300kpps] in the folder's trials, [0p"),
    "path": ("path: bridge", "path: macvlan", "arms.here.path: bridge in the folder's trials, mac"),
    "an arm": ("name: there", "name: else", "arms.else.name: nothing in the folder's trials, else"),
    "window": ("duration: 50ms", "duration: 60ms", "trial.duration: 50ms in the folder's trials,"),
    "repeats": ("repeats: 2", "repeats: 3", "trial.repeats: 2 in the folder's trials, 3 now"),
    "a default": (
        "name: two\n", "name: two\ntraffic: {frame_size: 128}\n",
        "traffic.frame_size: 64 in the folder's trials, 128 now",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_is_named_key_by_key_and_refused(name: str, folder: RunFolder) -> None:
    old, new, words = CHANGES[name]
    assert TEXT.count(old) == 1
    with pytest.raises(SpecError) as caught:
        refuse_changes(reopened(folder), settings(TEXT.replace(old, new)), 2)
    assert words in str(caught.value)
    assert f"start anew: isolane run {folder.path}/experiment.yaml" in str(caught.value)


def test_another_host_another_version_and_fewer_rounds_are_refused(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError, match=r"host\.kernel: Linux 6\.18\.0 .* trials, Linux 7 now"):
        refuse_changes(reopened(folder), settings(kernel="Linux 7"), 2)
    with pytest.raises(SpecError, match=r"--repeats 1: .* of 2 rounds; accepted: 2 and more"):
        refuse_changes(reopened(folder), settings(), 1)
    monkeypatch.setattr("isolane.results.resume.__version__", "9.9")
    with pytest.raises(SpecError, match=r"version of Isolane: .* in the folder's trials, 9\.9 now"):
        refuse_changes(reopened(folder), settings(), 2)


def test_another_method_is_refused(folder: RunFolder) -> None:
    as_earlier_versions_had_it(folder, 4)
    path = folder.path / record.RECORD
    path.write_bytes(path.read_bytes().replace(f'"method": {METHOD}, '.encode(), b"", 1))
    assert reopened(folder).record.method() == 1
    with pytest.raises(
        SpecError, match=f"version of the method: 1 in the folder's trials, {METHOD} now"
    ):
        refuse_changes(reopened(folder), settings(), 2)


def test_invocations_may_be_added_but_keep_their_rounds(folder: RunFolder) -> None:
    refuse_changes(reopened(folder), settings(), 2, 3)
    with pytest.raises(SpecError, match=r"--repeats 1: .* of 2 rounds each; accepted: 2"):
        refuse_changes(reopened(folder), settings(), 1, 3)
    later = data.trial("here", SPEC.points()[0], 2, 4).model_copy(update={"invocation": 1})
    folder.append_trial(later)
    refuse_changes(reopened(folder), settings(), 2, 2)
    with pytest.raises(SpecError, match=r"--repeats 5: .* of 2 rounds each; accepted: 2"):
        refuse_changes(reopened(folder), settings(), 5, 2)
    with pytest.raises(SpecError, match=r"--invocations 1: .* of 2 invocations; accepted: 2"):
        refuse_changes(reopened(folder), settings(), 2, 1)


def test_a_folder_without_a_record_is_shown_but_not_continued(folder: RunFolder) -> None:
    (folder.path / record.RECORD).unlink()
    with pytest.raises(SpecError, match=r"no record of the settings .* `isolane report` still"):
        refuse_changes(reopened(folder), settings(), 2)
    assert render(folder.path, "md").is_file()


def _line(number: int, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        lines = (path / "trials.jsonl").read_bytes().split(b"\n")
        lines[number - 1] = change(lines[number - 1])
        (path / "trials.jsonl").write_bytes(b"\n".join(line for line in lines[:-1] if line) + b"\n")

    return edit


def _file(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        content = (path / name).read_bytes()
        assert old in content
        (path / name).write_bytes(content.replace(old, new, 1))

    return edit


def _last_lines_gone(path: Path) -> None:
    lines = (path / "trials.jsonl").read_bytes().split(b"\n")
    (path / "trials.jsonl").write_bytes(b"\n".join(lines[:2]) + b"\n")


def _lines_added(path: Path) -> None:
    content = (path / "trials.jsonl").read_bytes()
    first = content.partition(b"\n")[0]
    (path / "trials.jsonl").write_bytes(content + first + b"\n" + first + b"\n")


def _one_line_added(path: Path) -> None:
    content = (path / "trials.jsonl").read_bytes()
    (path / "trials.jsonl").write_bytes(content + content.partition(b"\n")[0] + b"\n")


def _one_line_added_and_recorded(path: Path) -> None:
    _one_line_added(path)
    entry = json.loads((path / record.RECORD).read_bytes().split(b"\n")[-2])
    for kind in ("trial", "kept"):
        forged = {kind: 5, "sha256": entry["sha256"], "chain": entry["chain"]}
        with (path / record.RECORD).open("a") as stream:
            stream.write(json.dumps(forged) + "\n")


def _last_line_gone(path: Path) -> None:
    lines = (path / "trials.jsonl").read_bytes().split(b"\n")
    (path / "trials.jsonl").write_bytes(b"\n".join(lines[:-2]) + b"\n")


EDITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a figure": (
        _line(2, lambda line: line.replace(b'"received_frames":1', b'"received_frames":2', 1)),
        r"trials\.jsonl, line 2: was changed after Isolane wrote it",
    ),
    "a trial cut short": (
        _line(2, lambda line: line[:300]), r"trials\.jsonl, line 2: this is not a trial"
    ),
    "a trial taken out": (_line(2, lambda _: b""), r"trials\.jsonl, line 2: was changed"),
    "the last trials taken out": (
        _last_lines_gone, r"trials\.jsonl: 4 trials were written .*, and 2 are there"
    ),
    "trials added": (_lines_added, r"trials\.jsonl, line 5: was not written by this run"),
    "one trial added": (_one_line_added, r"trials\.jsonl, line 5: was not written by this run"),
    "one trial added and recorded": (
        _one_line_added_and_recorded, r"record\.jsonl, line \d+: this line or one before it was ch"
    ),
    "a line of the record changed": (
        _file("record.jsonl", b'"trial": 2', b'"trial": 1'), r"record\.jsonl, line \d+: this line"
    ),
    "the last trial taken out": (
        _last_line_gone, r"trials\.jsonl: 4 trials were written .*, and 3 are there"
    ),
    "NaN in a trial": (
        _line(3, lambda line: line.replace(b'"offered_pps":', b'"offered_pps":NaN,"x":', 1)),
        r"trials\.jsonl, line 3: this is not a trial",
    ),
    "the host": (
        _file("host.json", b"imaginary", b"real"), r"host\.json: was changed after Isolane wrote"
    ),
    "the options": (
        _file("options.json", b"2", b"9"), r"options\.json: was changed after Isolane wrote"
    ),
    "the record": (
        _file("record.jsonl", b'{"trial": 1', b'{"trial": 1,,'), r"record\.jsonl, line \d+: was not"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_results_are_noticed_by_resume_and_report(name: str, folder: RunFolder) -> None:
    edit, words = EDITS[name]
    edit(folder.path)
    with pytest.raises(MeasurementError, match=words):
        refuse_changes(reopened(folder), settings(), 2)
    with pytest.raises(MeasurementError, match=words):
        render(folder.path, "md")


def test_an_edited_series_is_noticed_by_resume_and_report(folder: RunFolder) -> None:
    folder.append_series(
        TrialSeries(trial=0, bin_ns=10_000_000, warmup_ns=0, window_ns=0, routers=())
    )
    refuse_changes(reopened(folder), settings(), 2)
    _file("series.jsonl", b'"warmup_ns":0', b'"warmup_ns":1')(folder.path)
    words = r"series\.jsonl, line 1: was changed after Isolane wrote it"
    with pytest.raises(MeasurementError, match=words):
        refuse_changes(reopened(folder), settings(), 2)
    with pytest.raises(MeasurementError, match=words):
        render(folder.path, "md")


@pytest.mark.parametrize("content", [b'{"repeats": 9}', b"[", b"3"])
def test_edited_options_are_noticed(folder: RunFolder, content: bytes) -> None:
    (folder.path / "options.json").write_bytes(content)
    with pytest.raises(MeasurementError, match=r"options\.json: was changed after Isolane wrote"):
        reopened(folder).options()
    (folder.path / record.RECORD).unlink()
    if content[:1] != b"{":
        with pytest.raises(
            MeasurementError, match=r"options\.json: was not written by this version"
        ):
            reopened(folder).options()


def test_an_edited_summary_is_noticed(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=1)
    path = folder.path / "summary.json"
    good = path.read_text()
    path.write_text(good.replace('"trials": ', '"trials": 1'))
    with pytest.raises(MeasurementError, match=r"summary\.json: was changed after Isolane wrote"):
        render(folder.path, "md")
    (folder.path / record.RECORD).unlink()
    known = json.loads(good)
    known["cells"][0]["throughput_pps"]["median"] = float("nan")
    path.write_text(json.dumps(known))
    with pytest.raises(MeasurementError, match=r"summary\.json: was not written by this version"):
        render(folder.path, "md")
    path.unlink()
    assert render(folder.path, "md").is_file(), "without one, the trials are summarised again"


def test_a_report_does_not_show_trials_under_another_experiment(folder: RunFolder) -> None:
    given = folder.path / "experiment.yaml"
    given.write_text(TEXT + "# a comment changes nothing\n")
    assert render(folder.path, "md").is_file()
    given.write_text(TEXT.replace("300kpps", "3Mpps"))
    with pytest.raises(SpecError, match=r"load\.noise: \[0pps, 300kpps\] in the folder's trials"):
        render(folder.path, "md")


@pytest.mark.parametrize("torn", [b'{"trial": 4, "arm": "he', b"\0" * 100])
@pytest.mark.parametrize("name", ["trials.jsonl", "record.jsonl"])
def test_a_line_that_a_crash_tore_is_no_edit(folder: RunFolder, name: str, torn: bytes) -> None:
    with (folder.path / name).open("ab") as stream:
        stream.write(torn)
    again = reopened(folder)
    refuse_changes(again, settings(), 2)
    again.append_trial(data.trial("there", SPEC.points()[0], 0, 4))
    assert len(reopened(folder).trials()) == 5


def test_a_trial_that_a_crash_kept_from_the_record_is_no_edit(folder: RunFolder) -> None:
    path = folder.path / record.RECORD
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:-2]) + b"\n")
    again = reopened(folder)
    refuse_changes(again, settings(), 2)
    again.append_trial(data.trial("there", SPEC.points()[0], 0, 4))
    again.append_trial(data.trial("there", SPEC.points()[1], 0, 5))
    assert len(reopened(folder).trials()) == 6


def test_a_trial_that_a_crash_kept_from_the_journal_is_no_edit(folder: RunFolder) -> None:
    again = reopened(folder)
    again.record.announce("trial", folder.path / "trials.jsonl", b"what did not come to be written")
    assert len(reopened(folder).trials()) == 4
    again = reopened(folder)
    again.append_trial(data.trial("there", SPEC.points()[0], 0, 4))
    assert len(reopened(folder).trials()) == 5
    refuse_changes(reopened(folder), settings(), 2)


def as_earlier_versions_had_it(folder: RunFolder, trials: int) -> None:
    """Make the record one without chain, in which each trial stands once."""
    path = folder.path / record.RECORD
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    kept = [line for line in lines if "kept" not in line and line.get("trial", 0) <= trials]
    old = [{key: value for key, value in line.items() if key != "chain"} for line in kept]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))


@pytest.mark.parametrize("trials", [4, 3])
def test_the_record_of_an_earlier_version_is_read(folder: RunFolder, trials: int) -> None:
    as_earlier_versions_had_it(folder, trials)  # the last line may be lacking after a crash
    assert len(reopened(folder).trials()) == 4
    refuse_changes(reopened(folder), settings(), 2)
    as_earlier_versions_had_it(folder, 2)
    with pytest.raises(MeasurementError, match="line 3: was not written by this run"):
        reopened(folder).trials()


def test_a_file_that_a_crash_kept_from_being_replaced_is_no_edit(folder: RunFolder) -> None:
    folder.record.add_file("host.json", b"what did not come to be written")
    assert reopened(folder).host() == data.HOST


def test_settings_have_the_keys_of_the_file() -> None:
    found = experiment_settings(SPEC)
    assert found["load.victim"] == "20kpps"
    assert found["routers.noise.role"] == "aggressor"
    assert found["arms"] == "here, there"
    assert settings()["--on"] == "live"
