"""`isolane search`: limits that are known beforehand, simulated and with real frames.

A shaper's bucket lets its burst through before it limits, which hides an overload of that size; a
window of 4 s makes 10 ms of burst a quarter of a percent.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from isolane.results.folder import RunFolder
from isolane.results.search_results import Searched, SearchSummary
from isolane.trials.sim import sim_backend

from tests.live import background, in_process
from tests.shaped import LIMITS, SHAPED

PLAIN = """\
isolane: 1
name: plain
routers: [{name: one}, {name: two}]
load: {one: 1kpps, two: 1kpps}
arms: [{name: direct, path: direct}, {name: bridge, path: bridge}]
trial: {warmup: 20ms}
"""
QUICK = ("--initial-duration", "50ms", "--duration", "50ms", "--duration-sum", "50ms")


@pytest.fixture
def shaped(tmp_path: Path) -> Path:
    file = tmp_path / "shaped.yaml"
    file.write_text(SHAPED)
    return file


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    file = tmp_path / "plain.yaml"
    file.write_text(PLAIN)
    return file


def rate(searched: Searched, name: str) -> float:
    (found,) = [one for one in searched.rates if one.name == name]
    assert found.status == "found", found
    assert found.throughput_pps is not None
    return found.throughput_pps


@pytest.mark.slow
@pytest.mark.native
def test_simulated_shapers_are_found_within_half_a_percent(shaped: Path, tmp_path: Path) -> None:
    where = ("--on", "sim", "--profile", "veth", "--output", tmp_path / "found", "--json")
    done = in_process("search", shaped, *where)
    assert done.returncode == 0, done.stderr
    summary = SearchSummary.model_validate_json(done.stdout)
    assert summary == RunFolder.open(tmp_path / "found").search()
    for searched in summary.searched:
        assert searched.rate_limit
        assert searched.rate_limit.emptied
        limit_pps = LIMITS[searched.arm]
        for name in ("NDR", "PDR", "MFR", "FRMOL"):
            assert rate(searched, name) == pytest.approx(limit_pps, rel=0.005), name


@pytest.mark.slow
@pytest.mark.native
def test_a_simulated_bridge_livelocks_and_its_rates_say_so(plain: Path, tmp_path: Path) -> None:
    """Per frame the profile's costs are 3.94 us on the bridge: 254 kpps; each drop costs, too."""
    where = ("--on", "sim", "--profile", "veth", "--output", tmp_path / "found", "--json")
    done = in_process("search", plain, *where, "--duration-sum", "1s")
    assert done.returncode == 0, done.stderr
    direct, bridge = SearchSummary.model_validate_json(done.stdout).searched
    assert rate(direct, "NDR") == pytest.approx(847_458, rel=0.01)
    assert rate(bridge, "NDR") == pytest.approx(253_807, rel=0.03)
    frame = 5  # one in 200 ms, frames/s
    assert rate(bridge, "NDR") <= rate(bridge, "MFR") + frame <= 253_807
    assert rate(bridge, "FRMOL") < 0.6 * rate(bridge, "MFR")


@pytest.mark.native
def test_a_search_is_a_capacity_for_a_run(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim_backend, "workers", lambda _: 1)  # a process takes longer to start
    sim = ("--on", "sim", "--profile", "veth")
    found = tmp_path / "found"
    done = in_process("search", plain, *sim, *QUICK, "--max-rate", "1Mpps", "--output", found)
    assert done.returncode == 0, done.stderr
    assert "NDR" in done.stdout
    assert "FRMOL" in done.stdout
    in_x = tmp_path / "x.yaml"
    short = PLAIN.replace("warmup", "repeats: 1, duration: 50ms, warmup")
    in_x.write_text(short.replace("one: 1kpps,", "one: 0.1x,"))
    done = in_process("run", in_x, *sim, "--capacity-from", found, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    search = RunFolder.open(found).search()
    assert search is not None
    for words in (("report", found), ("run", "--resume", found, "--on", "sim")):
        refused = in_process(*words)
        assert refused.returncode == 2
        assert "this is the folder of a search" in refused.stderr
    summary = RunFolder.open(tmp_path / "run").summary()
    assert summary is not None
    assert summary.capacity is not None
    assert summary.capacity.pps.median == rate(search.searched[0], "MFR")
    assert summary.capacity.source == str(found)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--loss-ratio", "-1"), "--loss-ratio -1: is not a share"),
        (("--loss-ratio", "nan"), "--loss-ratio nan: is not a share"),
        (("--max-rate", "1x"), "--max-rate 1x: accepted: a rate above 0 in pps or bps"),
        (("--min-rate", "fast"), "--min-rate fast: 'fast' is not a rate"),
        (("--duration", "1ms"), "--duration"),
        (("--max-delay", "soon"), "--max-delay"),
        (("--time-limit", "0s"), "--time-limit"),
        (("--router", "six"), "--router six: the experiment has no such router"),
        (("--router", "one", "--together"), "give either --router or --together"),
        (("--profile", "veth"), "add --on sim"),
    ],
)
def test_mistakes_are_refused_before_anything_happens(
    words: tuple[str, ...], told: str, plain: Path, tmp_path: Path
) -> None:
    done = in_process("search", plain, *words, "--output", tmp_path / "found")
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert not (tmp_path / "found").exists()


@pytest.mark.slow
@pytest.mark.native
def test_ctrl_c_keeps_what_was_found(plain: Path, tmp_path: Path) -> None:
    target = tmp_path / "found"
    long = ("--duration", "4s", "--duration-sum", "4s")
    words = ("search", plain, "--on", "sim", "--profile", "veth", *long, "--output", target)
    with background(tmp_path / "process", *words) as process:
        process.until(lambda: len(_trials(target)) >= 3)
        assert process.end(signal.SIGINT) == 130
        assert f"what was found until then is kept in {target}/search.json" in process.stderr
    kept = json.loads((target / "search.json").read_text())
    assert not kept["complete"]
    assert kept["searched"][-1]["reason"] == "the search was interrupted"
    assert len(RunFolder.open(target).trials()) >= 3


def _trials(target: Path) -> list[bytes]:
    journal = target / "trials.jsonl"
    return journal.read_bytes().splitlines() if journal.exists() else []
