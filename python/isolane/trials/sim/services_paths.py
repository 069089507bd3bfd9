"""The way of a frame through a container whose kernel has rules, or remembers flows."""

from __future__ import annotations

from typing import Final

from isolane.spec.hostmodel import PathData
from isolane.spec.services_models import Services
from isolane.trials.sim.more_work import with_more

STAGE: Final = "services"
CHAIN, RULE, TRACKING, NAT = "nft-chain", "nft-rule", "conntrack", "nat"
"""Costs of a profile: rules at all, each rule, the table of flows, and a new address."""


def costs_of(services: Services) -> tuple[str, ...]:
    """Return what services cost for each frame, by name; a rule is there once for each.

    The table of flows has a chain of its own, with one rule: its cost holds both.
    """
    rules = (RULE,) * services.nftables
    if services.tracks:
        return (TRACKING, *((NAT,) if services.nat else ()), *rules)
    return (CHAIN, *rules)


def serving(path: PathData, services: Services | None) -> PathData:
    """Return the path of a router with these services.

    Raises
    ------
    NotSupported
        If no stage of the path has the frame in the router's kernel.
    """
    return path if services is None else with_more(path, costs_of(services), STAGE)
