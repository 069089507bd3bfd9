"""Routers with services, live: frames pass the rules, are tracked, and leave translated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from isolane.errors import NotSupported
from isolane.spec import parse_experiment
from isolane.testbed import exclusive
from isolane.trials.live.live_backend import LiveBackEnd

from tests.came_through import came_through
from tests.live import assert_same_host, quiet_host
from tests.live_bench import live_bench
from tests.test_run_live import run

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: services
traffic: {{ip: {ip}, frame_size: 84, flows: 10}}
routers:
  - {{name: one, role: victim, services: {{nftables: 300, nat: true}}}}
  - {{name: two, role: aggressor, services: {{conntrack: true}},
     traffic: {{pattern: [constant, new-flows, ttl-expired]}}}}
load: {{one: 5kpps, two: 5kpps}}
arms:
{arms}
trial: {{duration: 50ms, warmup: 50ms, repeats: 1, retries: 0, null_dut: false}}
"""
ONE = """\
isolane: 1
name: one
traffic: {{ip: {ip}, frame_size: 84, flows: 10}}
routers: [{{name: one, path: direct, role: victim, services: {{nftables: 3, nat: true}}}}]
load: {{one: 1pps}}
"""


@pytest.mark.parametrize(
    ("ip", "paths"), [(4, ("direct", "bridge", "macvlan", "isolane")), (6, ("direct",))]
)
def test_frames_of_routers_with_services_are_told_to_the_last_one(
    ip: int, paths: tuple[str, ...], tmp_path: Path
) -> None:
    arms = "\n".join(f"  - {{name: {path}, path: {path}}}" for path in paths)
    file, before = tmp_path / "services.yaml", quiet_host()
    file.write_text(TEXT.format(ip=ip, arms=arms))
    trials = [trial for trial in run(file, tmp_path / "run") if trial.purpose == "measure"]
    assert_same_host(before)
    assert len(trials) == 3 * len(paths)
    for trial in trials:
        one, two = trial.routers
        where = f"{trial.arm}, {two.pattern}: {trial.reason}"
        assert trial.status != "failed", where
        for router in trial.routers:
            assert router.offered_total == router.received_total + sum(router.lost.values()), where
            assert router.lost["unaccounted"] == 0, where
        assert came_through([one])
        if two.pattern == "ttl-expired":
            assert two.received_total == 0, where
        else:
            assert came_through([two]), where


@pytest.mark.parametrize("ip", [4, 6])
def test_each_frame_passes_the_rules_is_tracked_and_leaves_translated(ip: int) -> None:
    with live_bench(ONE.format(ip=ip)) as (live, offer):
        wire = live.equipment.bed.wires[0]
        namespace = Path(live.equipment.bed.dut_interfaces[0].netns).name
        _inside(namespace, f"add chain inet isolane seen {{ {AFTER} }}")
        own = _own_address(namespace, "isl-out0", ip)
        family = "ip" if ip == 4 else "ip6"
        _inside(namespace, f"add rule inet isolane seen {family} saddr {own} counter")
        seen = offer(5e3)
        rules = _inside(namespace, "list table inet isolane")
    (router,) = seen.routers
    assert seen.conserved
    assert router.lost["no_route"] == 0
    assert rules.count(" drop\n") == 3
    (translated,) = re.findall(rf"saddr {re.escape(own)} counter packets (\d+)", rules)
    arrived = router.offered_total - sum(
        router.lost[point] for point in ("generator", "nic_queue", "router_queue")
    )
    assert int(translated) == arrived, f"frames that {own} sent, in place of {wire.src_ip}"


AFTER = "type filter hook postrouting priority 200;"
"""After source NAT (100)."""


def _inside(namespace: str, command: str) -> str:
    words = ["ip", "netns", "exec", namespace, "nft", command]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _own_address(namespace: str, ifname: str, ip: int) -> str:
    words = ["ip", "-n", namespace, "-o", f"-{ip}", "addr", "show", "dev", ifname]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    (address, *_) = re.findall(r"inet6? ([0-9a-f.:]+)/", text)
    return str(address)


def test_without_nft_they_are_not_supported_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ip", "tc", "ethtool"):
        if (found := shutil.which(name)) is not None:
            (programs / name).symlink_to(found)
    before = quiet_host()
    experiment = parse_experiment(ONE.format(ip=4))
    (arm,), routers = experiment.resolved_arms(), experiment.points()[0].routers
    monkeypatch.setitem(os.environ, "PATH", str(programs))
    with (
        exclusive() as journal,
        closing(LiveBackEnd(experiment, journal)) as back_end,
    ):
        told = r"router one: there is no nft\(8\) .*package nftables"
        with pytest.raises(NotSupported, match=told):
            back_end.check([arm])  # a dry run says so, too
        with pytest.raises(NotSupported, match=told), back_end.bench(arm, routers):
            pass
    monkeypatch.undo()
    assert_same_host(before)
