"""What a guest says of itself, as a guest of Linux 6.1 said it."""

from __future__ import annotations

import pytest

from isolane.testbed.guests.guest_counters import GuestLosses, parse_losses

ANSWER = """\
vec0 rx_dropped 1
vec0 tx_dropped 0
vec1 rx_dropped 0
vec1 tx_dropped 4
qdisc pfifo_fast 0: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1
 Sent 5160 bytes 86 pkt (dropped 20, overlimits 0 requeues 3)
 backlog 0b 0p requeues 3
Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos \
InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs \
ReasmFails FragOKs FragFails FragCreates
Ip: 1 64 120 0 0 110 0 0 7 0 2 0 0 0 0 0 0 0 0
"""


def test_drops_are_told_by_place() -> None:
    assert parse_losses(ANSWER) == GuestLosses(guest=1 + 4 + 20, no_route=120 - 110 - 7 + 2)


@pytest.mark.parametrize("lacking", ["vec0 rx_dropped 1\n", "vec1 tx_dropped 4\n", "(dropped 20,"])
def test_an_answer_that_lacks_a_counter_is_refused(lacking: str) -> None:
    with pytest.raises(ValueError, match="the guest did not tell"):
        parse_losses(ANSWER.replace(lacking, ""))
