"""Rates of a back-end's ports, from two looks at its counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isolane.netback import PortStatus, Status, UplinkStatus
from isolane.netback.port_rates import BackEndRates, port_rates
from isolane.spec.schedulers import SchedulerName

NOTHING = PortStatus(
    name="vm1", uplink="eth1", vlan=None, interface=None, socket="vm1.sock", shares={"weight": 3},
    transmitted=0, not_taken=0,
    wrong_source=0, malformed=0, sent=0, link_bytes=0, output_full=0, waiting=0, delivered=0,
    ring_full=0, too_long=0, no_guest=0, attached=True, cut_offs=0, last_cut_off=None,
)  # fmt: skip
LINK = UplinkStatus(
    name="eth1", scheduler="drr", back_pressure="on", rate=None, received=0, ring_full=0,
    too_long=0, sent=0, refused=0, retried=0, carrier=True,
)  # fmt: skip


def rates(before: Status, after: Status, seconds: float) -> BackEndRates:
    found = port_rates(before, after, seconds)
    assert found is not None
    return found


def status(*ports: PortStatus, scheduler: SchedulerName = "drr") -> Status:
    return Status("edge", ports, (replace(LINK, scheduler=scheduler),))


OTHER = replace(NOTHING, name="vm2", shares={"weight": 1})
BEFORE = status(replace(NOTHING, transmitted=100, sent=90, link_bytes=7560, delivered=7), OTHER)
AFTER = status(
    replace(
        NOTHING, transmitted=700, sent=490, link_bytes=7560 + 84_000, malformed=150, waiting=30,
        delivered=27, ring_full=4,
    ),
    replace(OTHER, link_bytes=16_000),
)  # fmt: skip


def test_what_happened_between_two_looks() -> None:
    one, two = rates(BEFORE, AFTER, 2.0).ports
    assert (one.transmitted_pps, one.sent_pps, one.waiting) == (300, 200, 30)
    assert one.not_sent_pps == {
        "wrong_source": 0,
        "malformed": 75,
        "output_full": 0,
        "not_taken": 0,
    }
    assert (one.delivered_pps, one.lost_pps["ring_full"]) == (10, 2)
    assert one.link_bps == 84_000 * 8 / 2
    assert (one.link_share, two.link_share) == (0.84, 0.16)
    assert (one.fair_share, two.fair_share) == (0.75, 0.25)


def test_what_cannot_be_told_is_not_told() -> None:
    one, _ = rates(BEFORE, BEFORE, 1.0).ports
    assert one.link_share is None
    strict = status(replace(NOTHING, shares={"priority": 1}), scheduler="strict-priority")
    assert rates(strict, strict, 1.0).ports[0].fair_share is None


def test_a_port_without_a_guest_takes_no_share() -> None:
    nobody = replace(OTHER, name="vm3", attached=False)
    there = status(*BEFORE.ports, nobody)
    shares = [port.fair_share for port in rates(there, there, 1.0).ports]
    assert shares == [0.75, 0.25, None]


def test_one_that_was_started_anew_tells_nothing() -> None:
    assert port_rates(AFTER, BEFORE, 1.0) is None
    assert port_rates(status(NOTHING), AFTER, 1.0) is None, "it has other ports"


def test_it_is_plain_data() -> None:
    data = rates(BEFORE, AFTER, 2.0).as_data()
    assert data["name"] == "edge"
    assert data["ports"][0]["link_share"] == pytest.approx(0.84)
