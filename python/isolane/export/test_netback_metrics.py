"""Metrics of network back-ends, read by others' parsers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from isolane.export import exposition, netback_families
from isolane.export.test_metrics import parse_openmetrics, parse_text, values
from isolane.netback import PortStatus, Status, UplinkStatus

PORT = PortStatus(
    name="vm1", uplink="eth1", vlan=None, interface=None, socket="/run/vm1.sock",
    shares={"weight": 77}, transmitted=1014, wrong_source=2, malformed=3, sent=904,
    link_bytes=75_936, output_full=60, not_taken=13, waiting=32, delivered=505, ring_full=6,
    too_long=7, no_guest=8, attached=True, cut_offs=9, last_cut_off="messages of 65535 bytes",
    dropped_early=5,
)  # fmt: skip
LINK = UplinkStatus(
    name="eth1", scheduler="drr", back_pressure="on", rate="1Gbps", received=526, ring_full=11,
    too_long=12, sent=900, refused=4, retried=5, carrier=True,
)  # fmt: skip
SHOWN = Status("edge", (PORT,), (LINK,))


def test_both_formats_have_every_counter() -> None:
    found = netback_families([SHOWN])
    openmetrics: dict[Any, float] = values(parse_openmetrics(exposition(found)))
    assert openmetrics == values(parse_text(exposition(found, "text")))
    for part in (PORT, LINK):
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, int):
                assert value in openmetrics.values(), field.name
    port = (("back_end", "edge"), ("port", "vm1"))
    assert openmetrics["isolane_netback_port_sent_frames_total", port] == 904
    by_reason = (*port, ("reason", "output_full"))
    assert openmetrics["isolane_netback_port_not_sent_frames_total", by_reason] == 60
    uplink = (("back_end", "edge"), ("uplink", "eth1"))
    assert openmetrics["isolane_netback_uplink_received_frames_total", uplink] == 526
    assert openmetrics["isolane_netback_uplink_carrier", uplink] == 1


def test_units_end_names() -> None:
    for family in netback_families([SHOWN]):
        assert not family.unit or family.name.endswith(f"_{family.unit}")


def test_where_none_runs_there_is_nothing() -> None:
    assert netback_families([]) == []
