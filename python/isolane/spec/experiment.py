"""The checked experiment, with its arms and points, as the rest of Isolane uses it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Self

from pydantic import model_validator
from ruamel.yaml import YAML

from isolane.spec.addresses import misplaced
from isolane.spec.arms import Arm, not_live, resolve_arms
from isolane.spec.checks import structure
from isolane.spec.consequences import consequences
from isolane.spec.load_points import Point, resolve_points
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Contradictions


@dataclass(frozen=True)
class CapacityReference:
    """The capacity, 1x, is that of this router (the first of a group) alone, in this arm."""

    arm: Arm
    router: str


class Experiment(ExperimentData):
    """A checked experiment; no part of it needs another check."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = (*structure(self), *misplaced(self)) or consequences(self)
        if problems:
            raise Contradictions(problems)
        return self

    def resolved_arms(self) -> tuple[Arm, ...]:
        """Return the arms with all defaults filled in, in the order of the file."""
        return resolve_arms(self)

    def points(self) -> tuple[Point, ...]:
        """Return the settings of load and number of routers, in the order of the lists."""
        return resolve_points(self)

    @property
    def needs_capacity(self) -> bool:
        """Whether 1x must be measured: for loads in x, and to compare with published figures."""
        in_x = any(load.unit == "x" for loads in self.load.values() for load in loads)
        return in_x or (self.published is not None and bool(self.published.rows))

    @property
    def web(self) -> tuple[str, ...]:
        """Routers (groups) that are load balancers of web requests: all of them, or none."""
        return tuple(r.name for r in self.routers if self.traffic_of(r.name).mode == "http")

    @property
    def needs_maximum(self) -> bool:
        """Whether a router is offered as much as the generator can send."""
        return any(load.unit == "max" for loads in self.load.values() for load in loads)

    @property
    def arms_with_capacity(self) -> tuple[Arm, ...]:
        """The arms whose capacity is measured where 1x is; first the one that defines it."""
        reference = self.capacity_reference().arm
        if self.capacity is not None and not self.capacity.every_arm:
            return (reference,)
        return (reference, *(arm for arm in self.resolved_arms() if arm.name != reference.name))

    def capacity_reference(self) -> CapacityReference:
        """Return the arm and router that define 1x; default: the first router in the first arm."""
        arms = self.resolved_arms()
        choice = self.capacity
        arm = next((a for a in arms if choice and a.name == choice.arm), arms[0])
        return CapacityReference(arm, (choice and choice.router) or self.routers[0].name)

    def not_runnable_on(self, host_cores: int) -> str | None:
        """Return why the experiment cannot be run on a host with so many cores; None if it can."""
        needed = max(arm.cores for arm in self.resolved_arms()) + 1
        if self.not_runnable and host_cores < self.not_runnable.host_cores_below:
            return self.not_runnable.why
        if host_cores < needed:
            return (
                f"needs {needed} cores ({needed - 1} for the device under test and at least one to "
                f"generate and receive), and this host has {host_cores}"
            )
        return None

    def only_simulated(self) -> tuple[str, ...]:
        """Return one line for each part that cannot be run with real frames."""
        found = (
            f"arm {arm.name}: {part}"
            for arm in self.resolved_arms()
            for router in arm.routers
            if (part := not_live(router)) is not None
        )
        return tuple(dict.fromkeys(found))

    def to_yaml(self) -> str:
        """Return the experiment as a YAML file that loads as an equal one (without comments)."""
        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style = False
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        out = io.StringIO()
        yaml.dump(self.model_dump(mode="json", by_alias=True, exclude_none=True), out)
        return out.getvalue()
