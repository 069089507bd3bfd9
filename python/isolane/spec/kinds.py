"""The kinds of router, the paths of each kind, and which of them run live."""

from __future__ import annotations

from typing import Final

from isolane.spec.fields import Hypervisor, Kind, NicModel, RouterPath

PATHS: Final[dict[Kind, tuple[RouterPath, ...]]] = {
    "native": ("none",),
    "container": ("direct", "bridge", "macvlan", "isolane", "sriov"),
    "vm": ("tap", "bridge", "macvtap", "isolane", "netback", "sriov-macvtap", "sriov-passthrough"),
    "xen": ("bridge", "sriov-passthrough", "dom0"),
    "external": ("none",),
}
"""Paths of each kind, simulated or live."""

LIVE: Final[dict[Kind, tuple[RouterPath, ...]]] = {
    "native": ("none",),
    "container": ("direct", "bridge", "macvlan", "isolane"),
    "vm": ("tap", "bridge", "macvtap", "isolane", "netback"),
    "external": ("none",),
}
"""Those of them that this version runs with real frames."""

SIMULATED: Final = {kind: paths for kind, paths in PATHS.items() if kind != "external"}
"""Those of them that a simulated host has: what is made of parts that are known."""

WITHOUT_PATH: Final[tuple[Kind, ...]] = ("native", "external")
"""Kinds that frames reach without a path of Isolane's."""

HYPERVISOR_NAMES: Final[dict[Hypervisor, str]] = {
    "uml": "User-Mode Linux",
    "kvm": "QEMU with KVM",
    "tcg": "QEMU with TCG",
}
"""What runs guests, in words."""

NICS: Final[dict[RouterPath, tuple[NicModel, ...]]] = {
    "tap": ("virtio", "e1000"),
    "bridge": ("virtio", "e1000"),
    "macvtap": ("virtio", "e1000"),
    "isolane": ("virtio", "e1000"),
    "netback": ("virtio",),
    "sriov-macvtap": ("virtio", "e1000"),
    "sriov-passthrough": ("vfio",),
}
"""NIC models that QEMU gives a virtual machine on a path; the first is the default."""

UML_NIC: Final[NicModel] = "vector"
"""The NIC model that only User-Mode Linux guests have; see :func:`uml_nic`."""

SHARED: Final[dict[RouterPath, str]] = {
    "bridge": "bridge",
    "macvlan": "macvlan",
    "isolane": "isolane",
    "macvtap": "macvtap",
    "netback": "netback",
    "sriov": "sriov",
    "sriov-macvtap": "sriov",
    "sriov-passthrough": "sriov",
}
"""Paths whose routers share a wire, and its name; all virtual functions belong to one NIC."""

LINK_PATHS: Final[tuple[RouterPath, ...]] = ("bridge", "macvtap")
"""Paths on which machines receive without a policy, and may share a link by their own."""


def runs_live(kind: Kind, path: RouterPath) -> bool:
    """Tell whether this version can run such a router with real frames."""
    return path in LIVE.get(kind, ())


def uml_nic(path: RouterPath) -> NicModel:
    """Return the one NIC model of a User-Mode Linux guest on a path."""
    return "virtio" if path == "netback" else UML_NIC


def default_nic(
    kind: Kind, path: RouterPath, hypervisor: Hypervisor | None = None
) -> NicModel | None:
    """Return the NIC model that a virtual machine has unless told otherwise; None for others."""
    if hypervisor == "uml":
        return uml_nic(path)
    return NICS[path][0] if kind == "vm" and path in NICS else None
