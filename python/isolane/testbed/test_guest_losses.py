"""Where a guest loses frames, worked out from counters at each step of their way."""

from __future__ import annotations

from dataclasses import replace

from isolane.testbed.guest_losses import GuestReading, at_rest, frames_received
from isolane.testbed.ip_counters import IpCounts

DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:       0       0    0    0    0     0          0         0        0       0    0    0
  vec0:  640000   10000    0    0    0     0          0         0        0       0    0    0
  vec1:12       3    0    0    0     0          0         0   600000    9990    0    0
"""
READING = GuestReading(
    refused=40,
    taken=1000,
    ip=IpCounts(arrived=990, delivered=2, forwarded=980, given_up=5),
    sent=970,
)


def test_each_step_loses_what_came_in_and_did_not_come_out() -> None:
    lost = READING.lost()
    assert lost == {"router_queue": 40 + 10, "no_route": 8 + 5, "egress": 5}
    assert sum(lost.values()) + READING.ip.delivered + READING.sent == 40 + 1000


def test_interfaces_of_proc_net_dev() -> None:
    assert frames_received(DEV) == {"lo": 0, "vec0": 10_000, "vec1": 3}


def test_a_reading_counts_once_nothing_is_on_its_way() -> None:
    readings = iter([replace(READING, sent=960), replace(READING, sent=965), READING, READING])
    assert at_rest(lambda: next(readings)) == READING
    assert next(readings, None) is None, "all were read"


def test_a_reading_that_never_settles_is_taken_after_the_limit() -> None:
    numbers = iter(range(10**6))
    found = at_rest(lambda: replace(READING, sent=next(numbers)), limit_s=0.01)
    assert found.sent > 1
