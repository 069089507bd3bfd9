"""What one router is entitled to, with all defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from pydantic import Field

from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.fields import Weight
from isolane.spec.policy_fields import reserved_bps
from isolane.spec.policy_models import (
    GUESTS,
    POLICY_KEYS,
    Identity,
    PolicyKeys,
    RateMax,
    RateMaxValue,
)

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

    def as_keys(self) -> PolicyKeys:
        """Return the keys that differ from the built-in defaults, as a policy file's are read."""
        defaults = type(self).model_fields
        values = {key: getattr(self, key) for key in POLICY_KEYS}
        given = {key: value for key, value in values.items() if value != defaults[key].default}
        return PolicyKeys.model_construct(**given)

    def in_netns(self, netns: str, interfaces: Mapping[str, str]) -> RouterPolicy:
        """Return the policy of a router that is found by its network namespace.

        Parameters
        ----------
        interfaces
            The router's interfaces and the NICs that their frames leave by.
        """
        values = {key: getattr(self, key) for key in POLICY_KEYS}
        return RouterPolicy.model_construct(netns=netns, interfaces=dict(interfaces), **values)

    def written(self) -> dict[str, Any]:
        """Return the keys that differ from the built-in defaults, as a policy file has them."""
        return self.model_dump(
            mode="json", by_alias=True, include=set(POLICY_KEYS), exclude_defaults=True
        )


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
