"""Counters of the ports of network back-ends whose shares are the policy's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from isolane.enforce.back_end_checks import uplink_rate_bps
from isolane.enforce.policy_state import State
from isolane.enforce.setting import from_key
from isolane.enforce.settings import PortShares
from isolane.errors import MeasurementError, TestbedError
from isolane.netback import PortStatus, Status, status_of
from isolane.spec.policy import Policy


@dataclass
class PortSamples:
    """What the ports of each router have sent by now."""

    link_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Router -> NIC -> bytes on the wire, with preamble and gap."""
    lost: dict[str, int] = field(default_factory=dict)
    """Router -> frames for which the uplink had no space."""
    rates_bps: dict[str, float] = field(default_factory=dict)
    """NIC -> rate of the link, where the back-end or the policy says it."""
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """NIC -> routers."""


def look(state: State, policy: Policy) -> PortSamples:
    """Ask the back-ends; one that has ended has no counters."""
    found = PortSamples()
    members: dict[str, list[str]] = defaultdict(list)
    for router, uplink, port, status in _ports(state):
        rates = (one.rate for one in status.uplinks if one.name == uplink)
        entry = policy.nics.get(uplink)
        rate = uplink_rate_bps(next(rates, None)) or (entry.rate_bps if entry else None)
        if rate:
            found.rates_bps[uplink] = rate
        sent = found.link_bytes.setdefault(router, {})
        sent[uplink] = sent.get(uplink, 0) + port.link_bytes
        found.lost[router] = found.lost.get(router, 0) + port.output_full
        if router not in members[uplink]:
            members[uplink].append(router)
    found.members = {nic: tuple(names) for nic, names in members.items()}
    return found


def _ports(state: State) -> Iterator[tuple[str, str, PortStatus, Status]]:
    """Yield router, uplink, the port and its back-end, of each whose shares are the policy's."""
    asked: dict[str, Status | None] = {}
    for key, done in state.applied.items():
        setting = from_key(key)
        if not isinstance(setting, PortShares):
            continue
        if setting.back_end not in asked:
            asked[setting.back_end] = None
            with suppress(TestbedError, MeasurementError):
                asked[setting.back_end] = status_of(setting.back_end)
        status = asked[setting.back_end]
        if status is not None and status.process == setting.process:
            for port in status.ports:
                if port.name == setting.port:
                    yield done.router, setting.uplink, port, status
