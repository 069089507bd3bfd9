"""``find_routers``: from a policy's identities to the routers that run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from isolane.enforce.find import containers, router_interfaces, virtual_functions, virtual_machines
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.any_process import of_any_process
from isolane.enforce.find.back_end_ports import with_ports
from isolane.enforce.find.host_namespace import HostNamespace
from isolane.enforce.find.processes import netns_file
from isolane.enforce.router_facts import FoundRouter, Interface, MissingRouter
from isolane.spec.policy import Policy
from isolane.spec.policy_models import OWN
from isolane.spec.policy_router import RouterPolicy
from isolane.testbed.namespace_thread import run_in_thread
from isolane.testbed.netns import NETNS_DIR

Found = FoundRouter | MissingRouter
_Named = tuple[str, RouterPolicy]
"""A router's name and its policy."""


def find_routers(policy: Policy) -> tuple[Found, ...]:
    """Find the routers of a policy on this host; change nothing.

    The calling thread's network namespace counts as the host's.

    Returns
    -------
    tuple
        One for each router, in the policy's order; a :class:`MissingRouter` with the reason for a
        router that does not run, or that the policy cannot be applied to yet.

    Raises
    ------
    NotSupported
        When entering namespaces is not permitted.
    """

    def look() -> tuple[Found, ...]:
        with HostNamespace(policy.nics) as host:
            return tuple(_find(host, name, router) for name, router in policy.routers.items())

    return run_in_thread(look)


def _find(host: HostNamespace, name: str, router: RouterPolicy) -> Found:
    key, value = router.identity
    try:
        found = _FINDERS[key](host, name, value, router)
        found = with_ports(host, found)
        _refuse_addresses_of_the_host(host, found)
    except Absent as absent:
        return MissingRouter(name, str(absent))
    return found


def _refuse_addresses_of_the_host(host: HostNamespace, router: FoundRouter) -> None:
    """Have a router wait that would get the host's own frames: it chooses its addresses itself.

    A macvlan may well have the address of the interface below it, and is told apart by the kernel.
    """
    for at in router.interfaces:
        if not host.nics or at.how not in ("veth", "tap"):
            continue
        other = host.owner_of(at.mac, at.ifindex if at.netns is None else None)
        if other is not None:
            raise Absent(at.not_told_from(f"the host's interface {other.ifname}"))


def _container(
    host: HostNamespace, router: _Named, path: Path, pid: int | None, missing: str
) -> FoundRouter:
    name, policy = router
    own = [inside for inside, nic in policy.interfaces.items() if nic == OWN]
    namespace, found = router_interfaces.of_namespace(host, path, missing, own)
    return FoundRouter(
        name, "container", path, namespace.inode, pid, found, netns_cookie=namespace.cookie
    )


def _by_netns(host: HostNamespace, name: str, value: str, router: RouterPolicy) -> FoundRouter:
    path = Path(value) if "/" in value else NETNS_DIR / value
    return _container(host, (name, router), path, None, f"there is no network namespace {path}")


def _by_pid(host: HostNamespace, name: str, value: int, router: RouterPolicy) -> FoundRouter:
    missing = f"there is no process {value}"
    return _container(host, (name, router), netns_file(value), value, missing)


def _by_engine(engine: str) -> Callable[[HostNamespace, str, Any, RouterPolicy], FoundRouter]:
    def find(host: HostNamespace, name: str, value: str, router: RouterPolicy) -> FoundRouter:
        return _by_pid(host, name, containers.ENGINES[engine](value), router)

    return find


def _by_incus(host: HostNamespace, name: str, value: str, router: RouterPolicy) -> FoundRouter:
    instance = containers.incus(value)
    if instance.machine:
        return virtual_machines.of_process(host, name, instance.pid, instance.macs, router.mac)
    return _by_pid(host, name, instance.pid, router)


def _by_qemu(host: HostNamespace, name: str, value: int, router: RouterPolicy) -> FoundRouter:
    return virtual_machines.of_process(host, name, value, mac=router.mac)


def _by_libvirt(host: HostNamespace, name: str, value: str, router: RouterPolicy) -> FoundRouter:
    return virtual_machines.of_domain(host, name, value, router.mac)


def _by_process(host: HostNamespace, name: str, value: int, router: RouterPolicy) -> FoundRouter:
    return of_any_process(host, name, value, router.interfaces, router.mac)


def _by_interface(host: HostNamespace, name: str, value: str, router: RouterPolicy) -> FoundRouter:
    return _alone(name, *router_interfaces.of_host_interface(host, value, router.mac))


def _by_function(host: HostNamespace, name: str, value: Any, _: RouterPolicy) -> FoundRouter:
    return _alone(name, *virtual_functions.find_function(host, value.pf, value.number))


def _alone(
    name: str, namespace: router_interfaces.RouterNamespace, found: Interface
) -> FoundRouter:
    return FoundRouter(
        name,
        "interface",
        namespace.netns,
        namespace.inode,
        None,
        (found,),
        netns_cookie=namespace.cookie,
    )


_FINDERS: Final[dict[str, Callable[[HostNamespace, str, Any, RouterPolicy], FoundRouter]]] = {
    "netns": _by_netns,
    "pid": _by_pid,
    **{engine: _by_engine(engine) for engine in containers.ENGINES},
    "incus": _by_incus,
    "qemu": _by_qemu,
    "libvirt": _by_libvirt,
    "process": _by_process,
    "interface": _by_interface,
    "vf": _by_function,
}
"""Key of the policy -> function that finds a router by it."""
