"""The kinds of router, the paths of each kind, and which of them run live."""

from __future__ import annotations

from typing import Final

from isolane.spec.fields import Kind, NicModel, RouterPath

PATHS: Final[dict[Kind, tuple[RouterPath, ...]]] = {
    "native": ("none",),
    "container": ("direct", "bridge", "macvlan", "isolane", "sriov"),
    "vm": ("bridge", "macvtap", "tap", "sriov-macvtap", "sriov-passthrough"),
    "xen": ("bridge", "sriov-passthrough", "dom0"),
}
"""Paths of each kind, simulated or live."""

LIVE: Final[dict[Kind, tuple[RouterPath, ...]]] = {
    "native": ("none",),
    "container": ("direct", "bridge", "macvlan", "isolane"),
    "vm": ("tap",),
}
"""Those of them that this version runs with real frames."""

LIVE_ONLY: Final[tuple[RouterPath, ...]] = ("tap",)
"""Paths that no host profile has data of."""

NICS: Final[dict[RouterPath, tuple[NicModel, ...]]] = {
    "bridge": ("virtio", "e1000"),
    "macvtap": ("virtio", "e1000"),
    "tap": ("vector",),
    "sriov-macvtap": ("virtio", "e1000"),
    "sriov-passthrough": ("vfio",),
}
"""NIC models that a virtual machine can have on a path; the first is the default."""

SHARED: Final[dict[RouterPath, str]] = {
    "bridge": "bridge",
    "macvlan": "macvlan",
    "isolane": "isolane",
    "macvtap": "macvtap",
    "sriov": "sriov",
    "sriov-macvtap": "sriov",
    "sriov-passthrough": "sriov",
}
"""Paths whose routers share a wire, and its name; all virtual functions belong to one NIC."""


def runs_live(kind: Kind, path: RouterPath) -> bool:
    """Tell whether this version can run such a router with real frames."""
    return path in LIVE.get(kind, ())


def default_nic(kind: Kind, path: RouterPath) -> NicModel | None:
    """Return the NIC model that a virtual machine has unless told otherwise; None for others."""
    return NICS[path][0] if kind == "vm" and path in NICS else None
