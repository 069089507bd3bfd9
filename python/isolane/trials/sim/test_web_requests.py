"""Simulated load balancers: the turns of a request, and what comes of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported
from isolane.results.folder import RunFolder
from isolane.results.results import RouterTrial, Trial
from isolane.spec import parse_experiment
from isolane.spec.demands import Demand, Scale, demands_of
from isolane.spec.hostmodel import PathData
from isolane.trials.sim import simulation as to
from isolane.trials.sim.answering_paths import answering, in_kernel
from isolane.trials.sim.catalogue import HERE, own_path
from isolane.trials.sim.segments import segments
from isolane.trials.sim.sim_backend import SimBackEnd
from isolane.trials.sim.test_sim_backend import run
from isolane.trials.sim.web_requests import ACKNOWLEDGED, BUFFER, CLOSING, Peers, owner, traffic

pytestmark = pytest.mark.native

TEXT = """\
isolane: 1
name: asked
dut: {{receive: {receive}, moderation: 50us}}
traffic: {{mode: http, object: {size}, keep_alive: {kept}}}
routers:
  - {{name: lb{kind}}}
  - {{name: other{kind}, role: aggressor}}
load: {{lb: {lb}, other: {other}}}
arms: [{arms}]
trial: {{duration: 100ms, warmup: 20ms, repeats: 1}}
"""
ALL = "{name: direct, path: direct}, {name: macvlan, path: macvlan}, {name: bridge, path: bridge}"
PEERS = Peers(wait_ns=50_000, frame_ns=1_000, byte_ns=0.5)


def text(**changes: str) -> str:
    usual = {"receive": "softirq", "size": "4KiB", "kept": "false", "lb": "500rps"}
    return TEXT.format(**{**usual, "other": "0rps", "kind": "", "arms": ALL, **changes})


def demand(**changes: str) -> Demand:
    found = parse_experiment(text(**changes))
    return demands_of(found, found.points()[0], Scale(), "direct")[0]


def trials_of(tmp_path: Path, **changes: str) -> list[Trial]:
    run(parse_experiment(text(**changes)), tmp_path / "run", "veth")
    return [trial for trial in RunFolder.open(tmp_path / "run").trials() if trial.routers]


def sizes(entry: to.Traffic) -> list[int]:
    assert isinstance(entry.pattern, to.Requests)
    return [turn.frame_bytes for turn in entry.pattern.turns]


@pytest.mark.parametrize(
    ("size", "parts"), [("0B", 1), ("15KiB", 1), ("16KiB", 2), ("64KiB", 5), ("1MiB", 66)]
)
def test_an_answer_comes_in_parts_that_the_process_can_hold(size: str, parts: int) -> None:
    (entry, rest) = traffic(demand(size=size), PEERS, keep_alive=False, end_ns=9)
    assert len(sizes(entry)) == 5 + parts
    content = demand(size=size).router.object_bytes
    assert content <= sum(sizes(entry)[5:]) <= content + 400
    assert max(sizes(entry)) <= BUFFER
    assert isinstance(entry.pattern, to.Requests)
    by_kernel = [turn.router != owner(turn.router) for turn in entry.pattern.turns]
    assert by_kernel == [True, True, False, False, True] + [False] * parts
    assert len(sizes(rest)) == CLOSING + round(content / ACKNOWLEDGED)
    assert (entry.stop_ns, rest.stop_ns) == (9, None)


def test_on_connections_that_are_kept_there_are_question_and_answer() -> None:
    (entry,) = traffic(demand(), PEERS, keep_alive=True, end_ns=9)
    assert len(sizes(entry)) == 2
    assert isinstance(entry.pattern, to.Requests)
    last = entry.pattern.turns[-1]
    assert last.busy_ns == 1_000 + 0.5 * last.frame_bytes


def test_what_comes_at_once_is_not_waited_for() -> None:
    entry = next(traffic(demand(size="64KiB"), PEERS, keep_alive=False, end_ns=9))
    assert isinstance(entry.pattern, to.Requests)
    waits = [turn.outside_ns for turn in entry.pattern.turns]
    assert waits == [50_000, 50_000, 0, 50_000, 50_000, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("size", "counted"), [("0B", 9.7), ("4KiB", 9.7), ("64KiB", 21.0)])
def test_as_many_frames_come_in_as_were_counted(size: str, counted: float) -> None:
    entries = traffic(demand(size=size), PEERS, keep_alive=False, end_ns=9)
    assert sum(len(sizes(entry)) for entry in entries) == pytest.approx(counted, abs=1)


@pytest.mark.parametrize("receive", ["softirq", "threaded"])
@pytest.mark.parametrize("kept", ["false", "true"])
def test_each_request_is_answered(receive: str, kept: str, tmp_path: Path) -> None:
    for trial in trials_of(tmp_path, receive=receive, kept=kept):
        assert (trial.status, trial.conserved) == ("ok", True), trial.reason
        lb, other = trial.routers
        assert lb.offered_frames == lb.received_frames == pytest.approx(50, abs=1)
        assert (lb.lost["unanswered"], lb.loss_ratio) == (0, 0)
        assert lb.delay is not None
        assert lb.delay.p50_ns > 0.1e6
        assert lb.web is not None
        assert (lb.web.closed, lb.web.object_bytes, lb.web.failed) == (False, 4096, {})
        assert lb.web.content_bps == pytest.approx(8 * 4096 * lb.received_pps)
        assert (lb.web.connections, lb.web.max_in_flight) == (None, None), "nobody knows"
        assert lb.cpu_ns is not None
        assert lb.cpu_ns > 50 * 20_000
        assert other.offered_total == 0


def test_a_container_costs_more_behind_a_bridge_and_with_larger_objects(tmp_path: Path) -> None:
    small, large = (
        {trial.arm: caused(trial.routers[0]) for trial in trials_of(tmp_path / size, size=size)}
        for size in ("0B", "64KiB")
    )
    assert small["bridge"] > 1.1 * small["direct"]
    assert all(large[arm] > 2 * small[arm] for arm in small)


def caused(router: RouterTrial) -> float:
    assert router.cpu_caused_ns_per_frame is not None
    return router.cpu_caused_ns_per_frame


def test_a_closed_loop_asks_again_as_soon_as_it_is_answered(tmp_path: Path) -> None:
    for trial in trials_of(tmp_path, other="32conn"):
        lb, other = trial.routers
        assert trial.status == "ok", trial.reason
        assert other.web is not None
        assert other.web.closed
        assert other.received_pps > 2_000
        assert other.offered_pps == pytest.approx(other.received_pps, rel=0.1)
        assert lb.received_frames == lb.offered_frames


def test_more_than_is_answered_waits_and_fails(tmp_path: Path) -> None:
    for trial in trials_of(tmp_path, size="64KiB", lb="20krps"):
        lb = trial.routers[0]
        assert lb.web is not None
        assert lb.received_pps < 10_000
        assert lb.offered_frames == pytest.approx(2_000, rel=0.01)
        assert trial.conserved
        assert lb.web.failed.get("timed_out", 0) == lb.offered_frames - lb.received_frames


def test_the_host_itself_as_load_balancer(tmp_path: Path) -> None:
    arms = "{name: native, kind: native}, {name: direct, path: direct}"
    alone = TEXT.replace("  - {{name: other{kind}, role: aggressor}}\n", "")
    alone = alone.replace(", other: {other}", "").format(
        receive="softirq", size="4KiB", kept="false", kind="", lb="64conn", arms=arms
    )
    run(parse_experiment(alone), tmp_path / "run", "veth")
    rates = {t.arm: t.routers[0].received_pps for t in RunFolder.open(tmp_path / "run").trials()}
    assert rates["native"] == pytest.approx(rates["direct"], rel=0.15)


def test_what_a_prediction_does_not_tell_is_said(tmp_path: Path) -> None:
    (tmp_path / "own.cfg").write_text("")
    own = text().replace("- {name: lb}", f"- {{name: lb, haproxy: {tmp_path / 'own.cfg'}}}")
    summary = run(parse_experiment(own), tmp_path / "run", "veth")
    told = [gap.what for gap in summary.not_measured]
    assert "How long the last answers take" in told
    assert any("own.cfg costs (lb)" in what for what in told)


def test_a_profile_without_its_costs_cannot_simulate_it() -> None:
    found = parse_experiment(text())
    with pytest.raises(
        NotSupported, match=r"mode http cannot be simulated .* cost tcp, cost proxy"
    ):
        SimBackEnd(found, "rathore2013").check(found.resolved_arms())
    names = [file.stem for file in (HERE / "profiles").glob("*.yaml")]
    able = []
    for name in names:
        try:
            SimBackEnd(found, name).check(found.resolved_arms())
        except NotSupported:
            continue
        able.append(name)
    assert able == ["veth"]


@pytest.mark.parametrize("path", ["none", "direct", "macvlan", "bridge"])
def test_kernel_and_process_part_behind_the_same_ring(path: str) -> None:
    kind = "native" if path == "none" else "container"
    plain = own_path(kind, path, None)
    assert plain is not None
    server, kernel = answering(plain, "http"), in_kernel(plain)
    for made in (server, kernel):
        PathData.model_validate({key: getattr(made, key) for key in PathData.model_fields})
    first = [
        (found.name, found.context, [stage.cost for _, stage in found.stages])
        for made in (server, kernel)
        for found in segments(made, "lb", "wire", link=False)[:1]
    ]
    assert first[0] == first[1], "it takes frames of both off the same ring"
    added = {
        cost: [name for name, stage in made.stages.items() if cost in stage.cost]
        for made, cost in ((server, "proxy"), (kernel, "tcp"))
    }
    assert added == {"proxy": ["server"], "tcp": ["tcp"]}
