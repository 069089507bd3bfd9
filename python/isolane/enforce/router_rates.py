"""Works out rates and shares of routers from two samples of their counters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from isolane.enforce.router_facts import RouterSample, Sample

_NONE = RouterSample("", present=False)
_KEYS: Final = {
    "queue_limit": "room",
    "cpu_fair_share": "cpu_entitled",
    "link_fair_share": "link_entitled",
}
"""Fields of :class:`RouterRates` that have another key in ``isolane top --json``."""


@dataclass(frozen=True)
class RouterRates:
    """Rates and shares of a router between two samples, and its fair shares."""

    name: str
    present: bool
    offered_pps: float
    """Frames that arrived for it."""
    forwarded_pps: float
    dropped_pps: dict[str, float]
    """Drop point (``queue``, ``share``, ``rate_in``, ``cpu``, ``rate_out``, ``size``,
    ``redirect``, ``link``) -> frames per second dropped there."""
    waiting: int
    """Frames in its queues at the second sample."""
    queue_limit: int
    """Queue limit: frames that may wait there."""
    cpu_share: float
    """CPU time used, as a share of the cores that it may use, 0..1."""
    cpu_fair_share: float | None
    """Its fair share of them; None: there is no such figure (see :class:`RouterSample`)."""
    nic_cpu_share: float | None
    """CPU time that its frames cost the NICs' threads, as such a share; None: it does not pay."""
    link_bps: dict[str, float]
    """NIC -> bit/s on the wire, with preamble and gap."""
    link_share: dict[str, float]
    """NIC -> share of the link, 0..1."""
    link_fair_share: dict[str, float]


@dataclass(frozen=True)
class Rates:
    """Rates and shares of all routers between two samples."""

    seconds: float
    routers: tuple[RouterRates, ...]
    cores: dict[int, float]
    """Core of the policy -> share of the time that it was busy, 0..1."""

    def as_data(self) -> dict[str, Any]:
        """Return all fields by the keys of ``isolane top --json``, which never change."""
        data = asdict(self)
        data["routers"] = [
            {_KEYS.get(name, name): value for name, value in router.items()}
            for router in data["routers"]
        ]
        return data


def rates(before: Sample, after: Sample, host_cores: int) -> Rates:
    """Return rates and shares between two samples.

    A counter that has decreased, because its router or thread has restarted, counts as 0.

    Parameters
    ----------
    host_cores
        Number of cores of the host, all of which a router that is not pinned may use.
    """
    seconds = max(1, after.at_ns - before.at_ns) / 1e9
    earlier = {router.name: router for router in before.routers}
    return Rates(
        seconds=seconds,
        routers=tuple(
            _of_router(earlier.get(router.name, _NONE), router, seconds, after.links, host_cores)
            for router in after.routers
        ),
        cores={
            core: min(1.0, _per_second(before.cores.get(core, busy), busy, seconds) / 1e9)
            for core, busy in after.cores.items()
        },
    )


def _per_second(before: int, after: int, seconds: float) -> float:
    return max(0, after - before) / seconds


def _of_router(
    before: RouterSample,
    after: RouterSample,
    seconds: float,
    links: dict[str, int],
    host_cores: int,
) -> RouterRates:
    known = before.present  # a router that has just come has no counters of this interval
    first = before if known else after
    link_bps = {
        nic: 8 * _per_second(first.link_bytes.get(nic, count), count, seconds)
        for nic, count in after.link_bytes.items()
    }
    own_cores = len(after.cores) or host_cores
    nic_ns = after.nic_cpu_ns
    return RouterRates(
        name=after.name,
        present=after.present,
        offered_pps=_per_second(first.offered, after.offered, seconds),
        forwarded_pps=_per_second(first.forwarded, after.forwarded, seconds),
        dropped_pps={
            point: _per_second(first.dropped.get(point, count), count, seconds)
            for point, count in after.dropped.items()
        },
        waiting=after.waiting,
        queue_limit=after.queue_limit,
        cpu_share=_per_second(first.cpu_ns, after.cpu_ns, seconds) / 1e9 / own_cores,
        cpu_fair_share=after.cpu_fair_share,
        nic_cpu_share=None
        if nic_ns is None
        else _per_second(first.nic_cpu_ns or 0, nic_ns, seconds) / 1e9 / own_cores,
        link_bps=link_bps,
        link_share={nic: bps / 8 / links[nic] for nic, bps in link_bps.items() if links.get(nic)},
        link_fair_share=after.link_fair_share,
    )
