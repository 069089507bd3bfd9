"""How frames are told apart: in software, by the NIC's filters, by interfaces of routers' own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from isolane.enforce.settings.pacemaking import running

from tests.enforce.rig import Rig
from tests.enforce.test_faults import kill_after
from tests.live import LIMIT_S
from tests.warm import warm

pytestmark = [pytest.mark.root, pytest.mark.native]


@pytest.fixture
def wires(make_rig: Callable[..., Rig]) -> Rig:
    """Two routers, vr1 and vr2, each on a wire of its own."""
    return make_rig(path="direct")


def test_a_nic_without_filters_refuses_hardware_and_auto_says_why_not(rig: Rig) -> None:
    before = rig.host()
    rig.steer = "hardware"
    for words in ([], ["--dry-run"]):
        said = rig.cli("apply", rig.file(), *words, status=3)
        assert "not supported on this host" in said
        assert "the driver of isl-ni0 has no receive filters (ethtool -n isl-ni0: " in said
        assert "use steer: auto or software" in said
    rig.assert_host(before)
    rig.steer = "auto"
    assert any(
        "vr1: no receive queue of its own" in n for n in rig.data("apply", rig.file())["notes"]
    )
    status = rig.data("status")
    assert [router["steer"] for router in status["routers"]] == ["software"] * 2
    assert sum("no receive queue of its own" in note for note in status["notes"]) == 4
    rig.cli("clear")
    rig.assert_host(before)


def test_interfaces_of_routers_own_are_polled_in_their_cgroups(wires: Rig) -> None:
    before = wires.host()
    file = wires.file(vr1="cpu_weight: 300")
    assert wires.data("apply", file)["changes"]
    assert wires.data("apply", file)["changes"] == []
    status = wires.data("status")
    assert [router["steer"] for router in status["routers"]] == ["own interface"] * 2
    vr1, _ = status["routers"]
    assert vr1["in_force"] == {"cpu_weight": "300", "cores": f"{wires.core}"}
    assert "own interface" in wires.cli("status")
    polling = [each for key, found in wires.host().items() if "NAPI" in key for each in found]
    threads = {name: (policy, group) for name, _, policy, group in polling}
    for number, router in enumerate(wires.routers):
        how, group = threads[f"isl-in{number}"]
        assert how[0] == os.SCHED_BATCH
        assert group == f"{wires.group}/{router}"
    assert wires.data("set", "vr1", "cpu_weight=200")["changes"]
    wires.cli("clear")
    wires.assert_host(before)


def test_the_pacemaker_is_missed_repaired_and_ended(wires: Rig) -> None:
    before = wires.host()
    file = wires.file()
    wires.cli("apply", file)
    ((process, _),) = running(wires.group)
    os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + LIMIT_S
    while list(running(wires.group)):  # it ends when it gets a core
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "pacemaker" in wires.cli("status", status=1)
    wires.cli("apply", file)
    ((other, _),) = running(wires.group)
    assert other != process
    assert wires.data("status")["drift"] == []
    wires.cli("clear")
    assert not list(running(wires.group))
    wires.assert_host(before)


def test_kill_9_at_any_moment_is_made_good(wires: Rig) -> None:
    before = wires.host()
    file = wires.file(vr1="cpu_weight: 300")
    for changes in (1, 4, 7, 10):
        with warm("apply", file) as apply:
            kill_after(apply, changes, wires)
        wires.cli("clear")
        assert not list(running(wires.group))
        wires.assert_host(before)
