"""Receive filters, as a NIC's driver is asked for them: the layouts of linux/ethtool.h."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from dataclasses import dataclass, field
from typing import ClassVar, cast

import pytest

from isolane.testbed import kernel, receive_filters
from isolane.testbed.namespace_thread import run_in_thread

SOCK = cast("socket.socket", None)


class FlowExtension(ctypes.Structure):
    """``struct ethtool_flow_ext``."""

    _fields_: ClassVar = [
        ("padding", ctypes.c_uint8 * 2),
        ("h_dest", ctypes.c_uint8 * 6),
        ("vlan_etype", ctypes.c_uint8 * 2),
        ("vlan_tci", ctypes.c_uint8 * 2),
        ("data", ctypes.c_uint32 * 2),
    ]


class EthernetHeader(ctypes.Structure):
    """``struct ethhdr``, as long as the union that it is in."""

    _fields_: ClassVar = [
        ("h_dest", ctypes.c_uint8 * 6),
        ("h_source", ctypes.c_uint8 * 6),
        ("h_proto", ctypes.c_uint8 * 2),
        ("rest", ctypes.c_uint8 * 38),
    ]


class Flow(ctypes.Structure):
    """``struct ethtool_rx_flow_spec``."""

    _fields_: ClassVar = [
        ("flow_type", ctypes.c_uint32),
        ("h_u", EthernetHeader),
        ("h_ext", FlowExtension),
        ("m_u", EthernetHeader),
        ("m_ext", FlowExtension),
        ("ring_cookie", ctypes.c_uint64),
        ("location", ctypes.c_uint32),
    ]


class Request(ctypes.Structure):
    """``struct ethtool_rxnfc``, with room for eight locations."""

    _fields_: ClassVar = [
        ("cmd", ctypes.c_uint32),
        ("flow_type", ctypes.c_uint32),
        ("data", ctypes.c_uint64),
        ("fs", Flow),
        ("rule_cnt", ctypes.c_uint32),
        ("rule_locs", ctypes.c_uint32 * 8),
    ]


@dataclass
class Driver:
    """A driver that keeps filters, and answers as the kernel does."""

    slots: int = 3
    picks_locations: bool = True
    rings: int = 8
    table: list[int] = field(default_factory=lambda: [0, 1, 2, 3] * 4)
    rules: dict[int, Flow] = field(default_factory=dict)

    def ethtool(self, _: object, ifname: str, request: bytes, size: int = 0) -> bytes:
        assert ifname == "nic0"
        command = int.from_bytes(request[:4], "little")
        if command in (0x38, 0x39):
            return self._spread(command, request, size)
        asked = Request.from_buffer_copy(request.ljust(ctypes.sizeof(Request), b"\0"))
        if command == 0x2D:
            asked.data = self.rings
        elif command == 0x2E:
            asked.data = self.slots | (0x80000000 if self.picks_locations else 0)
            asked.rule_cnt = len(self.rules)
        elif command == 0x2F:
            asked.fs = self.rules[asked.fs.location]
        elif command == 0x30:
            assert asked.rule_cnt >= len(self.rules)
            for number, location in enumerate(self.rules):
                asked.rule_locs[number] = location
        elif command == 0x31:
            del self.rules[asked.fs.location]
        elif command == 0x32:
            self._insert(asked.fs)
        else:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return bytes(asked)[: len(request) + size]

    def _insert(self, flow: Flow) -> None:
        if flow.location == 0xFFFFFFFF:
            assert self.picks_locations
            free = [number for number in range(self.slots) if number not in self.rules]
            if not free:
                raise OSError(errno.ENOSPC, "No space left on device")
            flow.location = free[0]
        kept = Flow.from_buffer_copy(bytes(flow))
        self.rules[kept.location] = kept

    def _spread(self, command: int, request: bytes, size: int) -> bytes:
        words = [int.from_bytes(request[at : at + 4], "little") for at in range(0, len(request), 4)]
        if command == 0x39:
            self.table = words[2:]
            return request
        table = self.table if size else []
        count = len(self.table)
        return b"".join(word.to_bytes(4, "little") for word in (command, count, *table))


@pytest.fixture(params=[True, False], ids=["driver picks", "caller picks"])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver(picks_locations=request.param)
    monkeypatch.setattr(kernel, "ethtool", made.ethtool)
    return made


def test_layouts_are_those_of_the_header() -> None:
    assert ctypes.sizeof(Flow) == 168
    assert Request.rule_cnt.offset == 184
    assert Request.rule_locs.offset == 188


def test_a_filter_is_found_again_and_removed(driver: Driver) -> None:
    receive_filters.add(SOCK, "nic0", "02:00:00:00:00:07", 0, 5)
    receive_filters.add(SOCK, "nic0", "02:00:00:00:00:08", 12, 6)
    rules = {bytes(rule.h_u.h_dest).hex(): rule for rule in driver.rules.values()}
    plain, tagged = rules["020000000007"], rules["020000000008"]
    assert (plain.flow_type, plain.ring_cookie) == (0x12, 5)
    assert bytes(plain.m_u.h_dest) == b"\xff" * 6
    assert not any(bytes(plain.m_u.h_source))
    assert tagged.flow_type == 0x12 | 0x80000000
    assert bytes(tagged.h_ext.vlan_tci) == b"\x00\x0c"
    found = receive_filters.filters(SOCK, "nic0")
    assert {(one.mac, one.vlan, one.queue) for one in found} == {
        ("02:00:00:00:00:07", 0, 5),
        ("02:00:00:00:00:08", 12, 6),
    }
    for one in found:
        receive_filters.remove(SOCK, "nic0", one.location)
    assert not receive_filters.filters(SOCK, "nic0")


def test_a_filter_for_something_else_is_not_taken_for_one_by_address(driver: Driver) -> None:
    rule = Flow(flow_type=0x12, ring_cookie=1, location=2)
    rule.m_u.h_dest[:] = [255] * 6
    rule.m_u.h_proto[:] = [255] * 2
    driver.rules[2] = rule
    (one,) = receive_filters.filters(SOCK, "nic0")
    assert (one.mac, one.location, one.queue) == (None, 2, 1)


def test_a_nic_that_takes_no_more_says_so(driver: Driver) -> None:
    for number in range(driver.slots):
        receive_filters.add(SOCK, "nic0", f"02:00:00:00:00:{number:02x}", 0, 1)
    with pytest.raises(OSError, match=r"No space|no more") as full:
        receive_filters.add(SOCK, "nic0", "02:00:00:00:01:00", 0, 1)
    assert full.value.errno == errno.ENOSPC
    assert receive_filters.capacity(SOCK, "nic0") == driver.slots


def test_the_spread_is_read_and_written(driver: Driver) -> None:
    assert receive_filters.queues(SOCK, "nic0") == 8
    table = receive_filters.spread(SOCK, "nic0")
    assert table == [0, 1, 2, 3] * 4
    receive_filters.set_spread(SOCK, "nic0", [0, 1] * 8)
    assert driver.table == [0, 1] * 8


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a network namespace")
def test_an_interface_without_filters_is_told_by_the_kernel() -> None:
    def ask() -> int:
        kernel.unshare_net()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            return receive_filters.queues(sock, "lo")

    with pytest.raises(OSError) as refused:  # noqa: PT011 - the number says what is meant
        run_in_thread(ask)
    assert refused.value.errno == errno.EOPNOTSUPP
