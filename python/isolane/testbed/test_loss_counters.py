"""Counters: parsing what the kernel prints, and differences."""

from __future__ import annotations

from isolane.testbed.loss_counters import Counters, backlog_drops


def test_backlog_drops_are_hexadecimal_and_added_over_cores() -> None:
    lines = ["0000010f 0000001a 00000000", "00000001 00000001 00000000"]
    assert backlog_drops(lines) == 27


def test_differences() -> None:
    early = Counters({("a", "egress"): 3, (None, "nic_queue"): 1}, 10, 4)
    late = Counters({("a", "egress"): 5, (None, "nic_queue"): 1}, 14, 4)
    gone = late - early
    assert gone.of("a") == {"nic_queue": 0, "router_queue": 0, "no_route": 0, "egress": 2}
    assert gone.of(None)["nic_queue"] == 0
    assert (gone.total, gone.backlog_dropped) == (2, 4)
