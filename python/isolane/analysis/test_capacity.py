"""1x from elsewhere, and limits that are known beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isolane.analysis.capacity import given_capacity, kept_capacity
from isolane.errors import SpecError
from isolane.report import render
from isolane.report import test_data as data
from isolane.results.folder import RunFolder
from isolane.results.results import Summary, Trial
from isolane.run.runner import Run
from isolane.run.test_runner import CAPACITY_PPS, RELATIVE, Imaginary
from isolane.spec import parse_experiment
from isolane.trials.limits import refuse_beyond
from isolane.trials.sim import sim_backend
from isolane.trials.sim.catalogue import find_host
from tests.live import in_process

SIM = """\
isolane: 1
name: two
routers: [{name: victim, role: victim}, {name: noise, role: aggressor}]
load:
  victim: 0.25x
  noise: [0x, 1x]
arms: [{name: direct, path: direct}, {name: bridge, path: bridge}]
trial: {duration: 50ms, warmup: 10ms, repeats: 1}
"""


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate in this process: another one takes longer to start than these trials take."""
    monkeypatch.setattr(sim_backend, "workers", lambda _: 1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    target = tmp_path / "two.yaml"
    target.write_text(SIM)
    return target


def test_a_rate_is_taken_for_1x_and_no_capacity_is_measured(tmp_path: Path) -> None:
    spec = parse_experiment(RELATIVE)
    back_end = Imaginary()
    folder = RunFolder.create(tmp_path / "run", RELATIVE, back_end.host())
    capacity = given_capacity("50kpps", spec)
    summary = Run(spec, back_end, folder, capacity=capacity).execute()
    assert {trial.purpose for trial in folder.trials()} == {"measure"}
    assert {s.demands[0].offered_pps for s in back_end.settings} == {0.2 * 50_000}
    assert {s.demands[0].load_x for s in back_end.settings} == {0.2}
    assert summary.capacity == capacity
    assert summary.capacity.source == "50kpps"


def test_the_capacity_of_a_run_is_taken_over(tmp_path: Path) -> None:
    spec = parse_experiment(RELATIVE)
    first = RunFolder.create(tmp_path / "run", RELATIVE, data.HOST)
    measured = Run(spec, Imaginary(), first).execute().capacity
    assert measured is not None
    found = given_capacity(str(first.path), spec)
    assert found == measured.model_copy(update={"source": str(first.path)})
    (first.path / "summary.json").unlink()
    assert given_capacity(str(first.path), spec).pps.median == CAPACITY_PPS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2x", "cannot be 1x; accepted: the folder of a run that measured its capacity"),
        ("0pps", "cannot be 1x"),
        ("nonsense", "'nonsense' is not a rate; .* or the folder of a run"),
        (".", "not the folder of a run"),
    ],
)
def test_what_cannot_be_1x_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        given_capacity(text, parse_experiment(RELATIVE))


@pytest.mark.slow
@pytest.mark.native
def test_live_and_simulated_runs_of_one_file_have_the_same_1x(file: Path, tmp_path: Path) -> None:
    """The `live` run is a simulated one with another profile: only its folder matters here."""
    first, second = tmp_path / "first", tmp_path / "second"
    words = ["run", file, "--on", "sim", "--profile", "veth"]
    assert in_process(*words, "--output", first).returncode == 0
    done = in_process(*words, "--output", second, "--capacity-from", first)
    assert done.returncode == 0, done.stderr
    assert f"taken from {first}" in done.stdout.replace("\n", " ")
    loads = [
        [(r.offered_pps, r.load_x) for t in trials(path) if t.purpose == "measure"
         for r in t.routers]
        for path in (first, second)
    ]  # fmt: skip
    assert loads[0] == loads[1]
    resumed = in_process("run", "--resume", second, "--repeats", 2, "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert Summary.model_validate_json(resumed.stdout).capacity == kept_capacity(
        RunFolder.open(second)
    )
    assert "capacity" not in {trial.purpose for trial in trials(second)}
    for more in (("--repeats", 2), ("--invocations", 2), ("--on", "sim")):
        refused = in_process("run", "--resume", second, "--time-limit", "1min", *more)
        assert (refused.returncode, "--time-limit cannot be used" in refused.stderr) == (2, True)
    other = in_process("run", "--resume", second, "--capacity-from", "1kpps")
    assert other.returncode == 2
    assert "--capacity-from: " in other.stderr
    (second / "summary.json").unlink()
    assert f"1x, taken from {first}" in render(second, "html").read_text()


def trials(path: Path) -> list[Trial]:
    return RunFolder.open(path).trials()


@pytest.mark.slow
@pytest.mark.native
def test_what_the_trials_were_made_with_is_kept_by_the_command(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = in_process("run", file, "--on", "sim", "--profile", "veth", "--output", folder)
    assert done.returncode == 0, done.stderr
    before = (folder / "trials.jsonl").read_bytes()
    done = in_process("run", "--resume", folder, "--profile", "rathore2013")
    assert done.returncode == 2
    assert "profile.name: veth in the folder's trials, rathore2013 now" in done.stderr
    changed = file.read_text().replace("victim: 0.25x", "victim: 0.5x")
    (folder / "experiment.yaml").write_text(changed)
    done = in_process("run", "--resume", folder)
    assert done.returncode == 2
    assert "load.victim: 0.25x in the folder's trials, 0.5x now" in done.stderr
    assert (folder / "trials.jsonl").read_bytes() == before


FAST = SIM.replace("0.25x", "100kpps").replace("[0x, 1x]", "[0pps, 1.4Mpps]")


def test_the_line_of_a_profile_refuses_loads_beyond_it(tmp_path: Path) -> None:
    file = tmp_path / "fast.yaml"
    file.write_text(FAST)
    spec = parse_experiment(FAST)
    refuse_beyond(file, spec)
    refuse_beyond(file, spec, profile=find_host("veth").profile)
    with pytest.raises(SpecError) as caught:
        refuse_beyond(file, spec, profile=find_host("rathore2013").profile)
    assert str(caught.value) == (
        f"{file}:6: load.noise[1]: 1.4Mpps for noise: victim, noise together take 1.01 Gbps in arm "
        "'bridge' (20 bytes of preamble and gap per frame); accepted: at most 1.488095Mpps in "
        "total of 64-byte frames on the 1 Gbps line of profile rathore2013 (another: --profile)"
    )


def test_loads_in_x_are_known_beforehand_where_1x_is_given(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(SIM)
    spec = parse_experiment(SIM)
    refuse_beyond(file, spec, profile=find_host("rathore2013").profile)
    refuse_beyond(file, spec, given_capacity("1Mpps", spec), find_host("rathore2013").profile)
    with pytest.raises(SpecError, match=r"two\.yaml:6: load\.noise\[1\]: 1x for noise: .* rathore"):
        refuse_beyond(file, spec, given_capacity("1.3Mpps", spec), find_host(None).profile)
    with pytest.raises(SpecError, match=r"accepted: at most 14\.88.* \(traffic\.line_rate\)"):
        refuse_beyond(file, spec, given_capacity("13Mpps", spec))


@pytest.mark.native
def test_a_load_beyond_the_line_leaves_no_folder(tmp_path: Path) -> None:
    file, folder = tmp_path / "fast.yaml", tmp_path / "run"
    file.write_text(FAST)
    done = in_process("run", file, "--on", "sim", "--output", folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "load.noise[1]: 1.4Mpps" in done.stderr
    assert not folder.exists()


def test_options_keep_a_given_capacity(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", RELATIVE, data.HOST)
    assert kept_capacity(folder) is None
    capacity = given_capacity("720kpps", parse_experiment(RELATIVE))
    folder.keep_options({"capacity": capacity.model_dump_json()})
    assert kept_capacity(RunFolder.open(folder.path)) == capacity
    assert json.loads((folder.path / "options.json").read_text())["capacity"]
