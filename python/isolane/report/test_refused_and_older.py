"""Figures that are refused, and runs of an older method, as a report shows them."""

import json
import shutil
from pathlib import Path

import pytest

from isolane.report import render
from isolane.report import test_data as data
from isolane.report.figures import figures
from isolane.report.test_render import summary
from isolane.results.folder import RunFolder
from isolane.results.method import METHOD
from isolane.results.results import Trial


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return data.run_folder(tmp_path_factory.mktemp("noisy") / "run", repeats=2)


def test_a_run_of_an_older_method_is_marked_and_says_what_differs(
    noisy: RunFolder, tmp_path: Path
) -> None:
    """A folder as the version before wrote it: without any of the newer keys."""
    old = RunFolder.open(Path(shutil.copytree(noisy.path, tmp_path / "old")))
    known = json.loads(summary(noisy).model_dump_json())
    del known["method"]
    for cell in known["cells"]:
        for name in ("delivered", "reference", "retained_reason"):
            del cell[name]
        for value in cell.values():
            if isinstance(value, dict) and "median" in value:
                del value["coverage"], value["invocations"]
    known["verdict"]["arms"] = [
        {"arm": arm["arm"], "finding": "not isolated"} for arm in known["verdict"]["arms"]
    ]
    lines = (old.path / "trials.jsonl").read_text().splitlines()
    trials = [json.loads(line) for line in lines]
    for trial in trials:
        del trial["invocation"]
    (old.path / "trials.jsonl").write_text("".join(f"{json.dumps(t)}\n" for t in trials))
    (old.path / "record.jsonl").unlink()
    (old.path / "summary.json").write_text(json.dumps(known))
    told = "were made by method 1, an older one"
    page = render(old.path).read_text()
    assert page.index(told) < page.index('id="results"')
    assert "Share retained" in page
    assert "Share delivered" not in page
    text = render(old.path, "md").read_text()
    assert told in text
    assert f"Do not compare them with figures of method {METHOD}" in text
    assert "method 1, " in text.splitlines()[-1]
    assert told not in render(noisy.path, "md").read_text()


def _overloaded_alone(trial: Trial) -> Trial:
    """On bridge the victim loses half of its frames whatever the aggressor does."""
    if trial.purpose == "capacity" or trial.arm != "bridge":
        return trial
    routers = tuple(
        r.model_copy(
            update={
                "received_pps": r.offered_pps / 2,
                "received_frames": r.offered_frames // 2,
                "loss_ratio": 0.5,
            }
        )
        if r.role == "victim"
        else r
        for r in trial.routers
    )
    return trial.model_copy(update={"routers": routers})


def test_what_is_refused_is_called_so_in_table_plot_and_text(tmp_path: Path) -> None:
    found = data.experiment(tmp_path, data.NOISY, 2)
    trials = [_overloaded_alone(trial) for trial in data.trials_of(found, 2)]
    folder = data.run_folder(tmp_path / "run", repeats=2, trials=trials)
    why = "at the reference point, aggressor 0x, 50 % of its frames are lost already"
    text = render(folder.path, "md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| bridge | aggressor 4x"))
    assert row.split(" | ")[5:7] == ["50 %", "refused"]
    assert f"- Retained and inflation on bridge: refused: {why}" in text
    page = render(folder.path).read_text()
    assert "Figures that are refused" in page
    assert why in page
    delivered, retained = figures(summary(folder))[0].panels
    assert "Refused for bridge at aggressor 4x." in retained.alt
    assert "bridge from 50 % to 50 %" in delivered.alt
    assert "bridge" not in retained.alt.partition(".")[0]
