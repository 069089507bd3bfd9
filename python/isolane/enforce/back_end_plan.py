"""Network back-ends under a policy: their share of a core, and whose work is not theirs.

A back-end carries the frames of all its routers, as a NIC's thread does elsewhere. As a process it
gets as much of its core as any other one, and while a router there has too much to do, the ring of
the uplink fills, which loses everybody's frames.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from isolane.enforce.host_access import Host
from isolane.enforce.pacemaker_work import PacemakerWork
from isolane.enforce.router_facts import BackEndPort, FoundRouter, Interface
from isolane.enforce.setting import Desired
from isolane.enforce.settings import Group, GroupFile, Member, Offload, Scheduling
from isolane.procfs import started, threads_of

_OWNER = "back-end."
"""A router's name has no full stop."""
SHARE = 2
"""Weight, in that of all routers together: two thirds of a core while all of them want more. With
as much as theirs a guest lost a tenth of its frames beside a flood, and with four times as much
containers forwarded half as many."""
_MAX_WEIGHT = 10_000


def is_back_end(owner: str) -> bool:
    """Tell whether a setting's owner is a back-end, and not a router."""
    return owner.startswith(_OWNER)


def back_ends(found: Sequence[FoundRouter]) -> list[BackEndPort]:
    """Return one port of each back-end that routers are at."""
    ports = (at.port for router in found for at in router.interfaces if at.port is not None)
    first: dict[str, BackEndPort] = {}
    for port in ports:
        first.setdefault(port.back_end, port)
    return list(first.values())


def weight(routers: int) -> int:
    """Return the weight of a back-end beside routers that weigh so much together."""
    return min(_MAX_WEIGHT, SHARE * routers)


def back_end_groups(found: Sequence[FoundRouter], routers: int, host: Host) -> Iterator[Desired]:
    """Yield a cgroup for each back-end, beside those of routers that weigh so much together."""
    for port in back_ends(found):
        owner = _OWNER + port.back_end
        yield Desired(Group(owner), value=True)
        for file, content in host.groups.weight_files(weight(routers)).items():
            yield Desired(GroupFile(owner, file), content)


def back_end_threads(
    found: Sequence[FoundRouter], host: Host, paced: PacemakerWork, how: list[int]
) -> Iterator[Desired]:
    """Yield where the threads of back-ends belong, and how they are scheduled.

    Parameters
    ----------
    paced
        Gathers the cores that they are pinned to.
    how
        Policy, nice value and time slice.
    """
    for port in back_ends(found):
        owner = _OWNER + port.back_end
        group = str(host.groups.path(owner).relative_to(host.groups.root))
        for thread in threads_of(port.process) if started(port.process) == port.began else ():
            began = started(thread)
            if began is None:  # it has just ended
                continue
            which = (owner, "thread", thread, began)
            yield Desired(Member(*which), group)
            yield Desired(Scheduling(*which), how)
            paced.back_ends.update(_cores(thread))


def with_napi(at: Interface, host: Host) -> Iterator[Desired]:
    """Let threads poll a router's end of a veth: else the back-end's core does all that it does.

    GRO brings NAPI with it, which the kernel uses for what comes from an end without TSO.
    """
    if at.host_ifname is not None:
        yield Desired(Offload(host.base, at.host_ifname, "tso"), value=False)
    yield Desired(Offload(str(at.netns) if at.netns else host.base, at.ifname, "gro"), value=True)


def _cores(thread: int) -> list[int]:
    """Return the cores that a thread is pinned to; none if it may run on any, or has ended."""
    try:
        cores = os.sched_getaffinity(thread)
    except OSError:
        return []
    return sorted(cores) if len(cores) < (os.cpu_count() or 1) else []
