"""A policy that is really in force, with routers that come and go."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from isolane.enforce.enforcer import Enforcer
from isolane.enforce.find.conftest import LIMIT_S, Playground, host, wait_for
from isolane.enforce.policy_lock import locked
from isolane.enforce.router_facts import FoundRouter
from isolane.enforce.router_watcher import Watcher
from isolane.errors import NotSupported
from isolane.spec.policy import parse_policy
from isolane.testbed import kernel


@dataclass
class Scene:
    """A host with a NIC and a bridge, a policy in force, and somebody who watches it."""

    host: Playground
    enforcer: Enforcer
    vr1: str
    vr2: str
    heard: list[str] = field(default_factory=list)

    def policy(self, weight: int = 100) -> str:
        return (
            "isolane: 1\nname: watched\nnics: {nic1: {rate: 1Gbps}}\nrouters:\n"
            f"  vr1: {{netns: {self.vr1}, cpu_weight: {weight}}}\n  vr2: {{netns: {self.vr2}}}\n"
        )

    def apply(self, weight: int = 100) -> None:
        self.enforcer.apply(parse_policy(self.policy(weight)))

    def connect(self, name: str, ifname: str) -> None:
        self.host.run(f"ip link add {ifname} type veth peer name eth0 netns {name}")
        self.host.run(f"ip link set {ifname} master br0 up")
        self.host.run(f"ip -n {name} link set eth0 up")

    def disappear(self, name: str) -> None:
        self.host.run(f"ip netns delete {name}")

    def appear(self, name: str, ifname: str) -> None:
        self.host.run(f"ip netns add {name}")
        self.connect(name, ifname)

    def in_force(self) -> set[str]:
        """Names of the routers that have threads in their cgroups."""
        return {name for name, threads in self.enforcer.threads().items() if threads}

    def watch(self, sweep_s: float = 5) -> None:
        watcher = Watcher(self.enforcer, self.heard.append, poll_s=0.1, sweep_s=sweep_s)
        stop = os.eventfd(0)
        thread = threading.Thread(target=watcher.run, args=(stop,))

        def end() -> None:
            os.eventfd_write(stop, 1)
            thread.join(LIMIT_S)
            assert not thread.is_alive()
            os.close(stop)

        thread.start()
        self.host.stack.callback(end)

    def hears(self, words: str) -> str:
        return wait_for(lambda: next((line for line in self.heard if words in line), ""))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with host() as playground:
        vr1, vr2 = playground.namespace("vr1"), playground.namespace("vr2")
        base = playground.namespace("host")
        # The playground's own namespace has no name, and its thread is to be in the NIC's.
        descriptor = os.open(f"/run/netns/{base}", os.O_RDONLY | os.O_CLOEXEC)
        playground.do(lambda: kernel.setns_net(descriptor))
        os.close(descriptor)
        playground.run("ip link add br0 type bridge")
        playground.run("ip link add nic1 type veth peer name wire1")
        playground.run("ip link set nic1 master br0 up")
        playground.run("ip link set wire1 up")
        group = f"isolane-test-{playground.tag}"
        enforcer = Enforcer(Path("/run/netns") / base, tmp_path / "policy", group)
        this = Scene(playground, enforcer, vr1, vr2)
        this.connect(vr1, "v1")
        this.connect(vr2, "v2")
        playground.stack.callback(enforcer.clear)
        yield this


def test_a_router_that_returns_gets_its_policy_again(scene: Scene) -> None:
    scene.apply()
    assert scene.in_force() == {"vr1", "vr2"}
    scene.watch()
    scene.hears("watching policy watched")
    scene.disappear(scene.vr1)
    assert "there is no network namespace" in scene.hears("vr1 waits: ")
    wait_for(lambda: scene.in_force() == {"vr2"})
    scene.appear(scene.vr1, "v3")
    scene.hears("vr1 is back")
    wait_for(lambda: scene.in_force() == {"vr1", "vr2"})
    wait_for(lambda: not scene.enforcer.status().drift)  # it may be about to apply once more
    assert all(isinstance(router, FoundRouter) for router in scene.enforcer.status().found)


def test_one_that_is_replaced_between_two_looks_is_noticed(scene: Scene) -> None:
    scene.apply()
    scene.watch()
    scene.hears("watching policy watched")
    before = scene.enforcer.threads()["vr1"]
    scene.disappear(scene.vr1)
    scene.appear(scene.vr1, "v3")  # the kernel takes its time to remove v1
    wait_for(lambda: set(scene.enforcer.threads().get("vr1", before)).isdisjoint(before))
    wait_for(lambda: not scene.enforcer.status().drift)


def test_one_that_comes_without_an_event_is_found_soon_after_the_last_one(scene: Scene) -> None:
    """As with a container whose interface comes before its engine says that it runs."""
    scene.apply()
    scene.watch(sweep_s=3600)
    scene.hears("watching policy watched")
    hidden = Path("/run/netns") / f"{scene.vr1}.hidden"
    name = Path("/run/netns") / scene.vr1
    scene.host.run(f"ip netns attach {hidden.name} {holder(scene)}")
    scene.host.stack.callback(scene.host.run, f"ip netns delete {hidden.name}")
    scene.disappear(scene.vr1)  # its name only: a process keeps the namespace with its veth
    scene.host.run("ip link add extra type veth peer name extra2")  # an event
    scene.hears("vr1 waits: ")
    name.symlink_to(hidden)
    scene.hears("vr1 is back")
    name.unlink()


def holder(scene: Scene) -> int:
    process = scene.host.start("ip", "netns", "exec", scene.vr1, "sleep", "infinity")
    inode = (Path("/run/netns") / scene.vr1).stat().st_ino
    wait_for(lambda: Path(f"/proc/{process.pid}/ns/net").stat().st_ino == inode)
    return process.pid


def test_a_policy_that_is_cleared_stays_cleared(scene: Scene) -> None:
    scene.apply()
    scene.watch()
    scene.hears("watching policy watched")
    scene.enforcer.clear()
    scene.hears("no policy is in force")
    scene.disappear(scene.vr1)
    scene.appear(scene.vr1, "v3")
    assert scene.enforcer.status().policy is None
    scene.apply(300)  # by hand; from then on the watcher looks after it again
    wait_for(lambda: scene.heard.count("watching policy watched") == 2)


def test_who_clears_a_policy_is_not_told_of_the_threads_that_end_by_it(scene: Scene) -> None:
    scene.apply()
    watcher = Watcher(scene.enforcer, scene.heard.append)
    watcher.look()
    scene.heard.clear()
    bounce = "ip -n {} link set eth0 {}"
    scene.host.run(bounce.format(scene.vr1, "down"))
    scene.host.run(bounce.format(scene.vr1, "up"))
    with locked(scene.enforcer.directory):
        watcher.look()
    assert scene.heard == []
    cleared = scene.enforcer.apply_again, scene.enforcer.clear

    def too_late() -> object:  # the policy is cleared between its look and its lock
        cleared[1]()
        return cleared[0]()

    scene.enforcer.apply_again = too_late  # type: ignore[assignment, method-assign]
    watcher.look()
    assert scene.heard == ["no policy is in force; waiting for one"]


def test_what_fails_is_told_and_tried_again(scene: Scene) -> None:
    scene.apply()
    scene.watch()
    scene.hears("watching policy watched")
    with locked(scene.enforcer.directory):
        scene.disappear(scene.vr1)
        assert "another command is changing the policy" in scene.hears("will be tried again")
    wait_for(lambda: scene.in_force() == {"vr2"})


def test_an_interface_that_bounces_has_its_new_threads_in_the_cgroup(
    scene: Scene, tmp_path: Path
) -> None:
    scene.apply()
    scene.watch(sweep_s=3600)
    scene.hears("watching policy watched")
    before = scene.enforcer.threads()["vr1"]
    # Between two looks: its identity is the same all the time.
    both = tmp_path / "bounce"
    both.write_text("link set eth0 down\nlink set eth0 up\n")
    scene.host.run(f"ip -n {scene.vr1} -batch {both}")
    now = wait_for(lambda: scene.enforcer.threads().get("vr1"))
    assert now is not None
    assert set(now).isdisjoint(before)
    wait_for(lambda: not scene.enforcer.status().drift)


def test_a_bounce_of_the_nic_is_noticed_too(scene: Scene, tmp_path: Path) -> None:
    scene.apply()
    scene.watch(sweep_s=3600)
    scene.hears("watching policy watched")
    before = scene.enforcer.nic_threads()
    both = tmp_path / "bounce"
    both.write_text("link set nic1 down\nlink set nic1 up\n")
    scene.host.run(f"ip -batch {both}")
    now = wait_for(scene.enforcer.nic_threads)
    assert set(now).isdisjoint(before)
    scene.hears("threads that polled nic1 have ended")


def test_one_that_takes_an_address_of_the_hosts_waits_alone(scene: Scene) -> None:
    words = scene.host.run("ip -o link show nic1").split()
    taken = words[words.index("link/ether") + 1]
    scene.apply()
    scene.watch(sweep_s=0.5)
    scene.hears("watching policy watched")
    scene.host.run(f"ip -n {scene.vr1} link set eth0 address {taken}")
    said = scene.hears("vr1 waits: eth0 has the same MAC address as the host's interface")
    assert taken in said
    wait_for(lambda: scene.in_force() == {"vr2"})
    scene.host.run(f"ip -n {scene.vr1} link set eth0 address 02:00:00:00:77:01")
    scene.hears("vr1 is back")
    wait_for(lambda: scene.in_force() == {"vr1", "vr2"})


def test_without_a_watcher_everything_stays_in_force(scene: Scene) -> None:
    scene.apply()
    watcher = Watcher(scene.enforcer, scene.heard.append)
    watcher.look()
    del watcher
    assert scene.in_force() == {"vr1", "vr2"}
    assert scene.enforcer.status().drift == ()
    assert scene.heard == ["vr1 is there", "vr2 is there", "watching policy watched"]


def test_a_host_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    watcher = Watcher(Enforcer(tmp_path / "none", tmp_path), lambda _: None)
    with pytest.raises(NotSupported, match="cannot be watched"):
        watcher.run()
