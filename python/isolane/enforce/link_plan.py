"""The settings by which routers share a link: a class for each, its queue, and what is in it.

At a network back-end the keys of its port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from isolane.enforce import htb
from isolane.enforce.fair_share import Link, wants_link
from isolane.enforce.kernel_settings import MIN_CLASS_RATE, class_settings
from isolane.enforce.link_members import filtered_on, ports_of
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter
from isolane.enforce.setting import Desired
from isolane.enforce.settings import LeafQueue, LinkClass, LinkFilter, LinkRoot, PortShares
from isolane.enforce.settings.link_classes import OURS
from isolane.spec.policy import Policy
from isolane.spec.port_keys import port_keys
from isolane.spec.schedulers import KEYS

_MAX_NUMBER = 2048


def minor_of(router: str, state: State) -> int:
    """Return the minor number of a router's class, the same on every link."""
    return state.number(f"class:{router}", _MAX_NUMBER, htb.FIRST_CLASS)


def classes(policy: Policy, link: Link, base: str, state: State) -> Iterator[Desired]:
    """Yield the classes of a link, which nothing goes into yet."""
    nic, rate = link.nic, link.rate
    yield Desired(LinkRoot(base, nic), OURS)
    whole = htb.ClassSettings(rate, rate, htb.burst_bytes(rate), 0, link.quantum)
    yield Desired(LinkClass(base, nic, htb.ROOT_CLASS, "all"), asdict(whole))
    burst = htb.burst_bytes(MIN_CLASS_RATE)
    rest = htb.ClassSettings(MIN_CLASS_RATE, rate, burst, 3, link.quantum)
    yield Desired(LinkClass(base, nic, htb.DEFAULT_CLASS, "others"), asdict(rest))
    for router in link.routers:
        minor = minor_of(router, state)
        settings = class_settings(policy.routers[router], link)
        yield Desired(LinkClass(base, nic, minor, router), asdict(settings), router=router)
        frames = htb.leaf_frames(settings.ceil)
        yield Desired(LeafQueue(base, nic, minor, router), frames, router=router)


def link_filters(
    policy: Policy, links: dict[str, Link], router: FoundRouter, base: str, state: State
) -> Iterator[Desired]:
    """Yield what puts a router's frames into its class where no program of the policy does."""
    for at in router.interfaces:
        for nic in filtered_on(policy, router, at):
            if nic in links:
                number = state.number(f"filter:{router.name}:{at.ifname}", _MAX_NUMBER, 1)
                minor = minor_of(router.name, state)
                yield Desired(LinkFilter(base, nic, number, minor, router.name), at.mac)


def port_shares(policy: Policy, found: Sequence[FoundRouter]) -> Iterator[Desired]:
    """Yield the keys of the routers' ports at back-ends whose uplinks any of them wants shared."""
    ports = [(router.name, port) for router in found for port in ports_of(policy, router)]
    shared = {
        (port.back_end, port.uplink) for name, port in ports if wants_link(policy.routers[name])
    }
    for name, port in ports:
        if (port.back_end, port.uplink) in shared:
            wanted = port_keys(policy.routers[name], port.scheduler)
            setting = PortShares(port.back_end, port.name, port.uplink, port.process, port.began)
            whole = {key: wanted.get(key) for key in KEYS[port.scheduler]}
            yield Desired(setting, whole, router=name)
