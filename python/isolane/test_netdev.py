from __future__ import annotations

import errno
import socket
import struct
from typing import Self

import pytest
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.generic import GenericNetlinkSocket

from isolane import netdev
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


def error(number: int) -> bytes:
    """Return an answer of the kernel's that is an error (rtnetlink(7), NLMSG_ERROR)."""
    body = struct.pack("=iIHHII", -number, 20, 20, 1, 1, 0)
    return struct.pack("=IHHII", 16 + len(body), 2, 0, 1, 0) + body


class Link:
    """A socket to a kernel that answers this."""

    answer = b""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def sendto(self, *_: object) -> None:
        """Take the request."""

    def recv(self, _: int) -> bytes:
        """Give the answer."""
        return self.answer


def test_a_kernel_that_does_not_know_threads_is_not_taken_for_one_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Linux 6.3 to 6.7 have the family, and tell features only."""
    monkeypatch.setattr(netdev, "_family", lambda: 20)
    monkeypatch.setattr(socket, "socket", Link)
    tells = netdev.tells_threads.__wrapped__  # each time anew
    Link.answer = error(errno.EOPNOTSUPP)
    with pytest.raises(NotSupported, match="Linux"):
        napi_threads(1)
    assert not tells()
    assert xdp_features() == {}
    Link.answer = error(0)
    assert napi_threads(1) == []
    assert tells()
