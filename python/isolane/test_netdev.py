from __future__ import annotations

import socket

import pytest
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.generic import GenericNetlinkSocket

from isolane.errors import NotSupported
from isolane.netdev import XdpFeature, napi_threads, xdp_features


class Device(genlmsg):  # type: ignore[misc] # pyroute2 has no types
    nla_map = (
        ("NETDEV_A_DEV_UNSPEC", "none"),
        ("NETDEV_A_DEV_IFINDEX", "uint32"),
        ("NETDEV_A_DEV_PAD", "none"),
        ("NETDEV_A_DEV_XDP_FEATURES", "uint64"),
    )


def as_pyroute2_reads_them() -> dict[int, int]:
    request = Device()
    request["cmd"], request["version"] = 1, 1
    with GenericNetlinkSocket() as netlink:
        netlink.bind("netdev", Device)
        flags = NLM_F_REQUEST | NLM_F_DUMP
        return {
            one.get_attr("NETDEV_A_DEV_IFINDEX"): one.get_attr("NETDEV_A_DEV_XDP_FEATURES")
            for one in netlink.nlm_request(request, msg_type=netlink.prid, msg_flags=flags)
        }


def test_features_are_those_that_a_library_reads() -> None:
    found = xdp_features()
    if not found:
        pytest.skip("this kernel does not tell XDP features (before Linux 6.3)")
    assert found == as_pyroute2_reads_them()
    assert set(found) == {index for index, _ in socket.if_nameindex()}
    assert XdpFeature.BASIC not in found[socket.if_nametoindex("lo")]


def test_what_has_no_napi_has_no_threads() -> None:
    try:
        found = napi_threads(socket.if_nametoindex("lo"))
    except NotSupported as error:
        pytest.skip(str(error))
    assert found == []
