"""Policies put on running routers: CPU share, rate and priority for each, on a stock kernel."""

from isolane.enforce.enforcer import POLICY_DIR, Enforcer, InForce, Outcome
from isolane.enforce.find import find_routers
from isolane.enforce.router_facts import (
    FoundRouter,
    Interface,
    MissingRouter,
    RouterSample,
    Sample,
)
from isolane.enforce.router_status import RouterStatus
from isolane.enforce.transaction import Drift

__all__ = [
    "POLICY_DIR",
    "Drift",
    "Enforcer",
    "FoundRouter",
    "InForce",
    "Interface",
    "MissingRouter",
    "Outcome",
    "RouterSample",
    "RouterStatus",
    "Sample",
    "find_routers",
]
