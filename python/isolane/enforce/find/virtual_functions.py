"""Finds virtual functions of SR-IOV NICs by physical function and number."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from isolane.enforce.find.absent import Absent
from isolane.enforce.find.host_namespace import HostNamespace, all_namespaces, open_namespace
from isolane.enforce.find.links import Link
from isolane.enforce.find.router_interfaces import RouterNamespace, look_inside
from isolane.enforce.router_facts import Interface

SYS_NET: Final = Path("/sys/class/net")


def bus_address(pf: str, number: int, sys_net: Path = SYS_NET) -> tuple[str, str | None]:
    """Return a virtual function's bus address and its driver.

    Raises
    ------
    Absent
        When there is no such NIC, it has no virtual functions, or fewer.
    """
    device = sys_net / pf / "device"
    if not (sys_net / pf).exists():
        raise Absent(f"this host has no interface {pf}")
    function = device / f"virtfn{number}"
    if not function.exists():
        try:
            count = (device / "sriov_numvfs").read_text().strip()
        except OSError:
            raise Absent(f"{pf} has no virtual functions: it is not an SR-IOV NIC") from None
        raise Absent(f"{pf} has no virtual function {number}: it has {count}, numbered from 0")
    driver = function / "driver"
    return function.resolve().name, driver.resolve().name if driver.exists() else None


def find_function(
    host: HostNamespace, pf: str, number: int, sys_net: Path = SYS_NET
) -> tuple[RouterNamespace, Interface]:
    """Find the network interface of a virtual function, on the host or in a namespace.

    Raises
    ------
    Absent
        As :func:`bus_address`, and when the function has no network interface.
    """
    address, driver = bus_address(pf, number, sys_net)
    link = _with_parent(host.links.values(), address)
    if link is not None:
        return RouterNamespace(), Interface("own", None, link.ifname, link.ifindex, link.mac)
    for path in all_namespaces():
        with suppress(Absent, OSError):
            namespace = open_namespace(path, "")
            try:
                inside = look_inside(host, namespace, path)
                inode = os.fstat(namespace).st_ino
            finally:
                os.close(namespace)
            link = _with_parent(inside.links, address)
            if link is not None:
                own = Interface("own", path, link.ifname, link.ifindex, link.mac)
                return RouterNamespace(path, inode, inside.cookie), own
    raise Absent(_without_interface(f"virtual function {number} of {pf} ({address})", driver))


def _with_parent(links: Iterable[Link], address: str) -> Link | None:
    return next((link for link in links if link.parent == address), None)


def _without_interface(who: str, driver: str | None) -> str:
    if driver is None:
        return f"{who} has no network interface: no driver is bound to it"
    if driver.startswith("vfio"):
        return (
            f"{who} has no network interface: driver {driver} passes it to a virtual machine; "
            "name that machine with `qemu` or `libvirt`"
        )
    return f"{who} has no network interface in any namespace (its driver is {driver})"
