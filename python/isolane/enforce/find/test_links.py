"""What the kernel says of interfaces, read as pyroute2 reads it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2 import IPRoute

from isolane.enforce.find.conftest import Playground
from isolane.enforce.find.links import Link, read_links
from isolane.enforce.find.netlink_socket import Netlink, read_attributes


def by_pyroute2(message: Any) -> Link:
    info = message.get_attr("IFLA_LINKINFO")
    kind = info.get_attr("IFLA_INFO_KIND") if info is not None else None
    data = info.get_attr("IFLA_INFO_DATA") if info is not None else None
    return Link(
        ifindex=message["index"],
        ifname=message.get_attr("IFLA_IFNAME"),
        kind=kind,
        mac=message.get_attr("IFLA_ADDRESS") or "",
        link=message.get_attr("IFLA_LINK") or None,
        netnsid=message.get_attr("IFLA_LINK_NETNSID"),
        master=message.get_attr("IFLA_MASTER"),
        vlan=data.get_attr("IFLA_VLAN_ID") if data is not None and kind == "vlan" else 0,
        filtering=data is not None and bool(data.get_attr("IFLA_BR_VLAN_FILTERING")),
        parent=message.get_attr("IFLA_PARENT_DEV_NAME"),
        loopback=bool(message["flags"] & 8),
        up=bool(message["flags"] & 1),
        mtu=message.get_attr("IFLA_MTU"),
    )


def both() -> tuple[dict[int, Link], dict[int, Link]]:
    with Netlink() as netlink, IPRoute() as oracle:
        links = [by_pyroute2(message) for message in oracle.get_links()]
        return read_links(netlink), {link.ifindex: link for link in links}


def test_every_kind_of_interface_is_read_as_pyroute2_reads_it(playground: Playground) -> None:
    name = playground.namespace("other")
    for words in (
        "br0 type bridge",
        "v1 type veth peer name v2",
        f"v3 type veth peer name eth0 netns {name}",
        "nic1 type veth peer name wire1",
        "mv0 link nic1 type macvlan",
    ):
        playground.run(f"ip link add {words}")
    playground.run("ip link set v1 master br0")
    playground.run("ip tuntap add tap0 mode tap")
    playground.run("ip tuntap add tun0 mode tun")  # it has no address
    read, expected = playground.do(both)
    assert read == expected
    assert {link.kind for link in read.values()} >= {"bridge", "veth", "macvlan", "tun", None}
    assert {link.netnsid for link in read.values()} == {None, 0}


def test_the_interfaces_of_this_host_are_read_as_pyroute2_reads_them() -> None:
    read, expected = both()
    assert {index: link.ifname for index, link in read.items()}.items() >= {1: "lo"}.items()
    assert [read[index] for index in read if index in expected] == [
        expected[index] for index in read if index in expected
    ]


def test_more_interfaces_than_one_message_holds_are_read(playground: Playground) -> None:
    for number in range(60):
        playground.run(f"ip link add v{number} type veth peer name w{number}")
    read, expected = playground.do(both)
    assert len(read) == 121
    assert read == expected


def test_a_namespace_has_a_number_once_a_link_leads_there(playground: Playground) -> None:
    name = playground.namespace("other")
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
    playground.stack.callback(os.close, descriptor)

    def number() -> int | None:
        with Netlink() as netlink:
            netlink.links()
            return netlink.number_of(descriptor)

    assert playground.do(number) is None
    playground.run(f"ip link add v3 type veth peer name eth0 netns {name}")
    assert playground.do(number) == 0


def test_what_the_kernel_refuses_is_raised() -> None:
    closed, other = os.pipe()
    os.close(closed)
    os.close(other)
    with Netlink() as netlink, pytest.raises(OSError, match=r"Bad file descriptor|Invalid"):
        netlink.number_of(closed)


@given(st.binary(max_size=200))
def test_no_message_breaks_the_reader(data: bytes) -> None:
    for value in read_attributes(data).values():
        assert len(value) <= len(data)
        read_attributes(value)
