"""Finds a router that is a process with its children, whatever program it is.

A guest kernel in a process (User-Mode Linux), a virtual machine in network namespaces of its own, a
program that forwards by itself. Its interfaces are the taps that it has open, and as far as the
policy names them those that it has packet sockets on, or a macvtap in another namespace than the
host's: a packet socket alone says little, since every DHCP client has one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from isolane.enforce.find import macvtaps, processes
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.host_namespace import HostNamespace
from isolane.enforce.find.packet_sockets import Bound, bound_to, sockets_of
from isolane.enforce.find.router_interfaces import of_link
from isolane.enforce.find.virtual_machines import behind_tap
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.procfs import descendants, family
from isolane.spec.policy_models import OWN


def of_any_process(
    host: HostNamespace, name: str, pid: int, leaves_by: Mapping[str, str], mac: str | None
) -> FoundRouter:
    """Describe a router that is a process.

    Parameters
    ----------
    leaves_by
        Interfaces of the router and the NICs that their frames leave by, as the policy says.
    mac
        The MAC address behind its tap, or the one interface that the policy names.

    Raises
    ------
    Absent
        When there is no such process, this command comes from it, it has no tap, packet socket or
        macvtap on an interface that the policy names, or the address behind a tap cannot be found.
    """
    processes.command_line(pid)
    members = family(pid)
    if os.getpid() in members:
        raise Absent(f"process {pid} has started this command, so it is no router")
    devices = {number for one in members for number in macvtaps.devices_of(one)}
    elsewhere = {tap.ifname: bound for tap, bound in macvtaps.below(host, devices)}
    names = dict.fromkeys(tap for one in members for tap in processes.taps_of(one))
    taps = tuple(name for name in names if name not in elsewhere)
    interfaces = [behind_tap(host, pid, tap, mac if len(taps) == 1 else None) for tap in taps]
    sockets = {inode for one in members for inode in sockets_of(one)}
    named = [*bound_to(host, sockets), *elsewhere.values()]
    interfaces += _as_named(host, named, leaves_by, mac if len(leaves_by) == 1 else None)
    missing = set(leaves_by).difference(at.ifname for at in interfaces)
    if missing:
        raise Absent(f"process {pid} has no tap, packet socket or macvtap on {min(missing)}")
    return FoundRouter(name, "vm", None, None, pid, tuple(interfaces), tuple(descendants(pid)))


def _as_named(
    host: HostNamespace, bound: Iterable[Bound], leaves_by: Mapping[str, str], mac: str | None
) -> list[Interface]:
    """Describe those interfaces that the policy names, by what it says of them.

    Parameters
    ----------
    mac
        Of what sends by the one that is named; None: the interface's own.
    """
    found = []
    for at in bound:
        link, nic = at.link, leaves_by.get(at.link.ifname)
        if nic == OWN and at.link.kind == "macvtap":
            continue  # frames come by what is below it
        if nic == OWN:
            found.append(Interface("own", at.netns, link.ifname, link.ifindex, link.mac))
        elif nic is not None and at.netns is not None:
            inner = of_link(host, at.netns, link, at.host_number)
            if inner is not None:
                found.append(inner if mac is None else replace(inner, mac=mac))
    return found
