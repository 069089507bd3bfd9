"""Whose frames a policy looks at, and how what a router sends gets into its class of a link. Pure.

Where a NIC's demultiplexer gives a router its frames, a program at the router's interface puts what
it sends into its class. A virtual machine may also be left to receive as it did before (a NIC with
``steer: none``, a macvtap): then a filter of the link finds what it sends, by its MAC address. One
that is attached to a network back-end has its shares at its port there.
"""

from __future__ import annotations

from isolane.enforce.kernel_settings import uplinks
from isolane.enforce.router_facts import BackEndPort, FoundRouter, Interface
from isolane.spec.policy import Policy
from isolane.spec.policy_router import PolicyValues


def demultiplexed(policy: Policy, router: FoundRouter, at: Interface) -> bool:
    """Tell whether frames come to an interface by a queue that the policy gives the router.

    Raises
    ------
    SpecError
        As :func:`uplinks`.
    """
    if at.how not in ("veth", "tap") or not policy.nics:
        return False
    return any(policy.nics[nic].steer != "none" for nic in uplinks(policy, router, at))


def fed_by(policy: Policy, router: FoundRouter) -> Interface | None:
    """Return an interface that a kernel thread in the router's cgroup takes its frames off.

    None where the router does that itself. A container's veth counts for none, unless it leads to a
    port: the demultiplexer knows what the thread at it may use.

    Raises
    ------
    SpecError
        As :func:`uplinks`.
    """
    for at in router.interfaces:
        if at.how == "own" or at.behind is not None:
            return at.behind or at
        if router.kind == "vm" and at.how == "veth" and demultiplexed(policy, router, at):
            return at
    return None


def ports_of(policy: Policy, router: FoundRouter) -> list[BackEndPort]:
    """Return the router's ports of network back-ends whose uplinks are NICs of the policy."""
    ports = (at.port for at in router.interfaces if at.port is not None)
    return [port for port in ports if port.uplink in policy.nics]


def of_unknown_frames(policy: Policy, router: FoundRouter) -> tuple[str, ...]:
    """Return the keys that nobody keeps, since no frame of the router's can be told from others."""
    ports = (at.port for at in router.interfaces)
    known = any(port is None or port.uplink in policy.nics for port in ports)
    return () if known else policy.routers[router.name].asks_for_frames()


def filtered_on(policy: Policy, router: FoundRouter, at: Interface) -> tuple[str, ...]:
    """Return the NICs whose link knows a router's frames by their source address.

    Raises
    ------
    SpecError
        As :func:`uplinks`.
    """
    if at.how == "macvlan":
        lower = at.lower if router.kind == "vm" else None
        return (lower,) if lower is not None and lower in policy.nics else ()
    if at.how not in ("veth", "tap") or demultiplexed(policy, router, at):
        return ()
    return uplinks(policy, router, at) if policy.nics else ()


def beyond_classes(values: PolicyValues) -> tuple[tuple[str, bool], ...]:
    """Return the limits that no class of a link keeps, nor a port, and which are asked for."""
    sent = values.rate_max.egress
    return (
        ("rate_max.ingress", values.rate_max.ingress is not None),
        ("rate_max in frames/s", sent is not None and sent.pps is not None),
    )


def sends_by(policy: Policy, router: FoundRouter) -> set[str]:
    """Return the NICs whose link a router shares by a class there.

    Raises
    ------
    SpecError
        As :func:`uplinks`.
    """
    found: set[str] = set()
    for at in router.interfaces:
        found |= set(filtered_on(policy, router, at))
        if demultiplexed(policy, router, at):
            found |= set(uplinks(policy, router, at))
    return found
