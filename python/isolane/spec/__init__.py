"""Experiments and policies: their files, their models, their units."""

from __future__ import annotations

from isolane.spec.arms import Arm, ArmRouter
from isolane.spec.experiment import CapacityReference, Experiment
from isolane.spec.fields import Kind, NicModel, Receive, Role, RouterPath
from isolane.spec.json_schemas import (
    json_schema,
    netback_schema_text,
    policy_schema,
    policy_schema_text,
    schema_text,
)
from isolane.spec.load_points import Point, PointRouter
from isolane.spec.loader import load_experiment, only_arms, parse_experiment
from isolane.spec.models import (
    IMIX,
    ArmChange,
    CapacityChoice,
    Dut,
    NotRunnable,
    Published,
    PublishedRow,
    Router,
    Traffic,
    TrafficOverride,
)
from isolane.spec.policy import (
    Policy,
    build_policy,
    load_policy,
    parse_policy,
    policy_text,
)
from isolane.spec.policy_fields import RateLimit
from isolane.spec.policy_models import NicEntry, RateMax, VirtualFunction
from isolane.spec.policy_router import PolicyValues, RouterPolicy
from isolane.spec.quantities import Quantity
from isolane.spec.subnets import Network, default_subnet
from isolane.spec.trial_models import DEFAULT_THRESHOLD, TrialPlan
from isolane.spec.units import (
    WIRE_OVERHEAD_BYTES,
    Load,
    format_bps,
    format_duration_ns,
    format_ns,
    format_pps,
    format_rate,
    parse_duration_ns,
    parse_duration_within,
    parse_rate,
    wire_bps,
)

__all__ = [
    "DEFAULT_THRESHOLD",
    "IMIX",
    "WIRE_OVERHEAD_BYTES",
    "Arm",
    "ArmChange",
    "ArmRouter",
    "CapacityChoice",
    "CapacityReference",
    "Dut",
    "Experiment",
    "Kind",
    "Load",
    "Network",
    "NicEntry",
    "NicModel",
    "NotRunnable",
    "Point",
    "PointRouter",
    "Policy",
    "PolicyValues",
    "Published",
    "PublishedRow",
    "Quantity",
    "RateLimit",
    "RateMax",
    "Receive",
    "Role",
    "Router",
    "RouterPath",
    "RouterPolicy",
    "Traffic",
    "TrafficOverride",
    "TrialPlan",
    "VirtualFunction",
    "build_policy",
    "default_subnet",
    "format_bps",
    "format_duration_ns",
    "format_ns",
    "format_pps",
    "format_rate",
    "json_schema",
    "load_experiment",
    "load_policy",
    "netback_schema_text",
    "only_arms",
    "parse_duration_ns",
    "parse_duration_within",
    "parse_experiment",
    "parse_policy",
    "parse_rate",
    "policy_schema",
    "policy_schema_text",
    "policy_text",
    "schema_text",
    "wire_bps",
]
