"""Arms: the variants of an experiment with everything filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from isolane.spec.external_models import External
from isolane.spec.fields import Hypervisor, Kind, NicModel, Receive, RouterPath
from isolane.spec.image_models import Image
from isolane.spec.kinds import LINK_PATHS, SHARED, WITHOUT_PATH, default_nic, runs_live, uml_nic
from isolane.spec.models import DEFAULT_MODERATION_NS, ArmChange, ExperimentData, Router
from isolane.spec.policy_router import PolicyValues, policy_values
from isolane.spec.schedulers import DEFAULT_SCHEDULER, DEFAULT_UPLINK, Uplink
from isolane.spec.services_models import Services

DEFAULT_CPU_WEIGHT = 100
"""Weight of a cgroup that nobody has changed."""


@dataclass(frozen=True)
class ArmRouter:
    """A router (or group) in one arm: kind, path, NIC model, CPU weight and policy."""

    group: str
    kind: Kind
    path: RouterPath
    """``none`` for native and external routers."""
    nic: NicModel | None = None
    """NIC model of a virtual machine; None for every other kind."""
    policy: PolicyValues | None = None
    """The router's policy, on path ``isolane``, and on ``direct`` or of a virtual machine where one
    is asked for; its ``cores`` are positions among the arm's cores, from 0 (see
    :meth:`PolicyValues.on`)."""
    hypervisor: Hypervisor | None = None
    """What runs a virtual machine; None for every other kind."""
    nic_given: bool = False
    """False if `nic` is the default; a live virtual machine then has its hypervisor's."""
    external: External | None = None
    """Where an external router is; None for every other kind."""
    image: Image | None = None
    """What a virtual machine starts from; None: Isolane's own guest, or no virtual machine."""
    memory_mb: int | None = None
    """Memory of a virtual machine, MiB; None: the default."""
    vcpus: int | None = None
    """Virtual CPUs of a virtual machine; None: the default, one."""
    services: Services | None = None
    """What it does with each frame besides passing it on; None: nothing."""
    haproxy: str | None = None
    """File of a load balancer's configuration; None: the one that is shipped."""

    @property
    def live_hypervisor(self) -> Hypervisor | None:
        """What a live run starts a virtual machine with; None for every other kind.

        ``auto`` is User-Mode Linux (with an image of the user's TCG), unless the live back end has
        found that KVM works.
        """
        if self.hypervisor == "auto":
            return "uml" if self.image is None else "tcg"
        return self.hypervisor

    @property
    def live_nic(self) -> NicModel | None:
        """NIC model that a live run gives a virtual machine; None for every other kind."""
        return uml_nic(self.path) if self.live_hypervisor == "uml" else self.nic

    @property
    def cpu_weight(self) -> int:
        """CPU weight of what runs for it alone: a virtual machine's process, a thread."""
        return self.policy.cpu_weight if self.policy else DEFAULT_CPU_WEIGHT

    @property
    def wire(self) -> str:
        """Name of the wire to the router: its own, or one that all routers of its path share."""
        if self.external is not None:
            ingress = self.external.ingress
            return f"{ingress.netns or ''}:{ingress.interface}"
        return SHARED.get(self.path, f"{self.path}:{self.group}")

    @property
    def shares_link(self) -> bool:
        """Whether it is a machine whose policy shares out the link that it sends by, unmanaged."""
        shared = self.kind == "vm" and self.path in LINK_PATHS
        return shared and self.policy is not None and bool(self.policy.asks_for_link())

    @property
    def shares_wire(self) -> bool:
        """Whether other routers are reached by the same wire."""
        return self.path in SHARED or self.external is not None


@dataclass(frozen=True)
class SharesAt:
    """What routers share by from a moment on."""

    at_ns: int
    """From the start of the measuring window, ns."""
    policies: Mapping[str, PolicyValues]
    """By router (or group)."""


@dataclass(frozen=True)
class Arm:
    """One of the variants that an experiment compares, with the defaults filled in."""

    name: str
    receive: Receive
    moderation_ns: int
    """Interrupt moderation of the DUT's NICs, ns: the pause between two polls."""
    cores: int
    """Number of host cores that the routers share; external ones use them or not."""
    routers: tuple[ArmRouter, ...]
    """The routers in the order of the file, one for each group."""
    moderation_given: bool = False
    """False if `moderation_ns` is the default; a simulated NIC then uses its profile's value."""
    uplink: Uplink = DEFAULT_UPLINK
    """How the network back-end sends, on path netback."""
    changes: tuple[SharesAt, ...] = ()
    """Shares that change while a trial runs, on path netback."""
    bridge_netfilter: bool | None = None
    """Whether bridges hand their frames to netfilter; None: as on the host that it runs on."""

    def router(self, group: str) -> ArmRouter:
        """Return the group's router in this arm; KeyError if there is none."""
        for router in self.routers:
            if router.group == group:
                return router
        raise KeyError(group)

    @property
    def external(self) -> bool:
        """Whether its routers are there already: all of them, or none."""
        return any(router.kind == "external" for router in self.routers)


def resolve_arms(data: ExperimentData) -> tuple[Arm, ...]:
    """Return the arms in the order of the file; one, named after the path, if none are given."""
    if not data.arms:
        return (_resolve(data, None),)
    return tuple(_resolve(data, change) for change in data.arms)


def resolve_router(router: Router, change: ArmChange | None) -> ArmRouter:
    """Return a router in an arm; the path of a container without one is ``none``."""
    kind = (change and change.kind) or router.kind
    path: RouterPath = (change and change.path) or router.path or "none"
    given = ((change and change.services) or {}).get(router.name, router.services)
    services = given if given is not None and given.any else None
    haproxy = (change and change.haproxy) or router.haproxy
    if kind == "native":
        return ArmRouter(router.name, kind, "none", services=services, haproxy=haproxy)
    if kind == "external":
        there = ((change and change.external) or {}).get(router.name, router.external)
        return ArmRouter(router.name, kind, "none", external=there, services=services)
    policy = policy_values(router.policy, ((change and change.policy) or {}).get(router.name))
    if kind != "vm":
        managed = path == "isolane" or (path == "direct" and manages(router, change))
        own = policy if managed else None
        return ArmRouter(router.name, kind, path, policy=own, services=services, haproxy=haproxy)
    hypervisor = (change and change.hypervisor) or router.hypervisor or "auto"
    model = (change and change.nic) or router.nic
    nic = model or default_nic(kind, path, hypervisor)
    return ArmRouter(
        router.name,
        kind,
        path,
        nic,
        policy=policy if path == "isolane" or _given(router, change) else None,
        hypervisor=hypervisor,
        nic_given=model is not None,
        image=(change and change.image) or router.image,
        memory_mb=(change and change.memory) or router.memory,
        vcpus=(change and change.vcpus) or router.vcpus,
        services=services,
    )


def not_live(router: ArmRouter) -> str | None:
    """Return what of a router this version cannot run with real frames; None if all of it."""
    if not runs_live(router.kind, router.path):
        return f"kind {router.kind}, path {router.path}"
    wrong = router.nic_given and router.nic != uml_nic(router.path)
    if router.live_hypervisor == "uml" and wrong:
        return f"NIC model {router.nic}, which needs hypervisor kvm or tcg"
    return None


def manages(router: Router, change: ArmChange | None) -> bool:
    """Tell whether a router on path ``direct`` is to be under a policy.

    It is where the arm gives it one, and where its own policy stands beside its own path; a path
    that an arm gives it is the unmanaged one.
    """
    by_arm = change is not None and router.name in (change.policy or {})
    path_is_its_own = change is None or change.path is None
    return by_arm or (path_is_its_own and router.policy is not None)


def _given(router: Router, change: ArmChange | None) -> bool:
    """Tell whether a virtual machine has a policy: the arm's, or its own.

    It keeps its own on every path, because it is a process on all of them.
    """
    return router.policy is not None or router.name in ((change and change.policy) or {})


def _resolve(data: ExperimentData, change: ArmChange | None) -> Arm:
    routers = tuple(resolve_router(router, change) for router in data.routers)
    moderation_ns = (change and change.moderation_ns) or data.dut.moderation_ns
    filtered = None if change is None else change.bridge_netfilter
    return Arm(
        name=change.name if change else _name_after_path(routers),
        receive=(change and change.receive) or data.dut.receive,
        moderation_ns=moderation_ns or DEFAULT_MODERATION_NS,
        cores=(change and change.cores) or data.dut.cores,
        routers=routers,
        moderation_given=bool(moderation_ns),
        uplink=_uplink(change),
        changes=_changes(routers, change),
        bridge_netfilter=data.dut.bridge_netfilter if filtered is None else filtered,
    )


def _uplink(change: ArmChange | None) -> Uplink:
    if change is None:
        return DEFAULT_UPLINK
    return Uplink(
        scheduler=change.scheduler or DEFAULT_SCHEDULER,
        rate_bps=change.uplink_rate,
        back_pressure=change.back_pressure is not False,
        burst_ns=change.uplink_burst,
        early_drop=change.early_drop,
    )


def _changes(routers: tuple[ArmRouter, ...], change: ArmChange | None) -> tuple[SharesAt, ...]:
    """Return what holds from each moment on: what a change does not name stays as it was."""
    now = {router.group: router.policy or PolicyValues() for router in routers}
    found = []
    for moment in change.changes if change else ():
        for group, keys in moment.policy.items():
            if group in now:
                now[group] = policy_values(now[group].as_keys(), keys)
        found.append(SharesAt(moment.at_ns, dict(now)))
    return tuple(found)


def _name_after_path(routers: tuple[ArmRouter, ...]) -> str:
    names = dict.fromkeys(r.kind if r.kind in WITHOUT_PATH else r.path for r in routers)
    return "-".join(islice(names, 3))  # the three paths that there are fit into a name's 24 letters
