"""Notes of apply and status: where this host loses frames or does not treat them as expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from isolane.enforce.kernel_settings import uplinks
from isolane.enforce.link_members import demultiplexed, of_unknown_frames, ports_of
from isolane.enforce.nic_features import ONE_PART_BYTES, Nic
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.enforce.steering import key, steer
from isolane.errors import NotSupported, SpecError
from isolane.spec.policy import Policy


def notes(
    policy: Policy,
    found: Sequence[FoundRouter],
    nics: Mapping[str, Nic],
    shared: Collection[str],
) -> tuple[str, ...]:
    """Return sentences on frames that are lost or not handled as the policy says, with the remedy.

    Parameters
    ----------
    shared
        NICs whose link the routers share by class.
    """
    told = [f"{name}: there is no such interface now" for name in policy.nics if name not in nics]
    told += [note for nic in nics.values() for note in _of_nic(nic)]
    told += _in_software(policy, found, nics)
    for router in found:
        told += _of_ports(policy, router)
        if policy.routers[router.name].forward == "xdp":
            told += _not_by_xdp(router, nics)
        for at in router.interfaces:
            if at.how in ("veth", "tap"):
                told += _of_interface(policy, router, at, nics, shared)
    return tuple(dict.fromkeys(told))


def without_numbers(untagged: Mapping[str, int]) -> tuple[str, ...]:
    """Return a sentence on each router whose queues nobody can count: frames that got no number."""
    return tuple(
        f"{name}: the driver of a NIC leaves no place for metadata before frames, so nobody counts "
        "what waits in its queue: the queue limit, cpu_max and forward: xdp do not hold for what "
        "comes by that NIC"
        for name, frames in untagged.items()
        if frames
    )


def _of_nic(nic: Nic) -> Iterator[str]:
    if nic.kind == "veth" and nic.peer is None:
        yield (
            f"{nic.name}: its other end is in a network namespace that cannot be entered from "
            "here. Isolane fills in the checksums that it leaves out of TCP and UDP, but tunnels, "
            "SCTP and VLANs do not work; run ethtool -K NAME tx off txvlan off there"
        )
    if nic.kind == "tun":
        yield (
            f"{nic.name} is a tap: merged segments (TSO) from its program are dropped; switch "
            "offloads off in that program (TUNSETOFFLOAD 0)"
        )
    if not nic.runs_xdp:
        yield (
            f"{nic.name}: its driver does not run XDP, so frames reach their router's queue only "
            "after the kernel has received them; the ones that wait there are not counted"
        )


def _in_software(
    policy: Policy, found: Sequence[FoundRouter], nics: Mapping[str, Nic]
) -> Iterator[str]:
    """Say of which routers the NIC's filters do not tell frames, although they might."""
    with suppress(NotSupported, SpecError):  # a NIC has changed; apply says so
        why_not = steer(policy, found, nics).why_not
        for router in found:
            for at in router.interfaces:
                for nic in policy.nics:
                    if reason := why_not.get(key(nic, at)):
                        yield f"{router.name}: no receive queue of its own on {nic}: {reason}"


def _not_by_xdp(router: FoundRouter, nics: Mapping[str, Nic]) -> Iterator[str]:
    without = [nic.name for nic in nics.values() if not nic.runs_xdp]
    if without:
        yield (
            f"{router.name}: frames from {', '.join(without)} are forwarded by the kernel, not by "
            "XDP, because the driver does not run XDP"
        )


def _of_ports(policy: Policy, router: FoundRouter) -> Iterator[str]:
    """Say what a machine without a known interface loses, and what one with several ports gets."""
    if unknown := of_unknown_frames(policy, router):
        yield (
            f"{router.name}: {', '.join(unknown)} not kept: it has no tap or macvtap, and is "
            "attached to no port of a network back-end whose uplink is under nics"
        )
    uplinks = [(port.back_end, port.uplink) for port in ports_of(policy, router)]
    for back_end, uplink in dict.fromkeys(uplinks):
        if (ports := uplinks.count((back_end, uplink))) > 1:
            yield (
                f"{router.name}: {ports} ports of network back-end {back_end} on {uplink}, each "
                "with the router's shares of it"
            )


def _of_interface(
    policy: Policy,
    router: FoundRouter,
    at: Interface,
    nics: Mapping[str, Nic],
    shared: Collection[str],
) -> Iterator[str]:
    whose, outer = f"{router.name} ({at.ifname})", at.host_ifname
    if at.how == "veth" and at.mtu < at.host_mtu:
        yield (
            f"{whose}: its MTU is {at.mtu}, but {outer} sends it packets of up to "
            f"{at.host_mtu} bytes, and the longer ones are lost; give both the same MTU"
        )
    names: tuple[str, ...] = ()
    by_queue = True
    with suppress(SpecError):  # it has left its bridge meanwhile
        names, by_queue = uplinks(policy, router, at), demultiplexed(policy, router, at)
    for nic in (nics[name] for name in names if name in nics):
        if nic.mtu > at.host_mtu and by_queue:
            yield (
                f"{whose}: {nic.name} receives packets of up to {nic.mtu} bytes, but the MTU of "
                f"{outer} is {at.host_mtu}: longer ones are dropped (counted as `size`)"
            )
        if at.mtu > nic.mtu and at.how == "veth":
            yield (
                f"{whose}: sends packets of up to {at.mtu} bytes, but the MTU of {nic.name} is "
                f"{nic.mtu}: longer ones are dropped; run ip link set {at.ifname} mtu {nic.mtu}"
            )
        if at.how == "tap" and nic.mtu > ONE_PART_BYTES and by_queue:
            fate = f"go through {at.bridge}" if at.bridge else "are lost"
            yield (
                f"{whose}: a tap takes no frames of several buffers from XDP; the jumbo frames "
                f"that {nic.name} receives so {fate}"
            )
        if (at.how == "tap" or not by_queue) and nic.name in shared:
            yield (
                f"{whose}: the classes of {nic.name} count merged segments (TSO) of the guest as "
                "one frame, so its share comes out too large; run ethtool -K NAME tso off in the "
                "guest"
            )
