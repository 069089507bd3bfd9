"""The commands on policies, on a host with routers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from isolane.cli.enforcing import complete_router
from isolane.enforce.policy_state import State
from isolane.enforce.setting import from_key
from isolane.enforce.settings import Entry
from isolane.testbed import NETNS_DIR

from tests.enforce.rig import Rig, shown
from tests.live import COMMAND, LIMIT_S, background, environment, isolane

pytestmark = [pytest.mark.root, pytest.mark.native]


def test_a_second_apply_changes_nothing_and_clear_puts_everything_back(rig: Rig) -> None:
    before = rig.host()
    file = rig.file(vr1="cpu_weight: 200, rate_min: 2Gbps", vr2="rate_max: 1Gbps, cpu_max: 50%")
    first = rig.data("apply", file)
    assert first["changes"]
    assert first["waiting"] == first["notes"] == []
    in_force = rig.host()
    assert in_force != before
    second = rig.data("apply", file)
    assert second["changes"] == []
    assert second["unchanged"] >= len(first["changes"])
    assert rig.host() == in_force
    assert "settings put back" in rig.cli("clear")
    rig.assert_host(before)
    assert "no policy was in force" in rig.cli("clear")


def test_status_without_a_policy_says_how_to_get_one_and_nothing_else(rig: Rig) -> None:
    assert rig.cli("status") == (
        "no policy is in force; put one in force with: isolane apply POLICY.yaml\n"
    )
    assert rig.data("status") == {
        "policy": None, "applied_at": None, "settings": 0, "routers": [], "drift": [], "notes": [],
    }  # fmt: skip


def test_status_shows_the_policy_of_each_router_and_what_the_kernel_has(rig: Rig) -> None:
    assert "no policy is in force" in rig.cli("status")
    keys = "cpu_weight: 300, rate_min: 2Gbps, rate_max: 3Gbps, priority: 1, link_weight: 5"
    second = "cpu_max: 50%, queue: 100, forward: xdp, rate_max: {ingress: [1Gbps, 90kpps]}"
    file = rig.file(vr1=keys, vr2=second)
    assert "policy test is in force" in rig.cli("apply", file)
    status = rig.data("status")
    assert (status["policy"], status["drift"]) == ("test", [])
    assert status["settings"] > 50
    vr1, vr2 = status["routers"]
    assert vr1["entitlement"] == {
        "cpu_weight": "300", "cores": f"{rig.core}", "rate_min": "2Gbps", "rate_max": "3Gbps",
        "priority": "1", "link_weight": "5",
    }  # fmt: skip
    assert vr1["in_force"] == {**vr1["entitlement"], "rate_max": "{egress: 3Gbps}"}
    assert vr2["in_force"] == {
        "cpu_weight": "100", "cores": f"{rig.core}", "cpu_max": "50%", "queue": "100",
        "forward": "xdp", "rate_max": "{ingress: 1Gbps + 90kpps}",
    }  # fmt: skip
    text = rig.cli("status")
    assert text.startswith(f"policy test: 2 of 2 routers run, all {status['settings']} settings")
    assert "rate_max={egress: 3Gbps}" in text, "what is in force"
    assert "rate_max=3Gbps" not in text
    assert "rate_max=3Gbps" in rig.cli("status", "--details"), "what the policy says, too"


def test_set_changes_what_differs_and_nothing_else(rig: Rig) -> None:
    rig.cli("apply", rig.file(vr1="rate_min: 1Gbps"))
    changes = rig.data("set", "vr1", "cpu_weight=250", "rate_min=2Gbps")["changes"]
    # Three weights (two cgroups', the budget's); for each of two NICs a class, and by the weight a
    # queue.
    assert len(changes) == 7
    assert rig.data("status")["routers"][0]["in_force"] == {
        "cpu_weight": "250", "cores": f"{rig.core}", "rate_min": "2Gbps",
    }  # fmt: skip
    assert rig.data("set", "vr1", "cpu_weight=250")["changes"] == []
    assert rig.data("set", "vr1", "rate_min=none")["changes"]
    assert rig.data("status")["drift"] == []
    assert complete_router("v") == ["vr1", "vr2"]
    assert complete_router("vr2") == ["vr2"]


REFUSED = {
    "vr3 cpu_weight=2": ("'vr3'", "vr1, vr2"),
    "vr1 cpu_wieght=2": ("cpu_wieght=2", "did you mean cpu_weight?"),
    "vr1 cpu_weight=0": ("cpu_weight=0", "1 to 10000"),
    "vr1 netns=vr2": ("netns=vr2", "cannot be set"),
    "vr1 rate_min=8Gbps": ("adds up to 11 Gbps", "at most 10 Gbps"),
    "vr1 cores=77": ("core 77", "there are 0, 1"),
    "vr1 cpu_weight": ("KEY=VALUE",),
    "vr1 queue=64 queue=65": ("given twice",),
}


def test_set_refuses_and_changes_nothing(rig: Rig) -> None:
    assert "no policy is in force" in rig.cli("set", "vr1", "cpu_weight=2", status=1)
    rig.cli("apply", rig.file(vr2="rate_min: 3Gbps"))
    before = rig.host()
    for words, told in REFUSED.items():
        said = rig.cli("set", *words.split(), status=2)
        assert all(text in said for text in told), said
    assert rig.host() == before
    assert rig.data("status")["drift"] == []


def looked_at(rig: Rig, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Offer load to both routers until ``top`` shows enough of it; return what it shows."""
    lines: list[dict[str, Any]] = []
    deadline = time.monotonic() + LIMIT_S
    while not lines or not enough(lines[-1]):
        assert time.monotonic() < deadline, lines
        rig.offer(
            {"vr1": 4e3, "vr2": 40e3}, 3.0,
            meanwhile=lambda: lines.append(rig.data("top", "--once", "--interval", "0.3")),
        )  # fmt: skip
    return lines[-1]


TOP = {"vr1": "cpu_weight: 300, rate_min: 2Gbps", "vr2": "rate_max: 10kpps"}


def test_top_tells_what_routers_do(rig: Rig) -> None:
    assert "no policy is in force" in rig.cli("top", "--once", status=1)
    rig.cli("apply", rig.file(**TOP))

    def enough(line: dict[str, Any]) -> bool:
        vr1, vr2 = line["routers"]
        paid = all(router["nic_cpu_share"] for router in line["routers"])
        # Where the machine pauses between its clock and its counters, a share comes out too large.
        paid &= all(0 < router["cpu_share"] <= 1 for router in line["routers"])
        return bool(paid and vr1["forwarded_pps"] and vr2["dropped_pps"]["rate_out"])

    line = looked_at(rig, enough)
    assert line["seconds"] >= 0.3
    vr1, vr2 = line["routers"]
    assert vr1["cpu_entitled"] == 0.75
    for router in (vr1, vr2):
        share = router["link_bps"]["isl-ni1"] / 10e9
        assert router["link_share"]["isl-ni1"] == pytest.approx(share)
    assert vr1["dropped_pps"]["rate_out"] == 0
    assert vr1["link_entitled"]["isl-ni1"] == pytest.approx(0.2 + 0.8 / 2)
    assert list(line["cores"]) == [str(rig.core)]
    text = rig.cli("top", "--once", "--interval", "0.1")
    assert "offered" in text
    assert "of 75 %" in text
    assert "+ NIC" in text


def test_top_shows_fair_shares_of_the_routers_that_run(rig: Rig) -> None:
    rig.cli("apply", rig.file(vr1="cpu_max: 20%", more="  ghost: {netns: nowhere}\n"))
    line = rig.data("top", "--once", "--interval", "0.1")
    fair = {router["name"]: router["cpu_entitled"] for router in line["routers"]}
    assert fair == pytest.approx({"vr1": 0.2, "vr2": 0.8, "ghost": 0.0})


def sleeps(process: int) -> bool:
    """Tell whether it is in clock_nanosleep(2): x86-64, arm64 and riscv64."""
    return Path(f"/proc/{process}/syscall").read_text().split()[0] in ("230", "115")


def test_top_goes_on_until_it_is_ended(rig: Rig) -> None:
    rig.cli("apply", rig.file())
    with background(rig.folder / "top", "top", "--json", "--interval", "0.1") as top:
        top.until(lambda: top.stdout.count("\n") >= 2)
        rig.cli("set", "vr2", "cpu_weight=300")  # fair shares follow
        top.until(lambda: '"cpu_entitled": 0.75' in top.stdout)
        assert top.end(signal.SIGINT) == 0
        lines = [json.loads(line) for line in top.stdout.splitlines()]
        assert lines[0]["routers"][1]["cpu_entitled"] == 0.5
    for more, number, status in (("--json", signal.SIGTERM, 143), ("--once", signal.SIGINT, 130)):
        with background(rig.folder / more, "top", more, "--interval", "5") as top:
            top.until(lambda: sleeps(top.begun.pid))  # between its two samples
            assert top.end(number) == status
    with background(rig.folder / "end", "top", "--interval", "0.1") as top:
        top.until(lambda: top.stdout.count("vr2") >= 1)
        rig.cli("clear")
        assert top.end() == 0
        assert "somebody cleared the policy" in top.stderr


def test_a_dry_run_checks_the_host_and_changes_nothing(rig: Rig) -> None:
    before = rig.host()
    file = rig.file(more="  ghost: {netns: nowhere}\n")
    found = rig.data("apply", file, "--dry-run")
    assert found["running"] == ["vr1", "vr2"]
    assert found["waiting"][0]["router"] == "ghost"
    assert "would wait" in rig.cli("apply", file, "--dry-run")
    assert "core 77" in rig.cli("apply", rig.file(vr1="cores: [77]"), "--dry-run", status=2)
    assert rig.host() == before


@pytest.mark.parametrize("command", ["apply", "status", "set", "top", "clear"])
def test_without_root_it_is_said_what_is_needed(command: str, tmp_path: Path) -> None:
    words = {"apply": [str(tmp_path / "p.yaml")], "set": ["vr1", "queue=64"], "top": ["--once"]}
    (tmp_path / "p.yaml").write_text("isolane: 1\nname: p\nrouters: {a: {interface: eth7}}\n")
    drop = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all"]
    done = subprocess.run(
        [*drop, *COMMAND, command, *words.get(command, [])],
        env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "need root, or the capabilities CAP_DAC_OVERRIDE, CAP_NET_ADMIN" in done.stderr
    assert "missing: CAP_DAC_OVERRIDE" in done.stderr


def test_the_policy_of_one_namespace_is_not_touched_from_another(rig: Rig) -> None:
    rig.cli("apply", rig.file())
    before = rig.host()
    for words in (["status"], ["clear"], ["apply", rig.file()]):
        done = isolane(*words, netns="isolane-rcv")
        assert done.returncode == 1, (words, done.stdout, done.stderr)
        assert "was applied in another network namespace" in done.stderr
    assert rig.host() == before


@pytest.fixture
def short_lived() -> Iterator[str]:
    """A namespace that may be deleted before the test ends."""
    name = f"e2e-gone-{os.getpid()}"
    shown("ip", "netns", "add", name)
    yield name
    if (NETNS_DIR / name).exists():
        shown("ip", "netns", "del", name)


def test_the_policy_of_a_namespace_that_is_gone_can_be_cleared(rig: Rig, short_lived: str) -> None:
    for link, peer in (("nic", ["other"]), ("to-vr1", ["to-host", "netns", "isolane-vr1"])):
        shown("ip", "-n", short_lived, "link", "add", link, "type", "veth", "peer", "name", *peer)
        shown("ip", "-n", short_lived, "link", "set", "dev", link, "up")
    shown("ip", "-n", "isolane-vr1", "link", "set", "dev", "to-host", "up")
    shown("ip", "-n", short_lived, "link", "set", "dev", "other", "up")
    file = rig.folder / "short-lived.yaml"
    file.write_text(
        "isolane: 1\nname: brief\nnics: {nic: {rate: 1Gbps}}\n"
        "routers: {one: {netns: isolane-vr1}}\n"
    )
    done = isolane("apply", file, netns=short_lived)
    assert done.returncode == 0, done.stderr
    group = Path(f"/sys/fs/cgroup/cpu/{rig.group}")
    assert (group / "one").is_dir()
    shown("ip", "netns", "del", short_lived)
    assert "which is gone: run isolane clear first" in rig.cli("status", status=1)
    rig.cli("clear")
    assert not group.exists()
    assert not rig.directory.exists()


def test_frames_are_let_in_when_all_is_ready_for_them(rig: Rig) -> None:
    """The forwarding entries, which bring frames in, are the last that is made for a router."""
    rig.cli("apply", rig.file(vr1="rate_min: 1Gbps", vr2="forward: xdp"))
    state = State.load(rig.directory)
    order = [(done.router, from_key(key)) for key, done in state.applied.items()]
    for name in rig.routers:
        mine = [setting for router, setting in order if router == name]
        entries = [isinstance(setting, Entry) and setting.table == "fdb" for setting in mine]
        assert entries.index(True) == len(entries) - 2, (
            "two interfaces, two entries, nothing after them"
        )
    kinds = [type(setting).__name__ for _, setting in order]
    port = kinds.index("PortSetting")  # with its class: what the class needs comes before it
    assert max(kinds.index(k) for k in ("LinkRoot", "LinkClass", "Classifiers", "Program")) < port
