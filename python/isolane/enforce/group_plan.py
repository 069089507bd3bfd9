"""The cgroups of a policy's routers: their weights and caps, and which of them holds whose threads.

A quota holds back no kernel thread (since Linux 6.18), and yet what such a thread uses counts. So
where one takes a machine's frames off an interface, in the machine's cgroup for its weight, the cap
is on a cgroup within, that the machine's own threads are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from isolane.enforce.back_end_plan import back_end_groups, back_ends, weight
from isolane.enforce.host_access import Host
from isolane.enforce.link_members import fed_by
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter
from isolane.enforce.setting import Desired, from_key
from isolane.enforce.settings import Controller, Group, GroupFile
from isolane.enforce.steering import Steering
from isolane.enforce.steering import key as queue_key
from isolane.spec.policy import Policy
from isolane.spec.policy_router import RouterPolicy


def own_threads_group(router: str) -> str:
    """Return the cgroup, within a router's, of a machine's own threads where only they are capped.

    The slash keeps it from being another router's.
    """
    return f"{router}/machine"


def capped_within(policy: Policy, router: FoundRouter, steering: Steering) -> bool:
    """Tell whether a router's cap is one on its own threads, and not on what feeds it."""
    if router.kind != "vm" or policy.routers[router.name].cpu_max is None:
        return False
    queues = (queue_key(nic, at) for nic in policy.nics for at in router.interfaces)
    return fed_by(policy, router) is not None or any(key in steering.queues for key in queues)


def capped_within_now(state: State) -> frozenset[str]:
    """Return the routers of which that is so in the policy in force."""
    groups = (
        (setting.router, applied.router)
        for key, applied in state.applied.items()
        if isinstance(setting := from_key(key), Group)
    )
    return frozenset(router for group, router in groups if group == own_threads_group(router))


def groups(
    policy: Policy, found: Sequence[FoundRouter], steering: Steering, host: Host
) -> Iterator[Desired]:
    """Yield one cgroup a router, in one that weighs as much as all of them."""
    if not found:
        return
    yield Desired(Group(""), value=True)
    if host.groups.version == 2:
        yield Desired(Controller("root"), value=True)
        yield Desired(Controller("top"), value=True)
    routers = sum(policy.routers[router.name].cpu_weight for router in found)
    total = routers + len(back_ends(found)) * weight(routers)
    yield from _files("", host.groups.weight_files(min(10_000, total)))
    yield from back_end_groups(found, routers, host)
    for router in found:
        within = capped_within(policy, router, steering)
        for desired in _of_router(router.name, policy.routers[router.name], host, within=within):
            yield replace(desired, router=router.name)


def _of_router(name: str, values: RouterPolicy, host: Host, *, within: bool) -> Iterator[Desired]:
    cap = host.groups.cap_files(values.cpu_max and values.cpu_max / 100)
    yield Desired(Group(name), value=True)
    yield from _files(name, host.groups.weight_files(values.cpu_weight))
    yield from _files(name, host.groups.cap_files(None) if within else cap)
    if within:
        if host.groups.version == 2:
            yield Desired(Controller(f"top/{name}"), value=True)
        yield Desired(Group(own_threads_group(name)), value=True)
        yield from _files(own_threads_group(name), cap)


def _files(group: str, contents: dict[str, str]) -> Iterator[Desired]:
    return (Desired(GroupFile(group, file), value) for file, value in contents.items())
