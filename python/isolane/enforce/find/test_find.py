"""Routers that really run, found on a host that is a network namespace."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from isolane.enforce.find import qemu_monitor
from isolane.enforce.find.conftest import Playground, wait_for
from isolane.enforce.router_facts import Interface

TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x1002
QEMU = "qemu-system-x86_64"


def bridged(host: Playground) -> str:
    """A bridge with a NIC, and a namespace with a veth behind it and one beside it."""
    name = host.namespace("vr1")
    host.run("ip link add br0 type bridge")
    host.run("ip link add nic1 type veth peer name wire1")
    host.run("ip link set nic1 master br0")
    host.run(f"ip link add v1 type veth peer name eth0 netns {name}")
    host.run("ip link set v1 master br0")
    host.run(f"ip link add v2 type veth peer name eth1 netns {name}")
    for ifname in ("eth0", "eth1"):
        host.run(f"ip -n {name} link set {ifname} up")
    return name


def address(host: Playground, name: str, ifname: str) -> str:
    return host.run(f"ip netns exec {name} cat /sys/class/net/{ifname}/address").strip()


def test_a_namespace_is_found_with_both_sides_of_its_veths(playground: Playground) -> None:
    name = bridged(playground)
    router = playground.found(f"{{netns: {name}}}")
    path = Path("/run/netns") / name
    assert (router.name, router.kind, router.netns, router.pid) == ("one", "container", path, None)
    assert router.netns_inode == path.stat().st_ino
    first, second = router.interfaces
    index = int(playground.run(f"ip netns exec {name} cat /sys/class/net/eth0/ifindex"))
    assert first == Interface(
        how="veth",
        netns=path,
        ifname="eth0",
        ifindex=index,
        mac=address(playground, name, "eth0"),
        host_ifname="v1",
        host_ifindex=first.host_ifindex,
        bridge="br0",
    )
    assert (second.ifname, second.host_ifname, second.bridge) == ("eth1", "v2", None)
    links = playground.run("ip -o link show v1").split(":")
    assert first.host_ifindex == int(links[0])


def test_a_path_and_a_process_lead_to_the_same_namespace(playground: Playground) -> None:
    name = bridged(playground)
    process = playground.start("ip", "netns", "exec", name, "sleep", "infinity")
    inode = (Path("/run/netns") / name).stat().st_ino
    own = Path(f"/proc/{process.pid}/ns/net")
    wait_for(lambda: own.stat().st_ino == inode)
    found = playground.find(f"a: {{netns: /run/netns/{name}}}")
    found |= playground.find(f"b: {{pid: {process.pid}}}")
    assert found["a"].netns_inode == found["b"].netns_inode == inode
    assert found["a"].netns_cookie == found["b"].netns_cookie != 0
    assert found["b"].pid == process.pid
    assert found["b"].netns == own
    macs = [[one.mac for one in router.interfaces] for router in found.values()]
    assert macs[0] == macs[1] != []


def test_a_router_that_comes_back_is_another_incarnation(playground: Playground) -> None:
    name = bridged(playground)
    before = playground.found(f"{{netns: {name}}}")
    playground.run(f"ip netns delete {name}")
    reason = playground.missing(f"{{netns: {name}}}")
    assert reason == f"there is no network namespace /run/netns/{name}"
    playground.run(f"ip netns add {name}")
    playground.run(f"ip link add v3 type veth peer name eth0 netns {name}")
    playground.run(f"ip -n {name} link set eth0 up")
    after = playground.found(f"{{netns: {name}}}")
    # The number of the file may well be the same: the kernel gives it out again.
    assert after.netns_cookie != before.netns_cookie
    assert after.interfaces[0].host_ifname == "v3"


def test_a_macvlan_names_what_it_stands_on(playground: Playground) -> None:
    name = playground.namespace("mv")
    playground.run("ip link add nic1 type veth peer name wire1")
    playground.run(f"ip link add link nic1 name eth0 netns {name} type macvlan mode bridge")
    playground.run(f"ip -n {name} link set eth0 up")
    (interface,) = playground.found(f"{{netns: {name}}}").interfaces
    assert (interface.how, interface.lower, interface.host_ifname) == ("macvlan", "nic1", None)
    assert interface.mac == address(playground, name, "eth0")


def test_what_does_not_lead_to_the_host_is_left_out(playground: Playground) -> None:
    one, other = playground.namespace("one"), playground.namespace("other")
    playground.run(f"ip -n {one} link add x type veth peer name y netns {other}")
    playground.run(f"ip -n {one} link add inner type bridge")
    reason = playground.missing(f"{{netns: {one}}}")
    assert "only x, inner" in reason
    assert "none of them connected with this host" in reason
    # An interface of the host's with the index of the peer is not taken for the peer.
    for number in range(5):
        playground.run(f"ip link add v{number} type veth peer name w{number}")
    assert "only x, inner" in playground.missing(f"{{netns: {one}}}")
    playground.run(f"ip link add v9 type veth peer name eth0 netns {one}")
    playground.run(f"ip -n {one} link set eth0 up")
    (interface,) = playground.found(f"{{netns: {one}}}").interfaces
    assert interface.host_ifname == "v9"


def test_an_interface_that_the_policy_calls_its_own_is_found_wherever_it_leads(
    playground: Playground,
) -> None:
    one, other = playground.namespace("one"), playground.namespace("other")
    playground.run(f"ip -n {one} link add x type veth peer name y netns {other}")
    playground.run(f"ip -n {one} link set x up")
    (at,) = playground.found(f"{{netns: {one}, interfaces: {{x: own}}}}", nics="{}").interfaces
    assert (at.how, at.ifname, at.mac) == ("own", "x", address(playground, one, "x"))
    reason = playground.missing(f"{{netns: {one}, interfaces: {{z: own}}}}", nics="{}")
    assert "has no interface z, which the policy calls its own" in reason


def test_who_is_not_there_is_told_with_what_was_looked_for(
    playground: Playground, tmp_path: Path
) -> None:
    empty = playground.namespace("empty")
    assert playground.missing("{netns: nowhere-1}") == (
        "there is no network namespace /run/netns/nowhere-1"
    )
    assert "has no interface connected with this host" in playground.missing(f"{{netns: {empty}}}")
    assert playground.missing("{pid: 4194304}") == "there is no process 4194304"
    file = tmp_path / "file"
    file.touch()
    assert playground.missing(f"{{netns: {file}}}") == (
        f"{file} is not a network namespace (Invalid argument)"
    )
    process = playground.start("sleep", "infinity")
    assert "is the host's own network namespace" in playground.missing(f"{{pid: {process.pid}}}")
    assert playground.missing("{interface: nope}") == "this host has no interface nope"
    assert "lo is the loopback interface" in playground.missing("{interface: lo}")


def test_routers_come_in_the_order_of_the_policy(playground: Playground) -> None:
    name = bridged(playground)
    found = playground.find(f"z: {{netns: gone}}\na: {{netns: {name}}}\nm: {{pid: 4194304}}")
    assert list(found) == ["z", "a", "m"]


def test_the_host_side_of_a_veth_leads_to_its_router(playground: Playground) -> None:
    name = bridged(playground)
    router = playground.found("{interface: v1}")
    assert (router.kind, router.netns) == ("interface", Path("/run/netns") / name)
    assert router.netns_inode == (Path("/run/netns") / name).stat().st_ino
    assert router.netns_cookie == playground.found(f"{{netns: {name}}}").netns_cookie
    (interface,) = router.interfaces
    assert (interface.ifname, interface.host_ifname, interface.bridge) == ("eth0", "v1", "br0")
    assert interface.mac == address(playground, name, "eth0")


def test_a_veth_whose_both_ends_are_on_the_host_has_no_namespace(playground: Playground) -> None:
    playground.run("ip link add v1 type veth peer name v2")
    router = playground.found("{interface: v1}")
    assert (router.netns, router.netns_inode) == (None, None)
    assert router.interfaces[0].ifname == "v2"
    # A bridge has the address of its first port: it is not another one's.
    playground.run("ip link add br7 type bridge")
    playground.run("ip link set v2 master br7")
    assert playground.found("{interface: v1}").interfaces[0].ifname == "v2"


def open_tap(name: str) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
    return tap


def test_a_tap_has_the_address_that_its_bridge_learned(playground: Playground) -> None:
    playground.run("ip link add br0 type bridge")
    tap = playground.do(lambda: open_tap("tap0"))
    playground.stack.callback(os.close, tap)
    reason = playground.missing("{interface: tap0}")
    assert "it is no port of a Linux bridge" in reason
    playground.run("ip link set tap0 master br0 up")
    playground.run("ip link set br0 up")
    reason = playground.missing("{interface: tap0}")
    assert "br0 has learned none yet" in reason
    assert reason.endswith("give it in the policy as `mac`")
    stated = playground.found("{interface: tap0, mac: 02:00:00:AB:12:34}")
    assert stated.interfaces[0].mac == "02:00:00:ab:12:34"
    guest = bytes.fromhex("020000001234")
    frame = b"\xff" * 6 + guest + b"\x88\xb5" + bytes(46)
    wait_for(lambda: os.write(tap, frame) and "02:00:00:00:12:34" in playground.run("bridge fdb"))
    router = playground.found("{interface: tap0}")
    (interface,) = router.interfaces
    assert (interface.how, interface.mac) == ("tap", "02:00:00:00:12:34")
    assert (interface.host_ifname, interface.bridge) == ("tap0", "br0")
    os.write(tap, frame.replace(guest, bytes.fromhex("020000005678")))
    reason = playground.missing("{interface: tap0}")
    assert "br0 has learned several behind it" in reason


def start_qemu(playground: Playground, *arguments: str) -> int:
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not installed")
    process = playground.start(
        *(QEMU, "-accel", "tcg", "-machine", "pc", "-m", "16", "-S", "-display", "none"),
        *("-nodefaults", "-no-user-config", *arguments),
        stderr=subprocess.DEVNULL,
    )
    taps = sum("tap" in word for word in arguments if "id=" in word)

    def ready() -> bool:
        assert process.poll() is None, "QEMU ended"
        listed = playground.run("ip -o link show type tun").splitlines()
        threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
        return len(listed) == taps and threads >= 2

    wait_for(ready)
    return process.pid


def test_a_virtual_machine_is_found_with_taps_addresses_and_threads(
    playground: Playground,
) -> None:
    playground.run("ip link add br0 type bridge")
    playground.run("ip tuntap add tapA mode tap")
    playground.run("ip link set tapA master br0")

    def tasks() -> set[int]:
        return {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}

    pid = start_qemu(
        playground,
        *("-netdev", "tap,id=n0,ifname=tapA,script=no,downscript=no"),
        *("-device", "e1000,netdev=n0,romfile=,mac=52:54:00:AA:BB:01"),
        *("-netdev", "tap,id=n1,script=no,downscript=no"),
        *("-device", "virtio-net-pci,netdev=n1,romfile=,mac=52:54:00:aa:bb:02"),
    )
    before = tasks()
    router = playground.found(f"{{qemu: {pid}}}")
    assert (router.kind, router.pid, router.netns) == ("vm", pid, None)
    found = {one.host_ifname: (one.how, one.mac, one.bridge) for one in router.interfaces}
    assert found == {
        "tapA": ("tap", "52:54:00:aa:bb:01", "br0"),
        "tap0": ("tap", "52:54:00:aa:bb:02", None),
    }
    lasting = before & tasks()
    assert set(router.threads) >= lasting, "QEMU starts and ends helper threads meanwhile"
    assert len(lasting) > 1


def test_the_monitor_knows_addresses_that_the_command_line_does_not_say(
    playground: Playground, tmp_path: Path
) -> None:
    arguments = (
        *("-netdev", "tap,id=n0,script=no,downscript=no"),
        *("-device", "e1000,netdev=n0,romfile="),
        *("-netdev", "tap,id=n1,script=no,downscript=no"),
        *("-device", "e1000,netdev=n1,romfile="),
    )
    pid = start_qemu(playground, *arguments)
    assert "give it in the policy as `mac`" in playground.missing(f"{{qemu: {pid}}}")
    playground.stack.close()
    wait_for(lambda: not playground.run("ip -o link show type tun"))
    socket = tmp_path / "q,x"
    words = ("-qmp", f"unix:{str(socket).replace(',', ',,')},server=on,wait=off")
    pid = start_qemu(playground, *arguments, *words)
    wait_for(socket.exists)
    found = {one.ifname: one.mac for one in playground.found(f"{{qemu: {pid}}}").interfaces}
    assert found == {"tap0": "52:54:00:12:34:56", "tap1": "52:54:00:12:34:57"}


def test_a_monitor_that_is_taken_does_not_hold_up_the_search(
    playground: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "q"
    pid = start_qemu(
        playground,
        *("-netdev", "tap,id=n0,script=no,downscript=no", "-device", "e1000,netdev=n0,romfile="),
        *("-qmp", f"unix:{socket},server=on,wait=off"),
    )
    wait_for(socket.exists)
    taken = playground.start("python3", "-c", _HOLD, str(socket), stdout=subprocess.PIPE)
    assert taken.stdout is not None
    assert b"QMP" in taken.stdout.readline()
    monkeypatch.setattr(qemu_monitor, "LIMIT_S", 0.1)  # and no minutes: it never answers
    assert "give it in the policy as `mac`" in playground.missing(f"{{qemu: {pid}}}")
    taken.stdout.close()
    (interface,) = playground.found(f"{{qemu: {pid}, mac: 52:54:00:12:34:56}}").interfaces
    assert interface.mac == "52:54:00:12:34:56"


_HOLD = """
import socket, sys, time
link = socket.socket(socket.AF_UNIX); link.connect(sys.argv[1])
print(link.recv(4096), flush=True); time.sleep(600)
"""


def test_a_process_that_is_no_virtual_machine_is_refused(playground: Playground) -> None:
    process = playground.start("sleep", "infinity")
    wait_for(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    assert playground.missing(f"{{qemu: {process.pid}}}") == (
        f"process {process.pid} is sleep, not a QEMU virtual machine"
    )
    assert playground.missing("{qemu: 4194304}") == "there is no process 4194304"


def test_a_tap_in_another_namespace_is_told(playground: Playground) -> None:
    name = playground.namespace("vm")
    pid = start_qemu(
        playground,
        *("-netdev", "tap,id=n0,ifname=tapA,script=no,downscript=no"),
        *("-device", "e1000,netdev=n0,romfile=,mac=52:54:00:aa:bb:01"),
    )
    playground.run(f"ip link set tapA netns {name}")
    assert "tapA" in playground.missing(f"{{qemu: {pid}}}")
    assert "in another network namespace" in playground.missing(f"{{qemu: {pid}}}")


@pytest.mark.parametrize("whose", ["nic1", "br0", "v2"])
def test_one_with_an_address_of_the_hosts_waits(playground: Playground, whose: str) -> None:
    name = bridged(playground)
    words = playground.run(f"ip -o link show {whose}").split()
    address = words[words.index("link/ether") + 1]
    playground.found(f"{{netns: {name}}}")
    playground.run(f"ip -n {name} link set eth0 address {address}")
    reason = playground.missing(f"{{netns: {name}}}")
    assert reason.startswith("eth0 has the same MAC address as the host's interface ")
    assert address in reason
