"""Experiments with routers that Isolane did not make: it measures them, or says why not."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from isolane.external import router_examination
from isolane.results.folder import RunFolder

from tests.came_through import came_through
from tests.external_routers import Made, external_routers, shape
from tests.live import (
    assert_same_host,
    in_process,
    isolane,
    quiet_host,
    running,
)
from tests.wires import inside, ip

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

EXPERIMENT = """\
isolane: 1
name: there
traffic: {{frame_size: {size}, flows: 10, ip: {ip}}}
routers:
  - {{name: victim, kind: external, role: victim, external: {victim}}}
  - {{name: noise, kind: external, role: aggressor, external: {noise}}}
load: {{victim: 2kpps, noise: [0kpps, 3kpps]}}
{arms}
trial: {{duration: 100ms, warmup: 20ms, repeats: 1, retries: 0, seed: 1}}
"""
ONE = """\
isolane: 1
name: there
traffic: {{ip: {ip}, frame_size: {size}}}
routers: [{{name: victim, kind: external, external: {victim}}}]
load: {{victim: {load}}}
trial: {{duration: 100ms, warmup: 20ms, repeats: 1, retries: 0, seed: 1}}
"""
SIZE = {4: "imix", 6: "84"}
TURNS = 20
"""A stalled generator sends little."""


def file_of(folder: Path, text: str) -> Path:
    file = folder / "there.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("version", [4, 6])
def test_two_routers_are_measured_to_the_frame(version: int, tmp_path: Path) -> None:
    with external_routers(2, version) as (victim, noise):
        text = EXPERIMENT.format(
            size=SIZE[version], ip=version, victim=victim.yaml(), noise=noise.yaml(), arms=""
        ).replace("role: aggressor", "role: aggressor, traffic: {mode: icmp-echo}")
        before = quiet_host()
        done = isolane("run", file_of(tmp_path, text), "--output", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        assert_same_host(before)
        folder = RunFolder.open(tmp_path / "run")
        trials = folder.trials()
        assert len(trials) == 2
        for trial in trials:
            assert trial.status != "failed", trial.reason
            assert trial.conserved, trial.reason
            for router in trial.routers:
                assert (router.kind, router.path) == ("external", "none")
                assert router.offered_total == router.received_total + sum(router.lost.values())
                assert router.lost["unaccounted"] == router.reordered == router.duplicated == 0
                assert router.cpu_caused_ns is router.cpu_ns is None
                assert "external" in (router.cpu_reason or "")
            assert [router.mode for router in trial.routers] == ["forward", "icmp-echo"]
            assert came_through(trial.routers[:1])
            assert came_through(trial.routers[1:])
        summary = folder.summary()
        assert summary is not None
        told = {each.what for each in summary.not_measured}
        assert "Where external routers lose frames" in told
        if any(trial.status == "ok" for trial in trials):
            assert "CPU time of each router in arm external" in told
        assert {node.label for drawing in summary.drawings for node in drawing.nodes} >= {
            "victim (external)", "noise (external)", "e2e-0in", "e2e-1out",
        }  # fmt: skip
        assert {nic["name"] for nic in folder.host().nics} == {
            "e2e-0in", "e2e-0out", "e2e-1in", "e2e-1out",
        }  # fmt: skip


def test_an_arm_of_external_routers_stands_beside_one_that_is_built(tmp_path: Path) -> None:
    with external_routers(2) as (victim, noise):
        arms = "arms: [{name: there}, {name: here, kind: container, path: bridge}]"
        text = EXPERIMENT.format(size=64, ip=4, victim=victim.yaml(), noise=noise.yaml(), arms=arms)
        done = isolane("run", file_of(tmp_path, text), "--output", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        trials = RunFolder.open(tmp_path / "run").trials()
        measured = [trial for trial in trials if trial.purpose == "measure"]
        assert {(t.arm, r.kind) for t in measured for r in t.routers} == {
            ("there", "external"), ("here", "container"),
        }  # fmt: skip
        assert all(trial.conserved for trial in trials), [t.reason for t in trials]
        # The floor of the delays is that of wires of Isolane's own.
        assert any(trial.purpose == "null-dut" for trial in trials)


def test_what_a_router_drops_was_lost_there(tmp_path: Path) -> None:
    with external_routers(1) as (victim,):
        shape(victim, "800kbit")
        text = ONE.format(victim=victim.yaml(), load="20kpps", ip=4, size=64)
        file = file_of(tmp_path, text)
        for turn in range(TURNS):
            done = isolane("run", file, "--output", tmp_path / f"run-{turn}")
            assert done.returncode == 0, done.stderr
            (trial,) = RunFolder.open(tmp_path / f"run-{turn}").trials()
            (router,) = trial.routers
            assert router.lost["unaccounted"] == 0
            assert router.offered_total == router.received_total + sum(router.lost.values())
            if router.lost["in_router"]:  # else too little was sent
                break
        assert router.lost["in_router"] > 0


def test_interfaces_of_this_namespace_need_no_name_of_one(tmp_path: Path) -> None:
    with external_routers(1) as (victim,):
        text = ONE.format(victim=victim.yaml(), load="1kpps", ip=4, size=64)
        plain = text.replace(f'netns: "{victim.ingress["netns"]}", ', "")
        assert "netns" not in plain
        file = file_of(tmp_path, plain)
        here = victim.ingress["netns"]
        done = isolane("run", file, "--output", tmp_path / "run", netns=here)
        assert done.returncode == 0, done.stderr
        (trial,) = RunFolder.open(tmp_path / "run").trials()
        assert came_through(trial.routers)
        assert trial.conserved


@pytest.fixture(scope="module", params=[4, 6])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[int, Sequence[Made]]]:
    """Two routers; the tests do not change them for good."""
    with external_routers(2, request.param) as made:
        yield request.param, made


def refused(folder: Path, version: int, external: str) -> str:
    file = file_of(
        folder, ONE.format(victim=external, load="1kpps", ip=version, size=SIZE[version])
    )
    done = in_process("run", file, "--output", folder / "run")
    assert done.returncode == 1, done.stderr
    assert not (folder / "run").exists(), "it is refused before the first trial"
    return done.stderr


@pytest.fixture
def _asked_but_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """For routers that never answer, however long they are asked."""
    monkeypatch.setattr(router_examination, "TRIES", 2)


@pytest.mark.usefixtures("_asked_but_twice")
def test_a_router_that_does_not_answer_is_named(
    both: tuple[int, Sequence[Made]], tmp_path: Path
) -> None:
    version, (victim, _) = both
    nobody = {4: "198.18.0.77/24", 6: "2001:2:0:0::77/64"}[version]
    words = refused(tmp_path, version, victim.yaml(ingress_address=nobody))
    assert "router victim does not answer: nobody behind e2e-0in has " in words


def test_a_router_with_another_mac_is_named(
    both: tuple[int, Sequence[Made]], tmp_path: Path
) -> None:
    version, (victim, noise) = both
    wrong = noise.egress["mac"]
    words = refused(tmp_path, version, victim.yaml(egress_mac=wrong))
    assert f"has the MAC address {victim.egress['mac']}" in words
    assert f"the experiment says {wrong}" in words


@pytest.mark.usefixtures("_asked_but_twice")
def test_a_router_that_does_not_forward_is_named(
    both: tuple[int, Sequence[Made]], tmp_path: Path
) -> None:
    version, (victim, _) = both
    key = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}[version]
    inside(victim.netns, "sysctl", "-qw", f"{key}=0")
    try:
        words = ""
        for _ in range(TURNS):  # two questions: a slow machine may answer neither in time
            if "does not answer" not in (words := refused(tmp_path, version, victim.yaml())):
                break
    finally:
        inside(victim.netns, "sysctl", "-qw", f"{key}=1")
    assert "router victim does not forward: " in words


def test_a_router_without_a_route_says_so(both: tuple[int, Sequence[Made]], tmp_path: Path) -> None:
    version, (victim, _) = both
    network = {4: "198.19.0.2/32", 6: "2001:2:0:8000::2/128"}[version]
    ip("-n", victim.netns, f"-{version}", "route", "add", "unreachable", network)
    try:
        words = refused(tmp_path, version, victim.yaml())
    finally:
        ip("-n", victim.netns, f"-{version}", "route", "del", "unreachable", network)
    assert "does not forward: it says destination unreachable" in words


def test_a_router_that_sends_by_another_interface_is_named(
    both: tuple[int, Sequence[Made]], tmp_path: Path
) -> None:
    version, (victim, noise) = both
    # What the experiment says of the way out is true of the other router's.
    words = refused(
        tmp_path, version, victim.yaml(**{f"egress_{k}": v for k, v in noise.egress.items()})
    )
    assert "router victim" in words
    assert "does not forward" in words or "come back by" in words


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ("snat", "its source address is 198.19.0.1, not 198.18.0.2"),
        ("dscp", "its TOS byte (DSCP) is 0x20, not 0x00"),
    ],
)
def test_a_router_that_rewrites_more_than_it_may_is_named(
    chain: str, words: str, tmp_path: Path
) -> None:
    rules = {
        "snat": "table ip t { chain c { type nat hook postrouting priority 100; masquerade; }; }",
        "dscp": "table ip t { chain c { type filter hook postrouting priority 0; "
        "ip dscp set cs1; }; }",
    }
    with external_routers(1) as (victim,):
        inside(victim.netns, "nft", rules[chain])
        assert words in refused(tmp_path, 4, victim.yaml())


def test_an_interface_that_is_not_there_is_named(tmp_path: Path) -> None:
    with external_routers(1) as (victim,):
        file = file_of(
            tmp_path,
            ONE.format(
                victim=victim.yaml(ingress_interface="e2e-nope"), load="1kpps", ip=4, size=64
            ),
        )
        done = in_process("run", file, "--output", tmp_path / "run")
        assert done.returncode == 2
        assert "e2e-nope: there is no such interface; there are " in done.stderr


def test_a_router_whose_wire_is_cut_fails_the_trial_and_is_told(tmp_path: Path) -> None:
    with external_routers(1) as (victim,):
        ip("-n", victim.netns, "link", "set", "e2e-rin", "down")
        words = refused(tmp_path, 4, victim.yaml())
        assert "e2e-0in" in words


def test_an_interface_that_goes_down_ends_the_run_and_is_named(tmp_path: Path) -> None:
    with external_routers(1) as (victim,):
        text = ONE.format(victim=victim.yaml(), load="1kpps", ip=4, size=64)
        file = file_of(tmp_path, text.replace("duration: 100ms", "duration: 3s"))
        down = ("-n", victim.egress["netns"], "link", "set", victim.egress["interface"])
        for turn in range(TURNS):
            with running(tmp_path / str(turn), file) as (process, folder):
                process.until(lambda: has_program(victim.egress))
                ip(*down, "down")
                if status := process.end():
                    assert status == 1, process.stderr
                    break
            ip(*down, "up")
        else:
            pytest.fail(f"each of {TURNS} runs was over before the interface went down")
        (trial,) = RunFolder.open(folder).trials()
        assert trial.status == "failed"
        assert f"interface {victim.egress['interface']} went down" in (trial.reason or "")


def test_nothing_is_left_after_a_kill(tmp_path: Path) -> None:
    with external_routers(1) as (victim,):
        before = quiet_host()
        text = ONE.format(victim=victim.yaml(), load="1kpps", ip=4, size=64)
        file = file_of(tmp_path, text.replace("duration: 100ms", "duration: 30s"))
        with running(tmp_path, file) as (process, _):
            process.until(lambda: has_program(victim.egress))
            process.end(signal.SIGKILL)
        assert isolane("clean").returncode == 0
        assert_same_host(before)
        assert "xdp" not in ip("-n", victim.egress["netns"], "link", "show")


def has_program(side: dict[str, str]) -> bool:
    """Whether the receiver is on an interface: a bench is set up, or a trial under way."""
    return "xdp" in ip("-n", side["netns"], "link", "show", side["interface"])
