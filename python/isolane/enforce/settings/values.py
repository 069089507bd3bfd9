"""Values of settings: records in the program, objects with named keys in the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isolane._native import CpuBudget, PortSettings, QueueSettings, RateLimits, TokenBucket
from isolane.enforce.setting import Value


def plain(record: Any) -> Value:
    """Return a record of the native module as JSON has it: an object with named keys."""
    if not hasattr(record, "as_dict"):
        return record
    return {name: plain(value) for name, value in record.as_dict().items()}


def named(value: Value, names: Iterable[str]) -> dict[str, Any]:
    """Return the parts of a value by name; earlier versions wrote lists, in this order."""
    return dict(zip(names, value, strict=True)) if isinstance(value, list) else dict(value)


def rate_limits(value: Value) -> RateLimits:
    """Make the record again."""
    parts = named(value, ("frames", "bits"))
    return RateLimits(
        **{name: TokenBucket(**named(bucket, ("rate", "depth"))) for name, bucket in parts.items()}
    )


def queue_settings(value: Value) -> QueueSettings:
    """Make the record again."""
    parts = named(value, ("limit", "burst_limit", "xdp", "counted", "budget", "ingress"))
    return QueueSettings(**parts | {"ingress": rate_limits(parts["ingress"])})


def port_settings(value: Value) -> PortSettings:
    """Make the record again."""
    parts = named(value, ("uplink", "class_id", "egress"))
    return PortSettings(**parts | {"egress": rate_limits(parts["egress"])})


def cpu_budget(value: Value) -> CpuBudget:
    """Make the record again."""
    if isinstance(value, list) and len(value) == 2:  # of a version that knew no weight
        value = [*value, 0]
    return CpuBudget(**named(value, ("rate_ns", "depth_ns", "weight")))
