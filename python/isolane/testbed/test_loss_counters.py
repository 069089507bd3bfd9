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
    assert gone.of("a") == {
        "nic_queue": 0, "router_queue": 0, "no_route": 0, "unanswered": 0, "egress": 2
    }  # fmt: skip
    assert gone.of(None)["nic_queue"] == 0
    assert (gone.total, gone.backlog_dropped) == (2, 4)


def test_what_was_for_a_router_itself_is_added_where_it_was_sent_on_purpose() -> None:
    early = Counters({("a", "no_route"): 1}, 0, 0, {"a": 5, "b": 7})
    late = Counters({("a", "no_route"): 4}, 0, 0, {"a": 9, "b": 8})
    gone = late - early
    assert gone.of("a")["no_route"] == 3
    assert gone.with_delivered({"a"}).of("a")["no_route"] == 3 + 4
    assert gone.with_delivered({"a"}).of("b")["no_route"] == 0
    assert gone.total == 3
