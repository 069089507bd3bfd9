"""What the ports of a network back-end did between two looks at its counters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from isolane.netback.control import PortStatus, Status

NOT_SENT: Final = ("wrong_source", "malformed", "output_full", "not_taken")
"""Why a frame that a guest transmitted was not sent."""
NOT_DELIVERED: Final = ("ring_full", "too_long", "no_guest")
"""Why a frame for a guest does not lie in its ring."""
_BY_WEIGHT: Final = ("drr", "wfq")
"""Schedulers that share bytes by weight alone."""


@dataclass(frozen=True)
class PortRates:
    """A port in one interval; rates in frames/s."""

    name: str
    uplink: str
    attached: bool
    transmitted_pps: float
    sent_pps: float
    not_sent_pps: dict[str, float]
    """By reason, see :data:`NOT_SENT`."""
    waiting: int
    """Frames that the scheduler knows of, now; the rest waits in the guest's ring."""
    delivered_pps: float
    lost_pps: dict[str, float]
    """By reason, see :data:`NOT_DELIVERED`."""
    link_bps: float
    """Sent by the uplink, bit/s on the wire."""
    link_share: float | None
    """Share of all that the uplink sent, 0 to 1; None where it sent nothing."""
    fair_share: float | None
    """Share that it gets when all ports with a guest send more; None where no weight says so."""


@dataclass(frozen=True)
class BackEndRates:
    """A back-end in one interval."""

    name: str
    seconds: float
    ports: tuple[PortRates, ...]

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


def port_rates(before: Status, after: Status, seconds: float) -> BackEndRates | None:
    """Return what became of the frames between two looks, which are ``seconds`` apart.

    None where the back-end was started anew meanwhile, with counters that begin at 0.
    """
    names = [[port.name for port in status.ports] for status in (before, after)]
    if names[0] != names[1]:
        return None
    pairs = tuple(zip(before.ports, after.ports, strict=True))
    if any(new.transmitted < old.transmitted for old, new in pairs):
        return None
    sent_bytes: dict[str, int] = {}
    for old, new in pairs:
        by_port = new.link_bytes - old.link_bytes
        sent_bytes[new.uplink] = sent_bytes.get(new.uplink, 0) + by_port
    fair_shares = _fair_shares(after)
    return BackEndRates(
        after.name,
        seconds,
        tuple(
            _of(old, new, seconds, sent_bytes[new.uplink], fair_shares.get(new.name))
            for old, new in pairs
        ),
    )


def _of(
    old: PortStatus, new: PortStatus, seconds: float, all_bytes: int, fair_share: float | None
) -> PortRates:
    def pps(key: str) -> float:
        return float(getattr(new, key) - getattr(old, key)) / seconds

    own_bytes = new.link_bytes - old.link_bytes
    return PortRates(
        name=new.name,
        uplink=new.uplink,
        attached=new.attached,
        transmitted_pps=pps("transmitted"),
        sent_pps=pps("sent"),
        not_sent_pps={key: pps(key) for key in NOT_SENT},
        waiting=new.waiting,
        delivered_pps=pps("delivered"),
        lost_pps={key: pps(key) for key in NOT_DELIVERED},
        link_bps=8 * own_bytes / seconds,
        link_share=own_bytes / all_bytes if all_bytes else None,
        fair_share=fair_share,
    )


def _fair_shares(status: Status) -> dict[str, float]:
    """Return the shares by weight of the ports whose scheduler goes by it."""
    shares: dict[str, float] = {}
    for uplink in status.uplinks:
        if uplink.scheduler in _BY_WEIGHT:
            there = [p for p in status.ports if p.uplink == uplink.name and p.attached]
            weights = {port.name: port.shares["weight"] for port in there}
            shares |= {name: weight / sum(weights.values()) for name, weight in weights.items()}
    return shares
