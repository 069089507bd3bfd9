"""Routers that are a process: what of the host belongs to them."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from isolane.enforce.find.conftest import Playground
from isolane.testbed import kernel

_FORWARDER = """
import fcntl, os, socket, struct, sys, time
at, tap = sys.argv[1:]
taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); taken.bind((at, 3))
file = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(file, 0x400454ca, struct.pack("16sH22x", tap.encode(), 0x1002))
ended, open_end = os.pipe()
if os.fork() == 0:  # it ends with its parent
    os.close(open_end)
    print("ready", flush=True)
    os.read(ended, 1)
    os._exit(0)
time.sleep(600)
"""


def test_a_process_is_a_router_with_its_children_its_taps_and_its_sockets(
    playground: Playground,
) -> None:
    playground.run("ip link add wire1 type veth peer name other1")
    process = playground.start("python3", "-c", _FORWARDER, "wire1", "tapX", stdout=subprocess.PIPE)
    assert process.stdout is not None
    playground.stack.callback(process.stdout.close)
    process.stdout.readline()
    router = playground.found(
        f"{{process: {process.pid}, mac: 02:00:00:00:00:01, interfaces: {{wire1: own}}}}"
    )
    assert (router.kind, router.pid) == ("vm", process.pid)
    assert len(router.threads) == 2, "its child belongs to it"
    assert process.pid in router.threads
    shown = playground.run("ip -o link show wire1")
    found = {at.ifname: at for at in router.interfaces}
    assert (found["tapX"].how, found["tapX"].mac) == ("tap", "02:00:00:00:00:01")
    assert found["wire1"].how == "own"
    assert found["wire1"].mac in shown
    assert len(found) == 2
    words = f"process: {process.pid}, mac: 02:00:00:00:00:01"
    reason = playground.missing(f"{{{words}, interfaces: {{other1: own}}}}")
    assert "no tap, packet socket or macvtap on other1" in reason
    alone = playground.found(f"{{process: {process.pid}}}", nics="{}").interfaces
    assert [at.ifname for at in alone] == ["tapX"], "whose frames they are matters to no one"


_OPENER = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
print("ready", flush=True)
time.sleep(600)
"""


def opener(playground: Playground, node: Path, number: str) -> int:
    """Start a process that has a character device open; returns its number."""
    major, minor = number.split(":")
    os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(int(major), int(minor)))
    process = playground.start("python3", "-c", _OPENER, str(node), stdout=subprocess.PIPE)
    assert process.stdout is not None
    playground.stack.callback(process.stdout.close)
    assert process.stdout.readline() == b"ready\n"
    return process.pid


def test_a_macvtap_of_the_host_is_the_routers(playground: Playground, tmp_path: Path) -> None:
    playground.run("ip link add nic1 type veth peer name wire1")
    playground.run("ip link add mine link nic1 type macvtap mode bridge")
    index = playground.run("ip -o link show mine").split(":")[0]
    pid = opener(playground, tmp_path / "mine", playground.do(lambda: number_here(index)))
    (found,) = playground.found(f"{{process: {pid}}}").interfaces
    assert (found.how, found.ifname) == ("macvlan", "mine")


def number_here(index: str) -> str:
    """Return the numbers of a macvtap's character device in the thread's network namespace."""
    sysfs = kernel.open_detached()
    file = os.open(f"class/net/mine/macvtap/tap{index}/dev", os.O_RDONLY, dir_fd=sysfs)
    try:
        return os.read(file, 100).decode()
    finally:
        os.close(file)
        os.close(sysfs)


def test_a_macvtap_in_another_namespace_leads_to_what_is_below_it(
    playground: Playground, tmp_path: Path
) -> None:
    name = playground.namespace("vm")
    playground.run(f"ip link add wire1 type veth peer name nic1 netns {name}")
    playground.run("ip link set wire1 up")
    for words in ("set nic1 up", "add mine link nic1 type macvtap mode passthru", "set mine up"):
        playground.run(f"ip -n {name} link {words}")
    index = playground.run(f"ip -n {name} -o link show mine").split(":")[0]
    file = f"/sys/class/net/mine/macvtap/tap{index}/dev"
    number = playground.run(f"ip netns exec {name} cat {file}")
    pid = opener(playground, tmp_path / "mine", number)
    (found,) = playground.found(f"{{process: {pid}, interfaces: {{nic1: own}}}}").interfaces
    assert (found.how, found.ifname) == ("own", "nic1")
    reason = playground.missing(f"{{process: {pid}, interfaces: {{mine: own}}}}")
    assert reason.endswith("has no tap, packet socket or macvtap on mine"), "frames come by nic1"
    assert not playground.found(f"{{process: {pid}}}", nics="{}").interfaces


def test_a_macvtap_in_another_namespace_on_a_nic_of_the_host(
    playground: Playground, tmp_path: Path
) -> None:
    name = playground.namespace("vm")
    playground.run("ip link add nic1 type veth peer name wire1")
    playground.run(f"ip link add mine link nic1 netns {name} type macvtap mode bridge")
    index = playground.run(f"ip -n {name} -o link show mine").split(":")[0]
    file = f"/sys/class/net/mine/macvtap/tap{index}/dev"
    number = playground.run(f"ip netns exec {name} cat {file}")
    pid = opener(playground, tmp_path / "mine", number)
    mac = "02:00:00:00:00:07"
    named = f"process: {pid}, interfaces: {{mine: nic1}}"
    (found,) = playground.found(f"{{{named}, mac: '{mac}'}}").interfaces
    assert (found.how, found.ifname, found.lower, found.mac) == ("macvlan", "mine", "nic1", mac)
    (found,) = playground.found(f"{{{named}}}").interfaces
    assert found.mac != mac, "without a word of the policy its own"
    assert not playground.found(f"{{process: {pid}}}").interfaces, "only where it is named"


def test_who_has_started_the_command_is_no_router(playground: Playground) -> None:
    for number in (1, os.getpid()):
        reason = playground.missing(f"{{process: {number}}}", nics="{}")
        assert reason == f"process {number} has started this command, so it is no router"
    assert playground.missing("{process: 4194304}", nics="{}") == "there is no process 4194304"
