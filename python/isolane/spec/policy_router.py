"""The policy of one router, with all defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from pydantic import Field

from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.fields import Weight
from isolane.spec.policy_fields import reserved_bps
from isolane.spec.policy_models import (
    CPU_KEYS,
    GUESTS,
    LINK_KEYS,
    POLICY_KEYS,
    Identity,
    PolicyKeys,
    RateMax,
    RateMaxValue,
)

DEFAULT_RATE_MAX: Final = RateMax()


class PolicyValues(SpecModel):
    """The values of one router's policy, with the defaults filled in."""

    cpu_weight: Weight = 100
    """CPU share relative to the other routers of the same cores, 1 to 10000."""
    cpu_max: p.CpuMax | None = None
    """Cap in percent of one core; None: no cap."""
    cores: p.CoreList = ()
    """Cores that do the router's work; empty: not pinned."""
    rate_min: p.PolicyRate | None = None
    """Guaranteed rate on each NIC that the router sends by, as it is written."""
    rate_max: RateMaxValue = DEFAULT_RATE_MAX
    """Ceilings by direction."""
    priority: p.Priority = 3
    """Strict priority on the link: 0 (first) to 7."""
    link_weight: p.LinkWeight = 1
    """Share of what the link has left over, relative to the other routers."""
    burst: p.Burst | None = None
    """Bytes that may exceed a rate at once; None: worked out from the rate."""
    forward: p.ForwardWord = "kernel"
    """Who forwards: kernel or xdp."""
    queue: p.QueueFrames | None = None
    """Frames that may wait for the router; None: a limit that suits how it forwards."""

    @property
    def rate_min_bps(self) -> float | None:
        """Guaranteed rate, bit/s on the wire; frames per second count as 1518 bytes each."""
        return None if self.rate_min is None else reserved_bps(self.rate_min)

    def on(self, cores: Sequence[int]) -> Self:
        """Return a copy with real core numbers in place of positions; no cores mean all of them.

        Parameters
        ----------
        cores : sequence of int
            The host's cores; the numbers in an experiment's policy are positions in this list.
        """
        mine = self.cores or range(len(cores))
        return self.model_copy(update={"cores": tuple(cores[position] for position in mine)})

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

    def of_process(
        self, pid: int, interfaces: Mapping[str, str], mac: str | None = None
    ) -> RouterPolicy:
        """Return the policy of a router that is a process with its children; see `in_netns`.

        Parameters
        ----------
        mac
            Address of what sends by its only interface; None: the interface's own.
        """
        values = {key: getattr(self, key) for key in POLICY_KEYS}
        return RouterPolicy.model_construct(
            process=pid, interfaces=dict(interfaces), mac=mac, **values
        )

    def domain(self, name: str) -> RouterPolicy:
        """Return the policy of a libvirt domain, whose frames go as they went before."""
        values = {key: getattr(self, key) for key in POLICY_KEYS}
        return RouterPolicy.model_construct(libvirt=name, interfaces={}, **values)

    def asks_for_frames(self) -> tuple[str, ...]:
        """Return the keys that say something of frames, not only of the router's CPU time."""
        given = self.as_keys().model_dump(exclude_none=True)
        return tuple(key for key in given if key not in CPU_KEYS)

    def asks_for_link(self) -> tuple[str, ...]:
        """Return the keys that a class of the link keeps."""
        return tuple(key for key in self.asks_for_frames() if key in LINK_KEYS)

    def written(self) -> dict[str, Any]:
        """Return the keys that differ from the built-in defaults, as a policy file has them."""
        return self.model_dump(
            mode="json", by_alias=True, include=set(POLICY_KEYS), exclude_defaults=True
        )


class RouterPolicy(PolicyValues, Identity):
    """A router of the policy: how it is found, and the values of its policy."""

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
    """Return the values that are given; a later one overrides an earlier one."""
    return {
        key: getattr(some, key)
        for some in keys
        if some is not None
        for key in POLICY_KEYS
        if getattr(some, key) is not None
    }


def policy_values(*keys: PolicyKeys | None) -> PolicyValues:
    """Return the values of a policy; later keys override earlier ones."""
    return PolicyValues.model_construct(**filled_in(*keys))
