"""What a kernel's IP layer tells, and what follows from it."""

from __future__ import annotations

import pytest

from isolane.errors import TestbedError
from isolane.testbed.ip_counters import IpCounts, parse_snmp, parse_snmp6

SNMP = """\
Ip: Forwarding DefaultTTL InReceives InHdrErrors OutForwDatagrams
Ip: 1 64 18446744073709551615 2 3
Icmp: InMsgs InErrors
Icmp: 4 5
"""


def test_snmp_pairs_names_with_values_of_the_protocol() -> None:
    assert parse_snmp(SNMP, "Ip") == {
        "Forwarding": 1,
        "DefaultTTL": 64,
        "InReceives": 2**64 - 1,
        "InHdrErrors": 2,
        "OutForwDatagrams": 3,
    }
    assert parse_snmp(SNMP, "Icmp") == {"InMsgs": 4, "InErrors": 5}


def test_snmp6() -> None:
    text = "Ip6InReceives                   \t12\nIp6InHdrErrors                  \t0\n"
    assert parse_snmp6(text) == {"Ip6InReceives": 12, "Ip6InHdrErrors": 0}


V4 = """\
Ip: InReceives InDelivers ForwDatagrams OutDiscards FragFails
Ip: 100 3 90 4 1
Icmp: InEchos OutEchoReps
Icmp: 9 7
Udp: InErrors NoPorts OutDatagrams SndbufErrors
Udp: 20 30 11 2
"""
V6 = """\
Ip6InReceives 110
Ip6InMcastPkts 10
Ip6InDelivers 3
Ip6OutForwDatagrams 90
Ip6OutDiscards 4
Ip6FragFails 1
Icmp6InEchos 9
Icmp6OutEchoReplies 7
Udp6InErrors 20
Udp6NoPorts 30
Udp6OutDatagrams 11
Udp6SndbufErrors 2
"""


@pytest.mark.parametrize(("ip", "text"), [(4, V4), (6, V6)])
def test_what_neither_left_nor_was_its_own_was_not_forwarded(ip: int, text: str) -> None:
    counts = IpCounts.of(ip, text)
    assert (counts.arrived, counts.delivered, counts.forwarded, counts.given_up) == (100, 3, 90, 5)
    assert counts.lost(answers=False) == {"no_route": 7 + 5}
    assert counts.sent(answers=False) == 85
    # An answer that is given up was dropped by an interface, and is counted there.
    assert counts.lost(answers=True) == {"no_route": 7, "unanswered": 20 + 30 + 9 - 7}
    assert counts.sent(answers=True) == 90 + 11 + 2 + 7


@pytest.mark.parametrize(("ip", "text"), [(4, ""), (4, "Ip: InReceives\nIp: 1\n"), (6, "")])
def test_a_kernel_without_a_counter_is_told(ip: int, text: str) -> None:
    with pytest.raises(TestbedError, match=f"does not tell of IPv{ip}"):
        IpCounts.of(ip, text)
