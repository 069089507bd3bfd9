"""What of a policy's host works otherwise than one may think: sentences for apply and status."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from isolane.enforce.kernel_settings import uplinks
from isolane.enforce.nic_features import ONE_PART_BYTES, Nic
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.errors import SpecError
from isolane.spec.policy import Policy


def notes(
    policy: Policy,
    found: Sequence[FoundRouter],
    nics: Mapping[str, Nic],
    shared: Collection[str],
) -> tuple[str, ...]:
    """Return where frames are lost, or not treated as the policy says, and what to do about it.

    Parameters
    ----------
    shared
        NICs whose link is shared out.
    """
    told = [note for nic in nics.values() for note in _of_nic(nic)]
    for router in found:
        if policy.routers[router.name].forward == "xdp":
            told += _not_by_xdp(router, nics)
        for at in router.interfaces:
            if at.how in ("veth", "tap"):
                told += _of_interface(policy, router, at, nics, shared)
    return tuple(dict.fromkeys(told))


def _of_nic(nic: Nic) -> Iterator[str]:
    if nic.kind == "veth" and nic.peer is None:
        yield (
            f"{nic.name}: its other end is in a network namespace that cannot be entered from "
            "here; TCP and UDP from there get the checksums that it leaves out, but tunnels, SCTP "
            "and VLANs do not work unless it does that itself: run ethtool -K NAME tx off txvlan "
            "off there"
        )
    if nic.kind == "tun":
        yield (
            f"{nic.name} is a tap: segments that its program hands over merged are dropped; switch "
            "that off there (TUNSETOFFLOAD 0)"
        )
    if not nic.runs_xdp:
        yield (
            f"{nic.name}: its driver does not run XDP: frames reach their router's queue only "
            "after the kernel has received them, and what waits there is not counted"
        )


def _not_by_xdp(router: FoundRouter, nics: Mapping[str, Nic]) -> Iterator[str]:
    without = [nic.name for nic in nics.values() if not nic.runs_xdp]
    if without:
        yield (
            f"{router.name}: what comes by {', '.join(without)} is forwarded by the kernel, not by "
            "XDP, which its driver does not run"
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
            f"{whose}: takes packets of {at.mtu} bytes, but {outer} hands over up to "
            f"{at.host_mtu}, and longer ones are lost; give both the same MTU"
        )
    names: tuple[str, ...] = ()
    with suppress(SpecError):  # it has left its bridge since
        names = uplinks(policy, router, at)
    for nic in (nics[name] for name in names if name in nics):
        if nic.mtu > at.host_mtu:
            yield (
                f"{whose}: {nic.name} brings packets of up to {nic.mtu} bytes, {outer} takes "
                f"{at.host_mtu}: longer ones are dropped (counted as `size`)"
            )
        if at.mtu > nic.mtu and at.how == "veth":
            yield (
                f"{whose}: sends packets of up to {at.mtu} bytes, {nic.name} takes {nic.mtu}: "
                f"longer ones are dropped; ip link set {at.ifname} mtu {nic.mtu}"
            )
        if at.how == "tap" and nic.mtu > ONE_PART_BYTES:
            way = f"go by {at.bridge}" if at.bridge else "are lost"
            yield (
                f"{whose}: a tap takes no jumbo frames from XDP; those that {nic.name} brings in "
                f"several parts {way}"
            )
        if at.how == "tap" and nic.name in shared:
            yield (
                f"{whose}: segments that the guest sends merged count as one frame for the classes "
                f"of {nic.name}, and its share comes out too large; ethtool -K ... tso off in the "
                "guest"
            )
