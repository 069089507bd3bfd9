"""Virtual functions. No machine of ours has an SR-IOV NIC: /sys is a tree that looks like one's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isolane.enforce.find import virtual_functions
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.conftest import Playground
from isolane.enforce.find.host_namespace import HostNamespace
from isolane.enforce.find.links import Link
from isolane.enforce.find.router_interfaces import RouterNamespace


@pytest.fixture
def sys_net(tmp_path: Path) -> Path:
    net, pci = tmp_path / "class/net", tmp_path / "devices"
    device = pci / "0000:01:00.0"
    for number, driver in enumerate(("iavf", "vfio-pci", None)):
        function = pci / f"0000:01:10.{number}"
        function.mkdir(parents=True)
        if driver is not None:
            (tmp_path / "drivers" / driver).mkdir(parents=True)
            (function / "driver").symlink_to(tmp_path / "drivers" / driver)
        device.mkdir(exist_ok=True)
        (device / f"virtfn{number}").symlink_to(function)
    (device / "sriov_numvfs").write_text("3\n")
    for name in ("eth1", "plain"):
        (net / name).mkdir(parents=True)
    (net / "eth1/device").symlink_to(device)
    return net


def host(*links: Link) -> HostNamespace:
    return cast("HostNamespace", SimpleNamespace(links={link.ifindex: link for link in links}))


def test_its_interface_is_found_by_the_address_on_the_bus(sys_net: Path) -> None:
    link = Link(7, "eth1v0", None, "02:00:00:00:00:07", parent="0000:01:10.0")
    namespace, interface = virtual_functions.find_function(
        host(Link(2, "eth1", None, "02:00:00:00:00:02", parent="0000:01:00.0"), link),
        *("eth1", 0, sys_net),
    )
    assert namespace == RouterNamespace()
    found = (interface.how, interface.ifname, interface.ifindex, interface.mac)
    assert found == ("own", "eth1v0", 7, "02:00:00:00:00:07")


@pytest.mark.parametrize(
    ("pf", "number", "reason"),
    [
        ("eth9", 0, "this host has no interface eth9"),
        ("plain", 0, "plain has no virtual functions: it is not an SR-IOV NIC"),
        ("eth1", 3, "eth1 has no virtual function 3: it has 3, numbered from 0"),
    ],
)
def test_one_that_is_not_there_is_told(sys_net: Path, pf: str, number: int, reason: str) -> None:
    with pytest.raises(Absent) as absent:
        virtual_functions.bus_address(pf, number, sys_net)
    assert str(absent.value) == reason


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "no network interface in any namespace (its driver is iavf)"),
        (1, "driver vfio-pci passes it to a virtual machine; name that machine with `qemu`"),
        (2, "no driver is bound to it"),
    ],
)
def test_one_without_an_interface_says_who_has_it(
    playground: Playground, sys_net: Path, number: int, words: str
) -> None:
    def look() -> Any:
        with HostNamespace() as this:
            return virtual_functions.find_function(this, "eth1", number, sys_net)

    with pytest.raises(Absent) as absent:
        playground.do(look)
    assert f"virtual function {number} of eth1 (0000:01:10.{number})" in str(absent.value)
    assert words in str(absent.value)
