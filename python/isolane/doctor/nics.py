"""The features of the real NICs. Attaches nothing to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from isolane.doctor.answers import Answer, Probe
from isolane.netdev import XdpFeature, xdp_features

_INTERFACES: Final = Path("/sys/class/net")
_FEATURES: Final = {
    XdpFeature.BASIC: "native",
    XdpFeature.REDIRECT: "redirect",
    XdpFeature.NDO_XMIT: "transmit of redirected frames",
    XdpFeature.XSK_ZEROCOPY: "AF_XDP zero copy",
    XdpFeature.HW_OFFLOAD: "hardware offload",
    XdpFeature.RX_SG: "jumbo frames in several parts",
    XdpFeature.NDO_XMIT_SG: "transmit of those",
}

_NATIVE_DRIVERS: Final = frozenset(
    {
        *("bnxt_en", "dpaa2-eth", "ena", "fec", "fsl_enetc", "gve", "hv_netvsc"),
        *("i40e", "ice", "igb", "igc", "ixgbe", "ixgbevf", "mana", "mlx4_en"),
        *("mlx5_core", "mvneta", "mvpp2", "nfp", "qede", "sfc", "stmmac", "virtio_net", "vif"),
    }
)
"""Drivers with native XDP, for kernels before 6.3, which do not report it."""


def physical_nics() -> dict[str, str]:
    """Return the driver of every NIC with hardware (real or virtual) behind it, by name."""
    nics = {}
    for interface in sorted(_INTERFACES.iterdir()):
        driver = interface / "device" / "driver"
        if driver.exists():
            nics[interface.name] = driver.resolve().name
    return nics


def _number(name: str, attribute: str) -> int | None:
    """Read an attribute of an interface; None: the interface, or only the attribute, is missing."""
    with suppress(OSError, ValueError):
        return int((_INTERFACES / name / attribute).read_text())
    return None


def _nic_xdp() -> Mapping[str, Answer]:
    nics = physical_nics()
    if not nics:
        return {"nic-xdp": Answer("no", "this host has no NIC, only software interfaces")}
    told = xdp_features()
    found = {}
    for name, driver in nics.items():
        index = _number(name, "ifindex")
        if index is not None:  # else it has just gone
            found[f"nic-xdp:{name}"] = judge_nic(driver, told.get(index))
    return found


def judge_nic(driver: str, features: int | None) -> Answer:
    """Tell which XDP mode a NIC has, from its driver and, if known, its feature bits."""
    if features is None:
        if driver in _NATIVE_DRIVERS:
            return Answer("yes", f"driver {driver}: native mode, judging by the driver; not tried")
        return Answer(
            "limited", f"driver {driver}: only generic mode, judging by the driver; not tried"
        )
    words = [word for bit, word in _FEATURES.items() if features & bit]
    if not features & XdpFeature.BASIC:
        return Answer("limited", f"driver {driver}: the kernel reports only generic mode")
    return Answer("yes", f"driver {driver}: the kernel reports {', '.join(words)}; not tried")


def _sr_iov() -> Mapping[str, Answer]:
    able = {}
    for name in physical_nics():
        count = _number(name, "device/sriov_totalvfs")
        if count:
            able[name] = count
    if not able:
        return {"sr-iov": Answer("no", "no NIC offers virtual functions")}
    listed = ", ".join(f"{name}: up to {count} VFs" for name, count in able.items())
    return {"sr-iov": Answer("yes", listed)}


PROBES: tuple[Probe, ...] = (
    Probe(("nic-xdp",), _nic_xdp),
    Probe(("sr-iov",), _sr_iov),
)
