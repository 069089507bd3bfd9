"""Which routers' frames can be told apart by their MAC addresses; the others wait. Pure.

A router chooses its addresses itself, and what it chooses must hurt nobody else: who had an address
first under the policy in force keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from isolane.enforce.link_members import demultiplexed, filtered_on
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter, Interface, MissingRouter
from isolane.enforce.setting import from_key
from isolane.enforce.settings import Entry
from isolane.errors import SpecError
from isolane.spec.policy import Policy

Address = tuple[str, int]
"""MAC address and VLAN."""


def with_own_addresses(
    policy: Policy, everyone: Sequence[FoundRouter | MissingRouter], state: State
) -> tuple[FoundRouter | MissingRouter, ...]:
    """Return the routers, in their order; one whose address is another's is one that waits."""
    held = _held(state)
    addresses = {
        router.name: list(_addresses(policy, router))
        for router in everyone
        if isinstance(router, FoundRouter)
    }
    new = {name: any(held.get(one) != name for one, _ in of) for name, of in addresses.items()}
    owners: dict[Address, str] = {}
    waiting: dict[str, MissingRouter] = {}
    for name in sorted(addresses, key=new.__getitem__):
        own: dict[Address, str] = {}
        for one, at in addresses[name]:
            other = owners.get(one) or own.get(one)
            if other is not None:
                waiting.setdefault(name, MissingRouter(name, at.not_told_from(other)))
            own[one] = f"{name} ({at.ifname})"
        if name not in waiting:
            owners |= own
    return tuple(waiting.get(router.name, router) for router in everyone)


def _addresses(policy: Policy, router: FoundRouter) -> Iterator[tuple[Address, Interface]]:
    """Yield the addresses that frames to, or from, a router are known by."""
    for at in router.interfaces:
        if at.how == "own":
            continue
        with suppress(SpecError):  # nothing tells where its frames leave: apply says so
            if demultiplexed(policy, router, at) or filtered_on(policy, router, at):
                yield (at.mac, at.vlan), at


def _held(state: State) -> dict[Address, str]:
    """Return whose frames addresses lead to in the policy in force."""
    held = {}
    for key, applied in state.applied.items():
        setting = from_key(key)
        if isinstance(setting, Entry) and setting.table == "fdb":
            known = bytes.fromhex(setting.entry)
            held[known[:6].hex(":"), int.from_bytes(known[6:], "big")] = applied.router
    return held
