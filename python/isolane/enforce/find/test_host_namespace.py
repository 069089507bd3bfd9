"""VLANs behind bridges, on interfaces as netlink tells them: not every kernel has VLANs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from isolane.enforce.find.host_namespace import vlan_on_nic
from isolane.enforce.find.links import Link, PortVlan

BRIDGE = Link(10, "br0", "bridge", "", filtering=True)
NIC = Link(2, "eth1", None, "", master=10)
PORT = Link(5, "v1", "veth", "", link=3, netnsid=0, master=10)
TAGGED = {5: PortVlan(77, frozenset({77})), 2: PortVlan(1, frozenset({1}))}


def vlan(*links: Link, nics: str = "eth1", ports: Mapping[int, PortVlan] = TAGGED) -> int:
    return vlan_on_nic({link.ifindex: link for link in links}, PORT, {nics}, lambda: ports)


def test_a_bridge_that_looks_at_vlans_tags_on_the_nic() -> None:
    assert vlan(BRIDGE, NIC, PORT) == 77
    untagged = {**TAGGED, 2: PortVlan(1, frozenset({1, 77}))}
    assert vlan(BRIDGE, NIC, PORT, ports=untagged) == 0


def test_a_bridge_that_does_not_look_at_vlans_tags_nothing() -> None:
    assert vlan(replace(BRIDGE, filtering=False), NIC, PORT) == 0


def test_a_vlan_interface_under_the_bridge_tags_on_the_nic() -> None:
    above = Link(6, "eth1.9", "vlan", "", link=2, master=10, vlan=9)
    nic = replace(NIC, master=None)
    assert vlan(replace(BRIDGE, filtering=False), nic, above, PORT) == 9


@pytest.mark.parametrize(
    "links",
    [
        (BRIDGE, PORT),  # no NIC behind it
        (BRIDGE, replace(NIC, ifname="eth2"), PORT),  # not one of the policy's
        (NIC, replace(PORT, master=None)),  # no bridge
        (replace(BRIDGE, kind="bond"), NIC, PORT),
    ],
)
def test_without_a_nic_behind_the_bridge_there_is_no_vlan(links: tuple[Link, ...]) -> None:
    own = next(link for link in links if link.ifindex == PORT.ifindex)
    found = vlan_on_nic({link.ifindex: link for link in links}, own, {"eth1"}, lambda: TAGGED)
    assert found == 0
