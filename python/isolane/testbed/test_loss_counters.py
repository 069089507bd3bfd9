"""Counters: parsing what the kernel prints, and differences."""

from __future__ import annotations

from isolane.testbed.loss_counters import Counters, backlog_drops
from isolane.testbed.snmp import parse_snmp, parse_snmp6

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


def test_backlog_drops_are_hexadecimal_and_added_over_cores() -> None:
    lines = ["0000010f 0000001a 00000000", "00000001 00000001 00000000"]
    assert backlog_drops(lines) == 27


def test_differences() -> None:
    early = Counters({("a", "egress"): 3, (None, "nic_queue"): 1}, 10, 4)
    late = Counters({("a", "egress"): 5, (None, "nic_queue"): 1}, 14, 4)
    gone = late - early
    assert gone.of("a") == {
        "nic_queue": 0, "router_queue": 0, "guest": 0, "no_route": 0, "egress": 2,
    }  # fmt: skip
    assert gone.of(None)["nic_queue"] == 0
    assert (gone.total, gone.backlog_dropped) == (2, 4)
