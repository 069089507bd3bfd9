"""What a host looks like, quickly: taken before and after each row."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from functools import partial
from pathlib import Path
from typing import Any

from isolane.testbed import NETNS_DIR, kernel
from isolane.testbed.hands import apart
from pyroute2 import IPRoute

RUN_DIR = Path("/run/isolane")
_NEXT_PROGRAM, _NEXT_MAP = 11, 12
_SETTINGS = ("threaded", "gro_flush_timeout", "napi_defer_hard_irqs", "mtu", "flags")
_NR_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_libc = ctypes.CDLL(None, use_errno=True)

Look = dict[str, Any]


def look(netns: tuple[str, ...] = ()) -> Look:
    """Everything that a command could leave on the host, and in some more namespaces."""
    return {
        "namespaces": _names(NETNS_DIR),
        "control groups": _groups(),
        "programs": _bpf_ids(_NEXT_PROGRAM),
        "maps": _bpf_ids(_NEXT_MAP),
        "pinned": _tree(Path("/sys/fs/bpf")),
        "isolane's files": [name for name in _tree(RUN_DIR) if not name.endswith("/lock")],
        "network": _network(),
        **{f"network of {path}": apart(partial(_inside, path)) for path in netns},
    }


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []  # noqa: PTH208


def _groups() -> list[str]:
    """Control groups of ours, in every hierarchy; others come and go."""
    root = Path("/sys/fs/cgroup")
    found = [path for depth in ("*", "*/*") for path in root.glob(f"{depth}isolane*")]
    return sorted(f"{path}/{name}" for path in found for name in ("", *_below(path)))


def _below(path: Path) -> list[str]:
    return [entry.name for entry in os.scandir(path) if entry.is_dir()]


def _tree(directory: Path) -> list[str]:
    if not directory.is_dir():
        return []
    return sorted(str(path) for path in directory.rglob("*"))


def _bpf_ids(command: int) -> list[int]:
    """Numbers of all programs or maps of this kernel."""
    found: list[int] = []
    number = 0
    call = _NR_BPF[os.uname().machine]
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 16)
        if _libc.syscall(call, command, attributes, 16) < 0:
            assert ctypes.get_errno() in (errno.ENOENT, errno.EPERM)
            return found
        number = struct.unpack_from("=II", attributes.raw)[1]
        found.append(number)


def _inside(path: str) -> Look:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.setns_net(descriptor)
    finally:
        os.close(descriptor)
    return _network()


def _network() -> Look:
    """Links, their settings, programs and queueing disciplines, in the thread's namespace."""
    with IPRoute() as netlink:
        links = {
            link["index"]: (
                link.get_attr("IFLA_IFNAME"),
                link["flags"] & 1,
                link.get_attr("IFLA_MTU"),
                str(link.get_attr("IFLA_XDP")),
            )
            for link in netlink.get_links()
        }
        qdiscs = sorted(
            (qdisc["index"], qdisc["handle"], qdisc["parent"], str(qdisc.get_attr("TCA_KIND")))
            for qdisc in netlink.get_qdiscs()
        )
    return {"links": links, "settings": _settings(), "qdiscs": qdiscs}


def _settings() -> dict[str, str]:
    found = {}
    root = kernel.open_detached()
    try:
        links = os.open("class/net", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
        try:
            names = os.listdir(links)  # noqa: PTH208 - a descriptor has no path
        finally:
            os.close(links)
        for name in names:
            for setting in _SETTINGS:
                with contextlib.suppress(OSError):
                    file = os.open(f"class/net/{name}/{setting}", os.O_RDONLY, dir_fd=root)
                    try:
                        found[f"{name}/{setting}"] = os.read(file, 64).decode().strip()
                    finally:
                        os.close(file)
    finally:
        os.close(root)
    return found


def files(directory: Path) -> dict[str, tuple[int, ...]]:
    """What is in a directory: its kind and mode, size and time of change."""
    found: dict[str, tuple[int, ...]] = {}
    for path in directory.rglob("*"):
        status = path.lstat()
        size = 0 if path.is_dir() else status.st_size
        when = 0 if path.is_dir() else status.st_mtime_ns
        found[str(path.relative_to(directory))] = (status.st_mode, size, when, status.st_rdev)
    return found
