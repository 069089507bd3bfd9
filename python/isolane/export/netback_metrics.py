"""The metrics of network back-ends that run: names, units, meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from isolane.export.metrics import Family, Kind, Labels
from isolane.netback import PortStatus, Status, UplinkStatus
from isolane.netback.port_rates import NOT_DELIVERED, NOT_SENT

Part = TypeVar("Part", PortStatus, UplinkStatus)
Values = Mapping[str, float]
"""By reason; a metric without reasons has one value, whose reason is empty."""


@dataclass(frozen=True)
class _Metric(Generic[Part]):
    """A metric of each port, or of each uplink."""

    name: str
    kind: Kind
    unit: str
    about: str
    values: Callable[[Part], Values]


def _by_reason(reasons: Sequence[str]) -> Callable[[PortStatus | UplinkStatus], Values]:
    return lambda part: {reason: getattr(part, reason) for reason in reasons}


_OF_PORT: Final[tuple[_Metric[PortStatus], ...]] = (
    _Metric("attached", "gauge", "",
            "1 while a virtual machine is attached, or the port's interface is there.",
            lambda port: {"": port.attached}),
    _Metric("transmitted_frames", "counter", "frames",
            "Frames that the virtual machine transmitted, whatever became of them.",
            lambda port: {"": port.transmitted}),
    _Metric("sent_frames", "counter", "frames", "Of these: handed to the uplink or to other ports.",
            lambda port: {"": port.sent}),
    _Metric("not_sent_frames", "counter", "frames",
            "Of these: dropped, by reason: another source address than the port's (wrong_source), "
            "malformed, no space in the uplink (output_full), or not taken from an interface in "
            "time (not_taken).", _by_reason(NOT_SENT)),
    _Metric("waiting_frames", "gauge", "frames", "Of these: waiting to be scheduled.",
            lambda port: {"": port.waiting}),
    _Metric("link_bytes", "counter", "bytes",
            "Bytes on the wire that were handed to the uplink, with preamble and gap.",
            lambda port: {"": port.link_bytes}),
    _Metric("delivered_frames", "counter", "frames",
            "Frames in the virtual machine's receive ring, or handed to the interface.",
            lambda port: {"": port.delivered}),
    _Metric("lost_frames", "counter", "frames",
            "Frames for the virtual machine that were lost, by reason: no receive buffer "
            "(ring_full), longer than its buffers (too_long), none attached (no_guest).",
            _by_reason(NOT_DELIVERED)),
    _Metric("dropped_early_frames", "counter", "frames",
            "Of those that found no receive buffer: dropped before they were copied.",
            lambda port: {"": port.dropped_early}),
    _Metric("cut_offs", "counter", "", "How often a virtual machine was cut off for what it did.",
            lambda port: {"": port.cut_offs}),
)  # fmt: skip
_OF_UPLINK: Final[tuple[_Metric[UplinkStatus], ...]] = (
    _Metric("carrier", "gauge", "",
            "1 while the interface is up and has a carrier; frames wait while it does not.",
            lambda uplink: {"": uplink.carrier}),
    _Metric("received_frames", "counter", "frames",
            "Frames that arrived, also those that were dropped early or are for nobody here.",
            lambda uplink: {"": uplink.received}),
    _Metric("sent_frames", "counter", "frames", "Frames handed to the interface.",
            lambda uplink: {"": uplink.sent}),
    _Metric("retries", "counter", "",
            "How often the interface had no space for a frame, which was offered again.",
            lambda uplink: {"": uplink.retried}),
    _Metric("lost_frames", "counter", "frames",
            "Frames that arrived and found the back-end's ring full (ring_full), or were too long "
            "or could not be divided (too_long); and those that the interface refused (refused).",
            _by_reason(("ring_full", "too_long", "refused"))),
)  # fmt: skip


def netback_families(back_ends: Sequence[Status]) -> list[Family]:
    """Return the metrics of back-ends that run; none where none runs."""
    ports = [({"back_end": one.name, "port": p.name}, p) for one in back_ends for p in one.ports]
    uplinks = [
        ({"back_end": one.name, "uplink": uplink.name}, uplink)
        for one in back_ends
        for uplink in one.uplinks
    ]
    found = [*_all("port", _OF_PORT, ports), *_all("uplink", _OF_UPLINK, uplinks)]
    return [family for family in found if family.samples]


def _all(
    what: str, metrics: Iterable[_Metric[Part]], parts: Sequence[tuple[Labels, Part]]
) -> Iterable[Family]:
    for metric in metrics:
        samples: list[tuple[Labels, float]] = []
        for labels, part in parts:
            for reason, value in metric.values(part).items():
                own = {"reason": reason} if reason else {}
                samples.append(({**labels, **own}, float(value)))
        name = f"isolane_netback_{what}_{metric.name}"
        yield Family(name, metric.kind, metric.unit, metric.about, tuple(samples))
