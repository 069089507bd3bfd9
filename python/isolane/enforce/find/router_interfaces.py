"""Finds the interfaces by which the host reaches a router, with both ends of each."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from isolane.enforce.find.absent import Absent
from isolane.enforce.find.host_namespace import HostNamespace, all_namespaces, open_namespace
from isolane.enforce.find.links import Link, read_links
from isolane.enforce.router_facts import Interface

_MACVLANS = ("macvlan", "macvtap", "ipvlan", "ipvtap")


@dataclass(frozen=True)
class RouterNamespace:
    """The network namespace that a router is in; all None for the host's own."""

    netns: Path | None = None
    inode: int | None = None
    cookie: int | None = None


def of_namespace(
    host: HostNamespace, path: Path, missing: str, own: Collection[str] = ()
) -> tuple[RouterNamespace, tuple[Interface, ...]]:
    """Find the interfaces of a router that has a network namespace of its own.

    Parameters
    ----------
    path
        The namespace's file.
    missing
        Sentence for the user when that file does not exist.
    own
        Interfaces that the router has to itself, whatever they are.

    Returns
    -------
    tuple
        The namespace, and the interfaces by which the host reaches the router, without loopback,
        tunnels and interfaces that are stacked on others of the router.

    Raises
    ------
    Absent
        When there is no such namespace, it is the host's own, or no interface connects it.
    """
    namespace = open_namespace(path, missing)
    try:
        inode = os.fstat(namespace).st_ino
        if inode == host.inode:
            raise Absent(
                f"{path} is the host's own network namespace: the router shares the host's "
                "interfaces; name the one that it uses with `interface`"
            )
        inside = look_inside(host, namespace, path)
    finally:
        os.close(namespace)
    links = inside.links
    absent = [name for name in own if name not in {link.ifname for link in links}]
    if absent:
        raise Absent(f"{path} has no interface {absent[0]}, which the policy calls its own")
    found = (
        Interface("own", path, link.ifname, link.ifindex, link.mac, mtu=link.mtu)
        if link.ifname in own
        else of_link(host, path, link, inside.host_number)
        for link in links
    )
    interfaces = tuple(interface for interface in found if interface is not None)
    if not interfaces:
        raise Absent(_unreachable(path, links))
    down = {link.ifname for link in links if not link.up}  # without frames and NAPI
    up = tuple(interface for interface in interfaces if interface.ifname not in down)
    if not up:
        names = [interface.ifname for interface in interfaces]
        raise Absent(f"in {path} {', '.join(names)} {'is' if len(names) == 1 else 'are'} down")
    return RouterNamespace(path, inode, inside.cookie), up


@dataclass(frozen=True)
class Inside:
    """What can be read inside a namespace."""

    cookie: int
    links: list[Link]
    host_number: int | None
    """The namespace's identifier (nsid) for the host's namespace."""


def look_inside(host: HostNamespace, namespace: int, path: Path) -> Inside:
    """Enter a namespace and read its interfaces.

    Raises
    ------
    Absent
        When the descriptor is not that of a network namespace.
    """
    try:
        with host.inside(namespace) as netlink:
            links = list(read_links(netlink).values())
            # Read the nsid last: only the dump makes the kernel assign one to the host's namespace.
            return Inside(netlink.cookie, links, netlink.number_of(host.fd))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise Absent(f"{path} is not a network namespace ({reason})") from None


def _unreachable(path: Path, links: list[Link]) -> str:
    names = [link.ifname for link in links if not link.loopback]
    there = f"only {', '.join(names)}, none of them" if names else "no interface"
    return f"{path} has {there} connected with this host: no veth, no macvlan, no NIC of its own"


def of_link(
    host: HostNamespace, path: Path, link: Link, host_number: int | None
) -> Interface | None:
    """Describe an interface in a router's namespace; None where it does not lead to the host.

    Parameters
    ----------
    host_number
        The host's namespace's identifier (nsid) there; None: no interface connects the two.
    """
    if link.kind is None and not link.loopback:
        return Interface("own", path, link.ifname, link.ifindex, link.mac)
    # Without an nsid for the host's namespace, no interface connects the two.
    if link.netnsid is None or host_number is None or link.netnsid != host_number:
        return None
    other = host.links.get(link.link or 0)
    if other is None:
        return None
    if link.kind == "veth":
        return _veth(host, path, link, other)
    if link.kind in _MACVLANS or link.kind == "vlan":
        return Interface(
            "macvlan", path, link.ifname, link.ifindex, link.mac, link.vlan, lower=other.ifname
        )
    return None


def _veth(host: HostNamespace, path: Path | None, inner: Link, outer: Link) -> Interface:
    bridge = host.bridge_of(outer)
    return Interface(
        how="veth",
        netns=path,
        ifname=inner.ifname,
        ifindex=inner.ifindex,
        mac=inner.mac,
        vlan=host.vlan_of(outer),
        host_ifname=outer.ifname,
        host_ifindex=outer.ifindex,
        bridge=None if bridge is None else bridge.ifname,
        mtu=inner.mtu,
        host_mtu=outer.mtu,
    )


def of_tap(host: HostNamespace, tap: Link, mac: str) -> Interface:
    """Describe a virtual machine's interface: a tap with the guest's address behind it."""
    bridge = host.bridge_of(tap)
    return Interface(
        how="tap",
        netns=None,
        ifname=tap.ifname,
        ifindex=tap.ifindex,
        mac=mac,
        vlan=host.vlan_of(tap),
        host_ifname=tap.ifname,
        host_ifindex=tap.ifindex,
        bridge=None if bridge is None else bridge.ifname,
        mtu=tap.mtu,
        host_mtu=tap.mtu,
    )


def of_macvlan(host: HostNamespace, link: Link, mac: str | None) -> Interface:
    """Describe a macvlan, macvtap or VLAN interface of the host that a router uses."""
    lower = host.links.get(link.link or 0)
    return Interface(
        how="macvlan",
        netns=None,
        ifname=link.ifname,
        ifindex=link.ifindex,
        mac=mac or link.mac,
        vlan=link.vlan,
        lower=None if lower is None else lower.ifname,
    )


def guest_mac(host: HostNamespace, tap: Link, stated: str | None) -> str:
    """Return the MAC address of the guest behind a tap.

    Parameters
    ----------
    stated
        Address in the policy, on QEMU's command line or from its monitor; None: in none of them.

    Raises
    ------
    Absent
        When none of them has it and the bridge has not learned exactly one.
    """
    if stated is not None:
        return stated.lower()
    learned = host.learned.get(tap.ifindex, ())
    if len(learned) == 1:
        return learned[0]
    bridge = host.bridge_of(tap)
    if bridge is None:
        heard = "and it is no port of a Linux bridge that would have learned it"
    elif learned:
        heard = f"and {bridge.ifname} has learned several behind it: {', '.join(learned)}"
    else:
        heard = f"and {bridge.ifname} has learned none yet, because the guest has sent nothing"
    raise Absent(
        f"the MAC address of the guest behind {tap.ifname} is not known: neither the "
        f"policy nor QEMU says it, {heard}; give it in the policy as `mac`"
    )


def of_host_interface(
    host: HostNamespace, ifname: str, mac: str | None
) -> tuple[RouterNamespace, Interface]:
    """Find a router by an interface of the host that it uses.

    Raises
    ------
    Absent
        When there is no such interface, or no router can be behind an interface of its kind.
    """
    link = host.by_name(ifname)
    if link is None:
        raise Absent(f"this host has no interface {ifname}")
    if link.kind is None and not link.loopback:
        return RouterNamespace(), Interface("own", None, ifname, link.ifindex, mac or link.mac)
    if link.kind == "tun":
        return RouterNamespace(), of_tap(host, link, guest_mac(host, link, mac))
    if link.kind in (*_MACVLANS, "vlan") and link.netnsid is None:
        return RouterNamespace(), of_macvlan(host, link, mac)
    if link.kind == "veth":
        return _behind(host, link)
    what = "the loopback interface" if link.loopback else f"a {link.kind}"
    raise Absent(
        f"{ifname} is {what}; a router can be behind a NIC, a virtual function, a veth, a tap, a "
        "macvlan or a VLAN"
    )


def _behind(host: HostNamespace, outer: Link) -> tuple[RouterNamespace, Interface]:
    if outer.netnsid is None:
        inner = host.links.get(outer.link or 0)
        if inner is None:
            raise Absent(f"the other end of {outer.ifname} is gone")
        return RouterNamespace(), _veth(host, None, inner, outer)
    for path in all_namespaces():
        with suppress(Absent, OSError):
            namespace = open_namespace(path, "")
            try:
                if host.netlink.number_of(namespace) != outer.netnsid:
                    continue
                inside = look_inside(host, namespace, path)
                inode = os.fstat(namespace).st_ino
            finally:
                os.close(namespace)
            inner = next((link for link in inside.links if link.ifindex == outer.link), None)
            if inner is not None:
                return RouterNamespace(path, inode, inside.cookie), _veth(host, path, inner, outer)
    raise Absent(
        f"the other end of {outer.ifname} is in a network namespace that has neither a name in "
        "/run/netns nor a process"
    )
