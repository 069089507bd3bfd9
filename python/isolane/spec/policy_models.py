"""The data of a policy file; each value is checked by itself.

How the values fit together is checked in :mod:`isolane.spec.policy_checks`; the class to use is
:class:`isolane.spec.policy.Policy`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
    field_validator,
)

from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.fields import ArmName, LineRate, Version, Weight
from isolane.spec.problems import Refused


class RateMax(SpecModel):
    """Ceilings of a router by direction."""

    ingress: p.Limit | None = None
    """Ceiling of the frames to the router; frames above it are dropped first of all."""
    egress: p.Limit | None = None
    """Ceiling of the frames that the router sends."""


def _by_direction(value: object) -> object:
    """Return a single ceiling as that of what the router sends."""
    return value if isinstance(value, dict | RateMax) else {"egress": value}


def _as_written(value: RateMax, write: SerializerFunctionWrapHandler) -> Any:
    written = {key: rate for key, rate in write(value).items() if rate is not None}
    return written["egress"] if set(written) == {"egress"} else written


RateMaxValue = Annotated[
    RateMax,
    BeforeValidator(_by_direction, json_schema_input_type=p.Limit | RateMax),
    WrapSerializer(_as_written),
]


class PolicyKeys(SpecModel):
    """The keys of a router's policy as they are written; None for a key that is not given."""

    cpu_weight: Weight | None = None
    """CPU share relative to the other routers of the same cores, 1 to 10000; default 100."""
    cpu_max: p.CpuMax | None = None
    """Cap in percent of a core, such as 50% or 150%; default: none."""
    cores: p.CoreList | None = None
    """Cores that the router's work is done on; default: those that the host's scheduler picks."""
    rate_min: p.PolicyRate | None = None
    """Guaranteed on each NIC that the router sends by; pps are reserved as 1518-byte frames."""
    rate_max: RateMaxValue | None = None
    """Ceiling of what the router sends, or {ingress: RATE, egress: RATE}; default: none."""
    priority: p.Priority | None = None
    """Strict priority on the link: 0 (first) to 7; default 3."""
    link_weight: p.LinkWeight | None = None
    """Share of what the link has left over, 1 to 1000; default 1."""
    burst: p.Burst | None = None
    """Bytes that may exceed a rate at once, 1518B to 100MB; default: worked out from the rate."""
    forward: p.ForwardWord | None = None
    """Who forwards: kernel (the router's whole network stack) or xdp (routes only, faster)."""
    queue: p.QueueFrames | None = None
    """Frames that may wait for the router, 16 to 250; default: by its weight, 240 in bursts."""

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, value: object) -> object:
        if value is None:  # a key without a value is a mistake, and does not ask for the default
            raise Refused("nothing is given", "a value, or the key left out")
        return value


POLICY_KEYS: Final = tuple(PolicyKeys.model_fields)
"""Names of the keys, in the order of the documentation."""

CPU_KEYS: Final = ("cpu_weight", "cpu_max", "cores")
"""Those of them that the CPU scheduler keeps, wherever a router's frames come from."""

LINK_KEYS: Final = ("rate_min", "rate_max", "priority", "link_weight", "burst")
"""Those that a class of the link keeps: rates in bit/s, of what a router sends."""


class VirtualFunction(SpecModel):
    """A virtual function of an SR-IOV NIC."""

    pf: p.InterfaceName
    """The NIC's physical function, an interface of the host."""
    number: p.VfNumber
    """Number of the virtual function, from 0."""


class Identity(SpecModel):
    """How a running router is found: exactly one of these keys."""

    netns: p.Netns | None = None
    """Its network namespace, by name or path."""
    pid: p.Pid | None = None
    """Number of a process in its network namespace."""
    docker: p.ContainerName | None = None
    """Name of a Docker container."""
    podman: p.ContainerName | None = None
    """Name of a Podman container."""
    lxc: p.ContainerName | None = None
    """Name of an LXC container."""
    incus: p.ContainerName | None = None
    """Name of an Incus instance."""
    qemu: p.Pid | None = None
    """Process number of a QEMU virtual machine."""
    libvirt: p.DomainName | None = None
    """Name of a libvirt domain."""
    process: p.Pid | None = None
    """Process number of a router that is a process with its children, whatever program it is:
    User-Mode Linux, another hypervisor's machine, a program that forwards by itself."""
    interface: p.InterfaceName | None = None
    """An interface of the host that is the router's alone."""
    vf: VirtualFunction | None = None
    """A virtual function that is the router's alone: {pf: INTERFACE, number: N}."""

    def identities(self) -> dict[str, Any]:
        """Return the identities that are given, by key."""
        named = {key: getattr(self, key) for key in Identity.model_fields}
        return {key: value for key, value in named.items() if value is not None}


class RouterEntry(PolicyKeys, Identity):
    """A router of the policy, as it is written."""

    interfaces: dict[p.InterfaceName, p.InterfaceName] = Field(default_factory=dict)
    """The router's interfaces and the NICs that their frames leave by; own: a NIC, or a wire to
    another namespace, that the router has to itself; default: found."""
    mac: p.Mac | None = None
    """MAC address of a virtual machine's interface, where nobody tells it; default: found."""


class NicEntry(SpecModel):
    """An interface of the host that routers share."""

    rate_bps: LineRate | None = Field(default=None, alias="rate")
    """Link rate that shares refer to; default: the interface's speed."""
    cores: p.CoreList | None = None
    """Cores of the NIC's own thread; default: where its interrupts are."""
    steer: p.SteerWord = "software"
    """How frames are told apart: software (the XDP demultiplexer), hardware (a receive queue for
    each router, by the NIC's filters), auto (hardware as far as the NIC can), or none (frames come
    as without a policy, and what virtual machines send is known by its source address)."""


IDENTITIES: Final = tuple(Identity.model_fields)
ALONE: Final = ("interface", "vf")
"""Identities of routers that have their interface to themselves."""
OWN: Final = "own"
"""Stands for a NIC where an interface is the router's own NIC, or its own wire."""
GUESTS: Final = ("qemu", "libvirt", "process")
"""Identities of virtual machines, and of programs that forward like one."""
HIDDEN: Final = (*GUESTS, "incus", "interface")
"""Identities of possible virtual machines behind a tap, whose MAC the host does not know."""


def _or_empty(value: object) -> object:
    return {} if value is None else value


NicValue = Annotated[NicEntry, BeforeValidator(_or_empty)]


def _some(value: object) -> object:
    if isinstance(value, dict):
        if not value:
            raise Refused("no router", "at least one")
        if len(value) > p.MAX_POLICY_ROUTERS:
            raise Refused(f"{len(value)} routers", f"at most {p.MAX_POLICY_ROUTERS}")
    return value


class PolicyFile(SpecModel):
    """A policy: rates, weights and cores of each router."""

    isolane: Version
    """Version of the format: 1."""
    name: ArmName
    """Name of the policy."""
    nics: dict[p.InterfaceName, NicValue] = Field(default_factory=dict)
    """The host's interfaces whose frames the routers share."""
    defaults: PolicyKeys = Field(default_factory=PolicyKeys)
    """Keys of all routers that give none of their own."""
    routers: Annotated[dict[ArmName, RouterEntry], BeforeValidator(_some)]
    """The routers by name."""
