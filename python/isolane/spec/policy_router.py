"""What one router is entitled to, with all defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from isolane.errors import SpecError
from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.explain import problems_of
from isolane.spec.fields import Weight
from isolane.spec.policy_checks import of_one_router
from isolane.spec.policy_fields import reserved_bps
from isolane.spec.policy_models import (
    GUESTS,
    POLICY_KEYS,
    Identity,
    PolicyKeys,
    RateMax,
    RateMaxValue,
)
from isolane.spec.problems import Problem, listed, nearest, show

DEFAULT_RATE_MAX: Final = RateMax()


class Entitlement(SpecModel):
    """What a router is entitled to; the values of the policy with its defaults filled in."""

    cpu_weight: Weight = 100
    """CPU share relative to the other routers of the same cores, 1 to 10000."""
    cpu_max: p.CpuMax | None = None
    """Cap in percent of one core; None: no cap."""
    cores: p.CoreList = ()
    """Cores that the router's work is done on; empty: not pinned."""
    rate_min: p.PolicyRate | None = None
    """Guaranteed on each NIC that the router sends by, as it is written."""
    rate_max: RateMaxValue = DEFAULT_RATE_MAX
    """Ceilings by direction."""
    priority: p.Priority = 3
    """On the link: 0 (first) to 7."""
    link_weight: p.LinkWeight = 1
    """Share of what the link has left over, relative to the other routers."""
    burst: p.Burst | None = None
    """Bytes that may exceed a rate at once; None: to be worked out from the rate."""
    forward: p.ForwardWord = "kernel"
    """Who forwards."""
    queue: p.QueueFrames | None = None
    """Frames that may wait for the router; None: what suits how it forwards."""

    @property
    def rate_min_bps(self) -> float | None:
        """Guaranteed rate, bit/s on the wire; frames per second count as 1518 bytes each."""
        return None if self.rate_min is None else reserved_bps(self.rate_min)

    def on(self, cores: Sequence[int]) -> Self:
        """Return a copy whose cores are those of a list, by their places in it; all for none.

        Parameters
        ----------
        cores : sequence of int
            The host's cores; numbers in an experiment's policy are places in this list.
        """
        mine = self.cores or range(len(cores))
        return self.model_copy(update={"cores": tuple(cores[place] for place in mine)})

    def written(self) -> dict[str, Any]:
        """Return the keys that differ from the built-in defaults, as a policy file has them."""
        return self.model_dump(
            mode="json", by_alias=True, include=set(POLICY_KEYS), exclude_defaults=True
        )

    def with_changes(self, changes: Mapping[str, str]) -> Self:
        """Return a copy with some keys changed; ``none`` puts a key back to its default.

        Parameters
        ----------
        changes : Mapping
            Key to value as on the command line: ``{"cpu_weight": "300", "cores": "1,2"}``.
            Values are read as in a policy file, so ``{egress: 1Gbps}`` stands for a mapping.

        Raises
        ------
        SpecError
            If a key is unknown or cannot be changed, a value is not accepted, or the values do not
            fit together: all that is wrong, one problem a line.
        """
        wrong = [_unknown(key, changes[key]) for key in changes if key not in POLICY_KEYS]
        values = {key: _value(changes[key]) for key in changes if key in POLICY_KEYS}
        given = {key: value for key, value in values.items() if value is not None}
        try:
            read = PolicyKeys.model_validate(given)
        except ValidationError as error:
            wrong += [_told(problem, changes) for problem in problems_of(error, PolicyKeys)]
        if wrong:
            raise SpecError("\n".join(wrong))
        update = {
            key: getattr(read, key) if key in given else type(self).model_fields[key].default
            for key in values
        }
        changed = self.model_copy(update=update)
        told = [_told(problem, changes) for problem in of_one_router((), changed)]
        if told:
            raise SpecError("\n".join(told))
        return changed


class RouterPolicy(Entitlement, Identity):
    """A router of the policy: how it is found and what it is entitled to."""

    interfaces: dict[p.InterfaceName, p.InterfaceName] = Field(default_factory=dict)
    """The router's interfaces and the NICs that their frames leave by, where the policy says."""
    mac: p.Mac | None = None
    """MAC address of the guest, where the policy says."""

    @property
    def identity(self) -> tuple[str, Any]:
        """Return key and value of how the router is found, such as ``("netns", "vr1")``."""
        return next(iter(self.identities().items()))

    @property
    def is_guest(self) -> bool:
        """Whether it is a virtual machine."""
        return self.identity[0] in GUESTS


def filled_in(*keys: PolicyKeys | None) -> dict[str, Any]:
    """Return the values that are given, a later one before an earlier one."""
    return {
        key: getattr(some, key)
        for some in keys
        if some is not None
        for key in POLICY_KEYS
        if getattr(some, key) is not None
    }


def entitlement(*keys: PolicyKeys | None) -> Entitlement:
    """Return what keys amount to, a later one before an earlier one, the rest by default."""
    return Entitlement.model_construct(**filled_in(*keys))


def _value(text: str) -> object:
    """Return the value that a text on the command line stands for; None for the default."""
    if text.strip() in {"", "none"}:
        return None
    if "," in text and text.lstrip()[0] not in "[{":
        text = f"[{text}]"
    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError):
        return text  # what it should be is said by the check of the key


def _unknown(key: str, text: str) -> str:
    if key in Identity.model_fields or key in ("interfaces", "mac"):
        what = f"{key} is how the router is found and cannot be set"
        return f"{key}={text}: {what}; accepted: {listed(POLICY_KEYS)}"
    known = listed(POLICY_KEYS) + nearest(key, POLICY_KEYS)
    return f"{key}={text}: unknown key {show(key)}; accepted: {known}"


def _told(problem: Problem, changes: Mapping[str, str]) -> str:
    key = str(problem.loc[0]) if problem.loc else ""
    shown = f"{key}={changes[key]}" if key in changes else key
    return f"{shown}: {problem}" if shown else str(problem)
