"""What a router's policy comes to at its sending port of a network back-end."""

from __future__ import annotations

from typing import Final

from isolane.spec.policy_router import PolicyValues
from isolane.spec.schedulers import KEYS, PortKey, SchedulerName
from isolane.spec.units import Load, format_rate

POLICY_KEYS: Final[dict[PortKey, str]] = {
    "weight": "link_weight",
    "priority": "priority",
    "rate_min": "rate_min",
    "rate_max": "rate_max",
}
"""Key of a port -> the key of a policy that stands for it."""


def port_keys_of(scheduler: SchedulerName) -> tuple[str, ...]:
    """Return the keys of a policy that a scheduler looks at."""
    return tuple(POLICY_KEYS[key] for key in KEYS[scheduler])


def port_keys(policy: PolicyValues | None, scheduler: SchedulerName) -> dict[str, int | str]:
    """Return the keys of a router's port as the back-end's file has them.

    A router without a policy has the defaults of one, so that it is neither before nor behind one
    that has a policy without these keys.
    """
    values = policy or PolicyValues()
    rate_max = values.rate_max.egress
    all_keys: dict[PortKey, int | float | None] = {
        "weight": values.link_weight,
        "priority": values.priority,
        "rate_min": values.rate_min_bps,
        "rate_max": rate_max.bps if rate_max is not None else None,
    }
    looked_at = {key: all_keys[key] for key in KEYS[scheduler]}
    return {
        key: format_rate(Load(value, "bps")) if key.startswith("rate") else int(value)
        for key, value in looked_at.items()
        if value is not None
    }


def without_port_keys(policy: PolicyValues) -> PolicyValues:
    """Return what of a policy is left for the host where a back-end keeps these keys."""
    return policy.model_copy(
        update={key: PolicyValues.model_fields[key].default for key in POLICY_KEYS.values()}
    )
