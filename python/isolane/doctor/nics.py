"""Looks up what the real NICs can do; attaches nothing to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from isolane.doctor.answers import Answer, Probe

_NETDEV_CMD_DEV_GET: Final = 1
_FEATURES: Final = {
    0x01: "native",
    0x02: "redirect",
    0x04: "transmit of redirected frames",
    0x08: "AF_XDP zero copy",
    0x10: "hardware offload",
}
"""Bits of NETDEV_A_DEV_XDP_FEATURES (Documentation/netlink/specs/netdev.yaml)."""

_NATIVE_DRIVERS: Final = frozenset(
    {
        *("bnxt_en", "dpaa2-eth", "ena", "fec", "fsl_enetc", "gve", "hv_netvsc"),
        *("i40e", "ice", "igb", "igc", "ixgbe", "ixgbevf", "mana", "mlx4_en"),
        *("mlx5_core", "mvneta", "mvpp2", "nfp", "qede", "sfc", "stmmac", "virtio_net", "vif"),
    }
)
"""Drivers with native XDP, for kernels before 6.3, which do not tell."""


class _DeviceMessage(genlmsg):  # type: ignore[misc] # pyroute2 has no types
    nla_map = (
        ("NETDEV_A_DEV_UNSPEC", "none"),
        ("NETDEV_A_DEV_IFINDEX", "uint32"),
        ("NETDEV_A_DEV_PAD", "none"),
        ("NETDEV_A_DEV_XDP_FEATURES", "uint64"),
        ("NETDEV_A_DEV_XDP_ZC_MAX_SEGS", "uint32"),
        ("NETDEV_A_DEV_XDP_RX_METADATA_FEATURES", "uint64"),
        ("NETDEV_A_DEV_XSK_FEATURES", "uint64"),
    )


def physical_nics() -> dict[str, str]:
    """Return the driver of every NIC with hardware (real or virtual) behind it, by name."""
    nics = {}
    for interface in sorted(Path("/sys/class/net").iterdir()):
        driver = interface / "device" / "driver"
        if driver.exists():
            nics[interface.name] = driver.resolve().name
    return nics


def xdp_features() -> dict[int, int]:
    """Return the XDP feature bits that the kernel reports, by interface index (Linux 6.3)."""
    with GenericNetlinkSocket() as netlink:
        netlink.bind("netdev", _DeviceMessage)
        request = _DeviceMessage()
        request["cmd"] = _NETDEV_CMD_DEV_GET
        request["version"] = 1
        replies = netlink.nlm_request(
            request, msg_type=netlink.prid, msg_flags=NLM_F_REQUEST | NLM_F_DUMP
        )
        return {
            reply.get_attr("NETDEV_A_DEV_IFINDEX"): reply.get_attr("NETDEV_A_DEV_XDP_FEATURES")
            for reply in replies
        }


def _nic_xdp() -> Mapping[str, Answer]:
    nics = physical_nics()
    if not nics:
        return {"nic-xdp": Answer("no", "no NIC found, only software interfaces")}
    try:
        told: dict[int, int] = xdp_features()
    except (NetlinkError, OSError, KeyError):
        told = {}
    found = {}
    for name, driver in nics.items():
        index = int((Path("/sys/class/net") / name / "ifindex").read_text())
        found[f"nic-xdp:{name}"] = judge_nic(driver, told.get(index))
    return found


def judge_nic(driver: str, features: int | None) -> Answer:
    """Tell which mode of XDP a NIC supports, by its driver and its feature bits, if known."""
    if features is None:
        if driver in _NATIVE_DRIVERS:
            return Answer("yes", f"driver {driver}: native, by its name; not tried")
        return Answer("limited", f"driver {driver}: generic mode only, by its name; not tried")
    words = [word for bit, word in _FEATURES.items() if features & bit]
    if not features & 0x01:
        return Answer("limited", f"driver {driver}: generic mode only, as the kernel reports")
    return Answer("yes", f"driver {driver}: {', '.join(words)}, as the kernel reports; not tried")


def _sr_iov() -> Mapping[str, Answer]:
    able = {}
    for name in physical_nics():
        file = Path("/sys/class/net") / name / "device" / "sriov_totalvfs"
        if file.exists() and int(file.read_text()) > 0:
            able[name] = int(file.read_text())
    if not able:
        return {"sr-iov": Answer("no", "no NIC offers virtual functions")}
    listed = ", ".join(f"{name}: up to {count} VFs" for name, count in able.items())
    return {"sr-iov": Answer("yes", listed)}


PROBES: tuple[Probe, ...] = (
    Probe(("nic-xdp",), _nic_xdp),
    Probe(("sr-iov",), _sr_iov),
)
