"""Work of routers on a simulated host."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.report.html import page
from isolane.report.loaded_run import read_run
from isolane.results.folder import RunFolder
from isolane.results.results import RouterTrial, Trial
from isolane.spec import parse_experiment
from isolane.spec.kinds import NICS, SIMULATED
from isolane.trials.sim.test_sim_backend import run

pytestmark = pytest.mark.native

TEXT = """\
isolane: 1
name: busy
dut: {{receive: {receive}}}
traffic: {{frame_size: 64, line_rate: 1Gbps}}
routers:
  - {{name: a, {kind}, role: victim}}
  - {{name: b, {kind}, role: aggressor, work: [none, cpu]}}
load: {{a: {a}, b: {b}}}
trial: {{duration: 200ms, warmup: 10ms, repeats: 1}}
"""
KINDS = [
    f"kind: {kind}, path: {path}{f', nic: {nic}' if nic else ''}"
    for kind in ("container", "vm")
    for path in SIMULATED[kind]
    for nic in (NICS[path] if kind == "vm" else (None,))
]


def trials(
    folder: Path, kind: str, *, a: str = "2kpps", b: str = "1kpps", receive: str = "softirq"
) -> tuple[Trial, Trial]:
    """Return the trials without and with work of the aggressor."""
    spec = parse_experiment(TEXT.format(kind=kind, a=a, b=b, receive=receive))
    run(spec, folder / "run", profile="rathore2013")
    quiet, busy = sorted(RunFolder.open(folder / "run").trials(), key=lambda trial: trial.point)
    return quiet, busy


def share(router: RouterTrial) -> float:
    """Return the part of its core that a router had."""
    assert router.cpu_share is not None
    return router.cpu_share


@pytest.mark.parametrize("kind", KINDS)
def test_work_takes_the_time_that_frames_leave_and_is_the_routers_own(
    kind: str, tmp_path: Path
) -> None:
    quiet, busy = trials(tmp_path, kind)
    for trial in (quiet, busy):
        assert trial.status == "ok", trial.reason
        assert trial.conserved
        for core in trial.cores:
            assert core.user + core.system + core.softirq + core.idle == pytest.approx(1)
    assert [router.work for router in busy.routers] == ["none", "cpu"]
    assert quiet.cores[0].idle > 0.5
    assert busy.cores[0].idle < 0.001
    work = share(busy.routers[1]) - (quiet.routers[1].cpu_share or 0)
    assert work == pytest.approx(quiet.cores[0].idle, abs=0.03), "less what it is interrupted for"
    for router in busy.routers:
        assert router.received_frames == pytest.approx(router.offered_frames, rel=0.02)


def test_it_takes_time_between_its_times_alone(tmp_path: Path) -> None:
    text = TEXT.replace("role: victim", "role: router").replace("role: aggressor", "role: router")
    text = text.replace("work: [none, cpu]", "work: cpu{times}")
    idle: dict[str, float] = {}
    for times in ("", ", work_from: 50ms, work_until: 100ms", ", work_until: 50ms"):
        kind = "kind: container, path: macvlan"
        filled = text.format(kind=kind, a="2kpps", b="1kpps", receive="softirq", times=times)
        folder = tmp_path / f"run-{len(idle)}"
        run(parse_experiment(filled), folder, profile="rathore2013")
        (trial,) = RunFolder.open(folder).trials()
        idle[times] = trial.cores[0].idle
    always, *parts = idle.values()
    assert always < 0.001
    quiet = parts[0] / 0.75
    assert quiet > 0.9, "little is left for frames"
    assert parts[1] == pytest.approx(0.75 * quiet, abs=0.01)


def test_the_answer_says_what_it_takes_meanwhile_and_the_report_shades_it(tmp_path: Path) -> None:
    text = TEXT.replace("role: victim", "role: router").replace("role: aggressor", "role: router")
    text = text.replace("work: [none, cpu]", "work: cpu, work_from: 250ms, work_until: 550ms")
    text = text.replace("duration: 200ms", "duration: 800ms")
    kind = "kind: container, path: sriov"
    spec = parse_experiment(text.format(kind=kind, a="1400kpps", b="0pps", receive="threaded"))
    summary = run(spec, tmp_path / "run", profile="rathore2013")
    assert summary.answer is not None
    assert summary.answer.meanwhile == "a while b works"
    (row,) = summary.answer.rows
    assert row.meanwhile is not None
    assert row.meanwhile.median == pytest.approx(0.5, abs=0.1), "half of the core"
    (tmp_path / "run" / "summary.json").unlink()
    again = read_run(tmp_path / "run")
    assert again.summary.answer is not None
    assert again.summary.answer.rows[0].meanwhile == row.meanwhile
    assert "Shaded from 0.26 to 0.56 s: work of b." in page(again)


def test_a_guest_that_reads_its_disk_lets_others_in_between(tmp_path: Path) -> None:
    text = TEXT.format(kind="kind: vm, path: netback", a="2kpps", b="1kpps", receive="softirq")
    run(parse_experiment(text.replace("cpu]", "disk]")), tmp_path / "run", profile="veth")
    trials = RunFolder.open(tmp_path / "run").trials()
    quiet, busy = sorted(trials, key=lambda trial: trial.point)
    assert [router.work for router in busy.routers] == ["none", "disk"]
    work = share(busy.routers[1]) - share(quiet.routers[1])
    assert work == pytest.approx(quiet.cores[0].idle, abs=0.1), "but for wake-ups"
    for router in busy.routers:
        assert router.received_frames == pytest.approx(router.offered_frames, rel=0.02)


@pytest.mark.parametrize("policy", ["", ", policy: {a: {cpu_weight: 100}, b: {cpu_weight: 100}}"])
def test_a_guest_under_a_policy_waits_for_no_tick_beside_those_that_compute(
    policy: str, tmp_path: Path
) -> None:
    text = TEXT.replace("work: [none, cpu]", "count: [1, 3], work: [none, cpu]")
    kind = "kind: vm, path: macvtap"
    text = text.format(kind=kind, a="2kpps", b="0kpps", receive="softirq")
    text = f"{text}arms: [{{name: one{policy}}}]\n"
    run(parse_experiment(text), tmp_path / "run", profile="veth")
    trials = RunFolder.open(tmp_path / "run").trials()
    delay = max(trials, key=lambda trial: trial.point).routers[0].delay
    assert delay is not None
    assert (delay.p99_ns > 2_000_000) == (not policy)
    assert (delay.p99_ns < 1_000_000) == bool(policy)


def test_a_containers_work_shares_the_core_with_the_thread_of_another(tmp_path: Path) -> None:
    kind = "kind: container, path: sriov"
    _, busy = trials(tmp_path, kind, a="1400kpps", b="0kpps", receive="threaded")
    assert share(busy.routers[0]) == pytest.approx(0.5, abs=0.05)
    assert share(busy.routers[1]) == pytest.approx(0.5, abs=0.05)


def test_softirqs_go_ahead_of_a_containers_work(tmp_path: Path) -> None:
    quiet, busy = trials(tmp_path, "kind: container, path: macvlan", a="300kpps", b="0kpps")
    for trial in (quiet, busy):
        assert trial.routers[0].received_frames >= 0.99 * trial.routers[0].offered_frames


def test_a_guests_work_waits_for_its_own_frames(tmp_path: Path) -> None:
    kind = "kind: vm, path: sriov-passthrough"
    quiet, busy = trials(tmp_path, kind, a="0kpps", b="1400kpps")
    mine = [trial.routers[1].received_pps for trial in (quiet, busy)]
    assert mine[1] == pytest.approx(mine[0], rel=0.05)
