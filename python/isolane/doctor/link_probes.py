"""Links and qdiscs, really created in a network namespace of the probe's own."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from isolane import rtnl
from isolane.doctor import bpf, syscalls
from isolane.doctor.answers import Answer, Probe
from isolane.netdev import tells_threads
from isolane.procfs import napi_threads_by_name

_TUNSETIFF: Final = 0x4004_54CA
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000
_XDP_NATIVE_ONLY: Final = 1 << 2  # XDP_FLAGS_DRV_MODE
_THREAD_WAIT_S: Final = 1.0

_LINKS: Final[dict[str, dict[str, object]]] = {
    "bridge": {},
    "macvlan": {"link": "doc0", "macvlan_mode": "bridge"},
    "macvtap": {"link": "doc0", "macvtap_mode": "bridge"},
}
_QDISCS: Final[dict[str, dict[str, object]]] = {
    "htb": {},
    "tbf": {"rate": 2_500_000, "burst": 10_000, "latency": "50ms"},
    "clsact": {},
}
_UNKNOWN_KIND: Final = (errno.EOPNOTSUPP, errno.ENOENT)
"""The kernel's errors for a kind of link or of qdisc that it does not have."""


def _pair(netlink: rtnl.IPRoute) -> int:
    """Create the pair doc0, doc1 and return the index of doc0."""
    netlink.link("add", ifname="doc0", kind="veth", peer="doc1")
    return int(netlink.link_lookup(ifname="doc0")[0])


def _links() -> Mapping[str, Answer]:
    syscalls.enter_private_network()
    found = {"netns": Answer("yes", "created one and entered it")}
    with rtnl.IPRoute() as netlink:
        try:
            index = _pair(netlink)
        except rtnl.NetlinkError as error:
            found["veth"] = _refusal(error)
            return found | dict.fromkeys(
                _LINKS, Answer("unknown", "not tried, because the kernel has no veth")
            )
        found["veth"] = Answer("yes", "created a pair")
        for kind, settings in _LINKS.items():
            found[kind] = _try_link(netlink, kind, settings, index)
    found["tun"] = _try_tap()
    return found


def _try_link(
    netlink: rtnl.IPRoute, kind: str, settings: Mapping[str, object], parent: int
) -> Answer:
    wanted = {**settings, **({"link": parent} if "link" in settings else {})}
    try:
        netlink.link("add", ifname="probe0", kind=kind, **wanted)
    except rtnl.NetlinkError as error:
        return _refusal(error)
    netlink.link("del", ifname="probe0")
    return Answer("yes", "created one")


def _try_tap() -> Answer:
    device = Path("/dev/net/tun")
    if not device.exists():
        return Answer("no", f"no {device}")
    file = os.open(device, os.O_RDWR)
    try:
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", b"tap0", _IFF_TAP | _IFF_NO_PI))
    except OSError as error:
        return Answer("no", f"{device} refused a tap: {error.strerror}")
    finally:
        os.close(file)
    return Answer("yes", "created a tap")


def _qdiscs() -> Mapping[str, Answer]:
    syscalls.enter_private_network()
    with rtnl.IPRoute() as netlink:
        index = _pair(netlink)
        return {
            f"qdisc-{kind}": _try_qdisc(netlink, kind, {**settings, "index": index}, number)
            for number, (kind, settings) in enumerate(_QDISCS.items(), start=1)
        }


def _try_qdisc(
    netlink: rtnl.IPRoute, kind: str, settings: Mapping[str, Any], number: int
) -> Answer:
    try:
        if kind == "clsact":
            netlink.tc("add", kind, **settings)
        else:
            # A handle of its own each time: the one before is replaced, whatever its kind.
            netlink.tc("replace", kind, handle=number << 16, **settings)
    except rtnl.NetlinkError as error:
        return _refusal(error)
    return Answer("yes", "attached to a veth")


def _refusal(error: rtnl.NetlinkError) -> Answer:
    if error.code in _UNKNOWN_KIND:
        return Answer("no", "this kernel does not have it")
    return Answer("no", f"the kernel refused it: {os.strerror(error.code)}")


def _xdp_and_threads() -> Mapping[str, Answer]:
    """Attach XDP to a veth, which gives it a NAPI context, and let a kernel thread poll it."""
    syscalls.enter_private_network()
    program = bpf.load_drop_all()
    attributes = [("IFLA_XDP_FD", program), ("IFLA_XDP_FLAGS", _XDP_NATIVE_ONLY)]
    with rtnl.IPRoute() as netlink:
        index = _pair(netlink)
        try:
            netlink.link("set", index=index, xdp={"attrs": attributes})
        except rtnl.NetlinkError as error:
            refused = _refusal(error)
            untried = Answer("unknown", "not tried, because this attempt needs XDP on a veth")
            return {"xdp-veth": refused, "threaded-napi": untried, **_told_threads()}
        netlink.link("set", index=index, state="up")
        shown = netlink.get_links(index)[0].get_nested("IFLA_XDP", "IFLA_XDP_ATTACHED")
        attached = (
            Answer("yes", "attached a program to a veth")
            if shown == "xdp"
            else Answer("no", f"a program attached, but in mode {shown}")
        )
        return {"xdp-veth": attached, "threaded-napi": _try_threads(), **_told_threads()}


def _told_threads() -> dict[str, Answer]:
    if tells_threads():
        return {"napi-owners": Answer("yes", "by generic netlink, family netdev")}
    return {"napi-owners": Answer("no", "this kernel's family netdev does not tell")}


def _try_threads() -> Answer:
    switch = Path("/sys/class/net/doc0/threaded")
    if not switch.exists():
        return Answer("no", "this kernel has no /sys/class/net/*/threaded")
    switch.write_text("1")
    deadline = time.monotonic() + _THREAD_WAIT_S
    while time.monotonic() < deadline:
        if napi_threads_by_name(["doc0"])["doc0"]:
            return Answer("yes", "a kernel thread polls a veth")
        time.sleep(0.01)
    return Answer("no", "switched on for a veth, but no kernel thread napi/doc0-* appeared")


def _rules() -> Mapping[str, Answer]:
    """Have the kernel take rules that track connections and translate addresses."""
    syscalls.enter_private_network()
    try:
        done = subprocess.run(
            ["nft", "-f", "-"], input=_RULES, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return {"nftables": Answer("unknown", "not tried: nft is not installed")}
    if done.returncode == 0:
        return {"nftables": Answer("yes", "took rules that track and translate")}
    why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
    return {"nftables": Answer("no", f"the kernel refused such rules: {why}")}


_RULES: Final = """\
table inet t {
 chain f { type filter hook forward priority filter; ct state invalid counter; }
 chain n { type nat hook postrouting priority srcnat; oifname "doc0" masquerade; }
}
"""
PROBES: tuple[Probe, ...] = (
    Probe(("netns", "veth", *_LINKS, "tun"), _links, seconds=20.0),
    Probe(tuple(f"qdisc-{kind}" for kind in _QDISCS), _qdiscs, seconds=20.0),
    Probe(("nftables",), _rules, seconds=20.0),
    Probe(("xdp-veth", "threaded-napi", "napi-owners"), _xdp_and_threads, seconds=20.0),
)
