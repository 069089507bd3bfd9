"""Bad days: what is killed, what fails half way, what vanishes, what others change."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolane.enforce import Enforcer
from isolane.testbed import NETNS_DIR, kernel

from tests.enforce.rig import DUT, Rig, inside, shown
from tests.live import LIMIT_S
from tests.warm import Warm, warm

pytestmark = [pytest.mark.root, pytest.mark.native]


def kill_after(command: Warm, changes: int, rig: Rig) -> bool:
    """Have a command begin; kill it once it has begun so many changes. False: it was quicker."""
    process = command.begin()
    journal = rig.directory / "open.jsonl"
    deadline = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            if journal.read_bytes().count(b"\n") >= changes:
                break
    process.send_signal(signal.SIGKILL)
    return process.wait(LIMIT_S) == -signal.SIGKILL


def test_kill_9_at_any_moment_is_made_good_by_the_next_command(rig: Rig) -> None:
    chance = random.Random(3)
    file = rig.file(vr1="cpu_weight: 300, rate_min: 1Gbps", vr2="forward: xdp, rate_max: 50kpps")
    before = rig.host()
    count = len(rig.data("apply", file)["changes"])
    in_force = rig.host()
    rig.cli("clear")
    rig.assert_host(before)
    killed, deadline = 0, time.monotonic() + LIMIT_S
    for trial in itertools.count():
        with warm("apply", file) as apply, warm("clear") as clear:
            killed += kill_after(apply, chance.randrange(1, count), rig)
            if trial % 2:  # completed by an apply
                rig.cli("apply", file)
                assert rig.data("status")["drift"] == []
                rig.assert_host(in_force)
                killed += kill_after(clear, chance.randrange(1, count), rig)
        rig.cli("clear")  # rolls back, or goes on
        rig.assert_host(before)
        if trial >= 3 and killed >= 3:
            break
        assert time.monotonic() < deadline, "the commands were too quick to be killed"


def test_a_killed_change_leaves_the_old_policy_or_the_new(rig: Rig) -> None:
    rig.cli("apply", rig.file(vr1="rate_min: 1Gbps"))
    old = rig.data("status")["routers"][0]["in_force"]
    with warm("set", "vr1", "rate_min=2Gbps", "cpu_weight=300", "queue=100") as change:
        kill_after(change, 3, rig)
    rig.cli("set", "vr2", "queue=100")
    status = rig.data("status")
    new = {**old, "rate_min": "2Gbps", "cpu_weight": "300", "queue": "100"}
    assert status["drift"] == []
    assert status["routers"][0]["in_force"] in (old, new)
    assert status["routers"][0]["entitlement"]["rate_min"] in ("1Gbps", "2Gbps")


@pytest.fixture
def small_disk(rig: Rig) -> Iterator[Path]:
    """The state lies on a file system of its own; when this file is filled, it is full."""
    rig.directory.mkdir()
    shown("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(rig.directory))
    yield rig.directory / "filler"
    (rig.directory / "filler").unlink(missing_ok=True)
    rig.cli("clear")
    shown("umount", str(rig.directory))
    rig.directory.rmdir()


def test_what_cannot_be_written_down_is_not_changed(rig: Rig, small_disk: Path) -> None:
    rig.cli("apply", rig.file(vr1="cpu_weight: 300"))
    before = rig.host()
    with small_disk.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    said = rig.cli("apply", rig.file(vr1="cpu_weight: 400, rate_min: 1Gbps"), status=1)
    assert "No space left on device" in said
    small_disk.unlink()
    rig.assert_host({**before, "state": rig.host()["state"]})
    assert rig.data("status")["drift"] == []
    assert rig.data("status")["routers"][0]["entitlement"]["cpu_weight"] == "300"
    rig.cli("apply", rig.file(vr1="cpu_weight: 400, rate_min: 1Gbps"))
    assert rig.data("status")["routers"][0]["in_force"]["cpu_weight"] == "400"


def test_a_failure_half_way_rolls_back_to_the_policy_before(rig: Rig) -> None:
    rig.cli("apply", rig.file(vr1="cpu_weight: 300"))
    before = rig.host()
    shown("tc", "qdisc", "add", "dev", "isl-ni1", "root", "handle", "9:", "htb")
    said = rig.cli("apply", rig.file(vr1="cpu_weight: 500, rate_min: 1Gbps"), status=1)
    assert "htb 9:" in said
    shown("tc", "qdisc", "del", "dev", "isl-ni1", "root")
    rig.assert_host(before)
    status = rig.data("status")
    assert status["drift"] == []
    assert status["routers"][0]["entitlement"]["cpu_weight"] == "300"


@pytest.fixture
def ghost() -> Iterator[str]:
    """Name of a router's namespace that comes and goes."""
    name = f"e2e-ghost-{os.getpid()}"
    yield name
    if (NETNS_DIR / name).exists():
        shown("ip", "netns", "del", name)


def appear(name: str) -> None:
    shown("ip", "netns", "add", name)
    pair = ("type", "veth", "peer", "name", "eth0", "netns", name)
    shown("ip", "link", "add", "name", "to-ghost", *pair)
    shown("ip", "link", "set", "dev", "to-ghost", "up")
    shown("ip", "-n", name, "link", "set", "dev", "eth0", "up")


def present(rig: Rig) -> list[str]:
    status = rig.data("status")
    assert status["drift"] == []
    return [router["name"] for router in status["routers"] if router["present"]]


def test_a_router_that_disappears_waits_and_is_served_again_when_it_returns(
    rig: Rig, ghost: str
) -> None:
    more = f"  ghost: {{netns: {ghost}, interfaces: {{eth0: isl-ni1}}, cpu_weight: 50}}\n"
    file = rig.file(vr1="rate_min: 1Gbps", more=more)
    (waiting,) = rig.data("apply", file)["waiting"]
    assert waiting["router"] == "ghost"
    assert f"/run/netns/{ghost}" in waiting["reason"]
    assert f"ghost waits: there is no network namespace /run/netns/{ghost}" in rig.cli(
        "apply", file
    )
    without = rig.host()
    group = Path(f"/sys/fs/cgroup/cpu/{rig.group}/ghost")
    for _ in range(2):
        assert present(rig) == ["vr1", "vr2"]
        assert not group.exists()
        appear(ghost)
        assert rig.data("apply", file)["waiting"] == []
        assert present(rig) == ["vr1", "vr2", "ghost"]
        assert len((group / "tasks").read_text().split()) == 1
        shown("ip", "netns", "del", ghost)
        assert present(rig) == ["vr1", "vr2"]  # its settings went with it: no drift
        text = rig.cli("status")
        assert "2 of 3 routers run" in text
        assert rig.data("apply", file)["waiting"]
        rig.assert_host(without)


def test_a_router_whose_interface_is_down_waits(rig: Rig) -> None:
    def turn(ifname: str, how: str) -> None:
        shown("ip", "-n", "isolane-vr2", "link", "set", "dev", ifname, how)

    turn("isl-in1", "down")  # it has no frames to poll for, and no thread that could
    assert rig.data("apply", rig.file())["waiting"] == []
    assert len(rig.enforcer.threads()["vr2"]) == 1
    turn("isl-out1", "down")
    (waiting,) = rig.data("apply", rig.file())["waiting"]
    assert waiting["router"] == "vr2"
    assert "isl-in1" in waiting["reason"]
    assert "isl-out1" in waiting["reason"]
    assert "down" in waiting["reason"]
    turn("isl-in1", "up")
    turn("isl-out1", "up")
    assert rig.data("apply", rig.file())["waiting"] == []
    assert len(rig.enforcer.threads()["vr2"]) == 2


def drifted(rig: Rig) -> set[str]:
    """What status complains of."""
    return {drift["piece"] for drift in rig.data("status", status=1)["drift"]}


def test_what_others_change_is_told_and_repaired_by_the_next_apply(rig: Rig) -> None:
    file = rig.file(vr1="rate_min: 1Gbps, cpu_max: 80%", vr2="rate_max: 1Gbps")
    rig.cli("apply", file)
    in_force = rig.host()
    enforcer: Enforcer = rig.enforcer
    thread, other = enforcer.threads()["vr1"]
    (nic, *_) = enforcer.nic_threads()
    root = Path("/sys/fs/cgroup/cpu")
    (root / "tasks").write_text(str(thread))
    os.sched_setaffinity(other, {0, 1})
    os.setpriority(os.PRIO_PROCESS, nic, 0)
    (root / rig.group / "vr2" / "cpu.shares").write_text("99")
    shown("tc", "class", "change", "dev", "isl-ni1", "classid", "15a:10", "parent", "15a:1", "htb",
          "rate", "1mbit", "ceil", "2mbit")  # fmt: skip
    shown("ip", "link", "set", "dev", "isl-q1", "xdpdrv", "off")
    shown("tc", "qdisc", "del", "dev", "isl-q0", "clsact")
    inside("isolane-vr2", lambda: _set_threaded("isl-out1", 0))
    found = drifted(rig)
    assert {
        f"vr1: thread of isl-in0 ({thread}) cgroup",
        f"vr1: thread of isl-out0 ({other}) cores",
        "vr2: cpu.shares",
        "vr1: share of isl-ni1",
        "clsact qdisc of isl-q0",
    } <= found
    for words in ("scheduling", "isl-q1", "classifier on isl-q0", "isl-out1", "threaded"):
        assert any(words in setting for setting in found), (words, found)
    text = rig.cli("status", status=1)
    assert text.count("drift: ") == len(found)
    assert "found nothing" in text
    rig.cli("apply", file)
    assert rig.data("status")["drift"] == []
    rig.assert_host(in_force)


def _set_threaded(ifname: str, value: int) -> None:
    sysfs = kernel.open_detached()
    fd = os.open(f"class/net/{ifname}/threaded", os.O_WRONLY, dir_fd=sysfs)
    os.write(fd, str(value).encode())
    os.close(fd)
    os.close(sysfs)


def test_what_somebody_else_put_there_meanwhile_outlives_the_policy(rig: Rig) -> None:
    rig.cli("apply", rig.file(vr1="rate_min: 1Gbps"))
    shown("tc", "qdisc", "replace", "dev", "isl-ni1", "root", "handle", "9:", "htb")
    found = drifted(rig)
    assert "root qdisc of isl-ni1" in found
    assert "htb 9:" in rig.cli("apply", rig.file(vr1="rate_min: 1Gbps"), status=1)
    rig.cli("clear")
    assert "htb 9:" in inside(DUT, lambda: shown("tc", "qdisc", "show", "dev", "isl-ni1"))
