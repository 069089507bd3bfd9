"""Tells which thread and which interface works for which router of the policy in force."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field

from isolane.enforce.group_plan import own_threads_group
from isolane.enforce.host_access import Host
from isolane.enforce.policy_state import State
from isolane.enforce.sampling import nic_threads_of, threads_of
from isolane.enforce.setting import from_key
from isolane.enforce.settings import Program
from isolane.errors import NotSupported
from isolane.spec.policy import Policy


@dataclass(frozen=True)
class WorkOwners:
    """Who works for whom, and where."""

    threads: dict[int, str] = field(default_factory=dict)
    """Thread -> router."""
    nic_threads: frozenset[int] = frozenset()
    """Threads that poll interfaces which routers share."""
    interfaces: dict[tuple[int, int], str] = field(default_factory=dict)
    """Number of a namespace, and index of an interface there -> the router whose it is."""
    nics: frozenset[tuple[int, int]] = frozenset()
    """The same of interfaces that routers share."""
    cores: frozenset[int] = frozenset()
    """Those of the policy; empty: any."""
    routers: tuple[str, ...] = ()
    """Of the policy."""


def find(host: Host, state: State, policy: Policy) -> WorkOwners:
    """Look who works for whom now; changes nothing."""
    threads = {thread: name for name, found in threads_of(state).items() for thread in found}
    for name in policy.routers:  # whoever was started since then is in the cgroup
        for group in (name, own_threads_group(name)):
            with suppress(OSError, NotSupported):  # a router without CPU keys has none
                threads |= dict.fromkeys(host.groups.threads(group), name)
    cores = {core for router in policy.routers.values() for core in router.cores or ()}
    cores |= {core for nic in policy.nics.values() for core in nic.cores or ()}
    interfaces, nics = {}, set()
    for key, applied in state.applied.items():
        setting = from_key(key)
        if not isinstance(setting, Program):
            continue
        where = _number(host, setting)
        if where is None:
            continue
        if setting.hook.startswith("nic"):
            nics.add(where)
        else:
            interfaces[where] = applied.router
    return WorkOwners(
        threads,
        frozenset(nic_threads_of(state)),
        interfaces,
        frozenset(nics),
        frozenset(cores),
        tuple(policy.routers),
    )


def _number(host: Host, program: Program) -> tuple[int, int] | None:
    index = host.ifindex(program.netns, program.ifname)
    with suppress(OSError):  # namespaces come and go
        inode = os.stat(program.netns).st_ino  # noqa: PTH116 - as host_access does
        return None if index is None else (inode, index)
    return None
