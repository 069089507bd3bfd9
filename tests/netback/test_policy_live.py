"""Machines at ports of a back-end under a policy: `isolane apply` gives the ports their shares."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from isolane.enforce import POLICY_DIR, Enforcer
from isolane.enforce.cpu_cgroups import Groups
from isolane.enforce.router_watcher import Watcher
from isolane.netback import Status
from isolane.spec.policy import parse_policy
from isolane.testbed import NETNS_DIR

from tests.live import LIMIT_S, isolane
from tests.netback.back_end import DUT, NAME, BackEnd, back_end, outer
from tests.netback.container import attached, container
from tests.netback.far_end import Arrivals, conserved, of, send
from tests.netback.waiting import SLOW, STAGED, changed, order_of
from tests.wires import inside

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

BATCH = 12
POLICY = """\
isolane: 1
name: at-ports
nics: {{n1: {{}}}}
routers:
  one: {{process: {one}, cpu_weight: 300, {keys}}}
  two: {{process: {two}}}
"""


@contextmanager
def policy_of(folder: Path, **values: object) -> Iterator[Path]:
    """Write a policy; whatever of it is in force ends with the test."""
    file = folder / "policy.yaml"
    file.write_text(POLICY.format(**values))
    try:
        yield file
    finally:
        assert isolane("clear", netns=DUT).returncode == 0
        shutil.rmtree(POLICY_DIR, ignore_errors=True)


def shares(status: Status, one: BackEnd) -> list[dict[str, Any]]:
    return [of(status, one.port(1, number)).shares for number in (0, 1)]


def test_the_ports_have_the_shares_of_the_policy(tmp_path: Path) -> None:
    with (
        back_end(tmp_path, 2) as one,
        one.guest(0) as first,
        one.guest(1) as second,
        closing(Arrivals()) as arrivals,
        policy_of(tmp_path, one=first.process, two=second.process, keys="link_weight: 3") as file,
    ):
        applied = isolane("apply", file, "--verbose", netns=DUT)
        assert applied.returncode == 0, applied.stderr
        assert f"shares of port {NAME}/vm0-1 on n1" in applied.stdout
        assert shares(one.status(), one) == [{"weight": 3}, {"weight": 1}]
        assert of(one.status(), one.port(0, 0)).shares == {}, "n0 is not under nics"

        told = json.loads(isolane("status", "--json", netns=DUT).stdout)
        assert told["drift"] == told["notes"] == []
        assert [router["steer"] for router in told["routers"]] == [f"back-end {NAME}"] * 2
        assert told["routers"][0]["in_force"] == {"cpu_weight": "300", "link_weight": "3"}

        changed(f"{NAME}/n1", SLOW)
        order = order_of(one, arrivals)[:STAGED]
        assert 22 <= order.count(0) <= 26, f"three of four: {order}"
        step = json.loads(isolane("top", "--once", "--json", netns=DUT).stdout)
        assert [list(router["link_bps"]) for router in step["routers"]] == [["n1"]] * 2

        assert isolane("set", "one", "link_weight=5", netns=DUT).returncode == 0
        assert shares(one.status(), one) == [{"weight": 5}, {"weight": 1}]
        changed(one.port(1, 1), "weight=9")
        drift = isolane("status", netns=DUT)
        assert drift.returncode == 1
        assert f"drift: two: shares of port {NAME}/vm1-1 on n1" in drift.stdout
        assert isolane("apply", file, netns=DUT).returncode == 0
        assert shares(one.status(), one) == [{"weight": 3}, {"weight": 1}]

        file.write_text(POLICY.format(one=first.process, two=second.process, keys="priority: 0"))
        refused = isolane("apply", file, netns=DUT)
        assert refused.returncode == 3, refused.stderr
        assert f"run isolane set {NAME}/n1 scheduler=hierarchical" in refused.stderr
        assert shares(one.status(), one) == [{"weight": 3}, {"weight": 1}]
        changed(f"{NAME}/n1", "scheduler=hierarchical")
        assert isolane("apply", file, netns=DUT).returncode == 0
        assert [port["priority"] for port in shares(one.status(), one)] == [0, 3]
        assert isolane("clear", netns=DUT).returncode == 0
        assert [port["priority"] for port in shares(one.status(), one)] == [0, 0]


def test_a_container_at_its_port_has_them_too(tmp_path: Path) -> None:
    text = "isolane: 1\nname: at-ports\nnics: {{n1: {{}}}}\nrouters: {{web: {{netns: {}, {}}}}}\n"
    file = tmp_path / "policy.yaml"
    with back_end(tmp_path, 1, "wfq", containers=[0]) as one, container(0) as netns:
        port = one.port(1, 0)
        attached(one, 0)
        try:
            refused = "cpu_max is not kept where a kernel thread is all that forwards"
            for key, refusal in (("link_weight: 5", ""), ("cpu_max: 5%", refused)):
                file.write_text(text.format(netns, key))
                done = isolane("apply", file, netns=DUT)
                assert (done.returncode, refusal in done.stderr) == (3 if refusal else 0, True)
                assert of(one.status(), port).shares == {"weight": 5}
            (router,) = json.loads(isolane("status", "--json", netns=DUT).stdout)["routers"]
            assert (router["steer"], router["in_force"]["link_weight"]) == (f"back-end {NAME}", "5")
        finally:
            assert isolane("clear", netns=DUT).returncode == 0
            shutil.rmtree(POLICY_DIR, ignore_errors=True)
        assert of(one.status(), port).shares == {"weight": 1}


def test_what_a_container_at_a_port_forwards_is_its_own_work(tmp_path: Path) -> None:
    """Threads of its own do it, so that nothing is lost that nobody counts."""
    enforcer = Enforcer(NETNS_DIR / DUT, tmp_path / "policy", "isolane-at-ports")
    text = "isolane: 1\nname: at-ports\nnics: {{n1: {{}}}}\nrouters: {{web: {{netns: {}, {}}}}}\n"
    with (
        back_end(tmp_path, 1, containers=[0]) as one,
        container(0) as netns,
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        offloads, before_it = features(netns), groups(one)
        try:
            enforcer.apply(parse_policy(text.format(netns, "cpu_weight: 300, cores: [0]")))
            assert features(netns) == {"gro": {True}, "tso": {False}}
            assert set(one.threads()) == set(enforcer.nic_threads())
            assert groups(one) == {f"isolane-at-ports/back-end.{NAME}"}
            assert set(map(os.sched_getscheduler, one.threads())) == {os.SCHED_BATCH}
            assert len(threads := enforcer.threads()["web"]) == 2
            assert all(os.sched_getaffinity(thread) == {0} for thread in threads)
            before = enforcer.sample()
            send([one.frame(0, size=size) for size in (60, 1514)] * 1000)
            status = one.until("all is through", lambda s: is_through(s, one, 2000))
            assert of(status, one.port(0, 0)).delivered > 0
            arrivals.take(of(status, one.port(1, 0)).sent)
            conserved(status)
            after = enforcer.sample()
            assert before is not None
            assert after is not None
            assert after.routers[0].cpu_ns > before.routers[0].cpu_ns, "its own work"
            assert not enforcer.status().drift
        finally:
            enforcer.clear()
        assert features(netns) == offloads == {"gro": {False}, "tso": {True}}
        assert groups(one) == before_it
        send([one.frame(0)] * BATCH)
        arrivals.take(BATCH)


def is_through(status: Status, one: BackEnd, frames: int) -> bool:
    """Tell whether so many have come by the first wire, and all that was handed on came back."""
    first, into, out = status.uplinks[0], *(of(status, one.port(side, 0)) for side in (0, 1))
    came = first.received + first.ring_full == frames
    return came and out.transmitted == into.delivered and not out.waiting


def groups(one: BackEnd) -> set[str | None]:
    """Return the cgroups of its threads."""
    return set(map(Groups("isolane").of_thread, one.threads()))


def features(netns: str) -> dict[str, set[bool]]:
    """Whether both its ends have GRO, and the host's ends TSO."""
    told = {"gro": set[bool](), "tso": set[bool]()}
    for side in (0, 1):
        for feature, where, name in (
            ("gro", netns, f"eth{side}"),
            ("tso", DUT, outer(side, 0)),
        ):
            lines = inside(where, "ethtool", "-k", name).splitlines()
            word = {"gro": "generic-receive-offload", "tso": "tx-tcp-segmentation"}[feature]
            told[feature] |= {
                line.split()[1] == "on" for line in lines if line.strip().startswith(word)
            }
    return told


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Have a thread of its own watch, and end."""
    stop = os.eventfd(0)
    thread = threading.Thread(target=watcher.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        os.eventfd_write(stop, 1)
        thread.join(LIMIT_S)
        os.close(stop)
    assert not thread.is_alive()


def forwards(one: BackEnd, arrivals: Arrivals) -> None:
    send([one.frame(0, size=size) for size in (60, 1514)] * BATCH)
    arrivals.take(2 * BATCH)
    conserved(one.status())


def in_service(one: BackEnd, arrivals: Arrivals) -> None:
    """Send single frames until one comes through: rings start a moment after a guest attaches."""
    deadline = time.monotonic() + LIMIT_S
    while not arrivals.have_one_within(0.2):
        assert time.monotonic() < deadline
        send([one.frame(0)])
    while arrivals.have_one_within(0.2):
        pass


@pytest.mark.usefixtures("needs_qemu_guests")
def test_one_under_qemu_attaches_again_forwards_and_has_them_again(tmp_path: Path) -> None:
    heard: list[str] = []
    enforcer = Enforcer(NETNS_DIR / DUT, tmp_path / "policy", "isolane-at-ports")
    text = "isolane: 1\nname: again\nnics: {{n1: {{}}}}\nrouters:\n  vm: {{process: {}, {}}}\n"
    with (
        back_end(tmp_path, 1, "hierarchical") as one,
        one.qemu_guest(0) as guest,
        closing(Arrivals()) as arrivals,
    ):
        ports = [one.port(side, 0) for side in (0, 1)]
        port = ports[1]
        keys = "link_weight: 4, rate_min: 5Mbps, rate_max: 1.5Gbps"
        wanted = {"weight": 4, "priority": 3, "rate_min": "5Mbps", "rate_max": "1.5Gbps"}
        asked = parse_policy(text.format(guest.process, keys))
        try:
            enforcer.apply(asked)
            assert of(one.status(), port).shares == wanted
            forwards(one, arrivals)
            watcher = Watcher(enforcer, heard.append, poll_s=0.05)
            with watching(watcher):
                one.start_again()
                one.until("it is back", lambda s: all(of(s, name).attached for name in ports))
                one.until("its shares are back", lambda s: of(s, port).shares == wanted)
            in_service(one, arrivals)
            forwards(one, arrivals)
            assert not enforcer.status().drift
        finally:
            enforcer.clear()
        file = {"weight": 1, "priority": 0, "rate_min": None, "rate_max": None}
        assert of(one.status(), port).shares == file
