"""The metrics of the policy in force: names, units, meaning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from isolane import __version__
from isolane.enforce import sampling
from isolane.enforce.enforcer import Enforcer
from isolane.enforce.host_access import Host
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import RouterSample, Sample
from isolane.spec.policy import Policy

Kind = Literal["counter", "gauge", "info"]
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """A metric with all its samples."""

    name: str
    """Without the ``_total`` and ``_info`` that samples of counters and infos end in."""
    kind: Kind
    unit: str
    """Unit, in which the name ends; empty: a number without a unit."""
    about: str
    samples: tuple[tuple[Labels, float], ...]


@dataclass(frozen=True)
class Reading:
    """The state of the policy in force at one moment."""

    policy: str
    applied_at: str | None
    sample: Sample
    drifted: int | None
    """Number of settings that differ in the kernel from the policy; None: not checked."""


@dataclass(frozen=True)
class _OfRouter:
    """A metric of each router."""

    name: str
    kind: Kind
    unit: str
    about: str
    label: str | None
    """Label that distinguishes the values of one router; None: there is one value."""
    values: Callable[[RouterSample], Mapping[str, float]]


def _one(value: float) -> Mapping[str, float]:
    return {"": value}


_OF_ROUTER: Final = (
    _OfRouter("present", "gauge", "", "1 when the router runs, 0 when the policy waits for it.",
              None, lambda r: _one(r.present)),
    _OfRouter("offered_frames", "counter", "frames", "Frames that arrived for the router.",
              None, lambda r: _one(r.offered)),
    _OfRouter("offered_bytes", "counter", "bytes",
              "Bytes of the frames that arrived for the router, with the frame check sequence.",
              None, lambda r: _one(r.offered_bytes)),
    _OfRouter("served_frames", "counter", "frames", "Frames that the router took from its queues.",
              None, lambda r: _one(r.served)),
    _OfRouter("forwarded_frames", "counter", "frames", "Frames that the router sent.",
              None, lambda r: _one(r.forwarded)),
    _OfRouter("forwarded_bytes", "counter", "bytes",
              "Bytes of the frames that the router sent, with the frame check sequence.",
              None, lambda r: _one(r.forwarded_bytes)),
    _OfRouter("dropped_frames", "counter", "frames",
              "Frames dropped above rate_max (rate_in, rate_out) or cpu_max (cpu), at a full queue "
              "or link class (queue, link), while another router was behind it (share), too long "
              "for the next interface (size), lost by the kernel after XDP had sent them on "
              "(redirect).",
              "place", lambda r: r.dropped),
    _OfRouter("queue_frames", "gauge", "frames", "Frames in the router's queues.",
              None, lambda r: _one(r.waiting)),
    _OfRouter("queue_limit_frames", "gauge", "frames", "Frames that fit into the router's queues.",
              None, lambda r: _one(r.queue_limit)),
    _OfRouter("cpu_seconds", "counter", "seconds", "CPU time of the router's threads.",
              None, lambda r: _one(r.cpu_ns / 1e9)),
    _OfRouter("nic_cpu_seconds", "counter", "seconds",
              "CPU time that its frames, dropped ones included, cost the NICs' threads; missing "
              "where the router does not pay for it.",
              None, lambda r: {} if r.nic_cpu_ns is None else _one(r.nic_cpu_ns / 1e9)),
    _OfRouter("cores", "gauge", "cores", "Cores that the router's threads may run on.",
              None, lambda r: _one(len(r.cores) or os.cpu_count() or 1)),
    _OfRouter("cpu_entitled_ratio", "gauge", "ratio",
              "Fair share of the router's cores when all routers that run want more, 0 to 1; "
              "missing where routers share only a part of their cores.",
              None, lambda r: {} if r.cpu_fair_share is None else _one(r.cpu_fair_share)),
    _OfRouter("link_bytes", "counter", "bytes",
              "Bytes on the wire that the router sent by a NIC, with preamble and gap.",
              "nic", lambda r: r.link_bytes),
    _OfRouter("link_entitled_ratio", "gauge", "ratio",
              "Fair share of the link when all routers that run want more, 0 to 1.",
              "nic", lambda r: r.link_fair_share),
)  # fmt: skip


def read(enforcer: Enforcer, *, drift: bool = False) -> Reading | None:
    """Read the counters of the policy in force; None when there is none.

    Parameters
    ----------
    drift
        Also compare each setting with the kernel; that takes as long as `isolane status`.
    """

    def work(host: Host, state: State, policy: Policy) -> Reading:
        applied_at = state.about.get("applied_at")
        return Reading(policy.name, applied_at, sampling.take(host, state, policy), None)

    reading = enforcer.look(work)
    if reading is None or not drift:
        return reading
    return replace(reading, drifted=len(enforcer.status().drift))


def families(reading: Reading | None) -> list[Family]:
    """Return all metrics; without a policy in force only those that say so.

    Returns
    -------
    list of Family
        Families without a sample are left out.
    """
    found = [
        _info("build", "Version of Isolane.", {"version": __version__}),
        _single("policy_in_force", "", "1 when a policy is in force.", reading is not None),
    ]
    if reading is not None:
        found += [*_of_policy(reading), *_of_routers(reading.sample.routers)]
        busy = tuple(
            ({"core": str(core)}, spent / 1e9)
            for core, spent in sorted(reading.sample.cores.items())
        )
        about = "Busy time of a core of the policy since boot."
        found.append(Family("isolane_core_busy_seconds", "counter", "seconds", about, busy))
        rates = tuple(({"nic": nic}, float(rate)) for nic, rate in reading.sample.links.items())
        unit, about = "bytes_per_second", "Rate of a link that the routers share."
        found.append(Family(f"isolane_link_rate_{unit}", "gauge", unit, about, rates))
    return [family for family in found if family.samples]


def _single(name: str, unit: str, about: str, value: float) -> Family:
    return Family(f"isolane_{name}", "gauge", unit, about, (({}, float(value)),))


def _info(name: str, about: str, labels: Labels) -> Family:
    return Family(f"isolane_{name}", "info", "", about, ((labels, 1.0),))


def _of_policy(reading: Reading) -> Iterable[Family]:
    yield _info("policy", "Name of the policy in force.", {"policy": reading.policy})
    with suppress(TypeError, ValueError):  # unknown, or written by another version
        when = datetime.fromisoformat(reading.applied_at or "").timestamp()
        about = "When the policy was applied."
        yield _single("policy_applied_timestamp_seconds", "seconds", about, when)
    if reading.drifted is not None:
        about = "Settings that differ in the kernel from the policy."
        yield _single("policy_drifted_settings", "settings", about, reading.drifted)


def _of_routers(routers: Iterable[RouterSample]) -> Iterable[Family]:
    everyone = tuple(routers)
    for metric in _OF_ROUTER:
        samples: list[tuple[Labels, float]] = []
        for router in everyone:
            for key, value in metric.values(router).items():
                own = {} if metric.label is None else {metric.label: key}
                samples.append(({"router": router.name, **own}, float(value)))
        name = f"isolane_router_{metric.name}"
        yield Family(name, metric.kind, metric.unit, metric.about, tuple(samples))
