"""From the routers' receive queues to the settings of the NIC that give them these queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isolane.enforce.host_access import Host
from isolane.enforce.nic_features import Nic
from isolane.enforce.router_facts import FoundRouter
from isolane.enforce.setting import Desired
from isolane.enforce.settings import Filter, Offload, Spread
from isolane.enforce.steering import Steering, key, spread_over


def spread(steering: Steering, nic: Nic, host: Host) -> Iterator[Desired]:
    """Keep frames without a filter out of the queues that are routers' own."""
    own = steering.own_queues(nic.name)
    if not own:
        return
    yield Desired(Offload(host.base, nic.name, "ntuple"), value=True)
    table = Spread(host.base, nic.name)
    now = table.read(host)
    if now:
        yield Desired(table, spread_over(now, nic.queues - len(own)))


def filters(
    steering: Steering, nics: Iterable[str], router: FoundRouter, host: Host
) -> Iterator[Desired]:
    """Send a router's frames to its own queues: the last step, when all else is there."""
    for at in router.interfaces:
        for nic in nics:
            queue = steering.queues.get(key(nic, at))
            if queue is not None:
                yield Desired(Filter(host.base, nic, at.mac, at.vlan), queue)
