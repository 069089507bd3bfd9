"""What a host looks like, quickly: before and after each live test, and each row of misuse."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import struct
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from isolane.procfs import named_processes, words_of
from isolane.testbed import NETNS_DIR, kernel
from isolane.testbed.namespace_thread import run_in_thread
from pyroute2 import IPRoute

from tests.commands import is_command_server

RUN_DIR = Path("/run/isolane")
MARK = "ISOLANE_END_TO_END"
"""In the environment of every process that the tests start, and of its children: the tests' pid."""
BESIDE = "ISOLANE_TESTS_BESIDE"
"""Set in the environment of tests that run beside other live ones (marker ``beside``). They make
none of what no host of one's own hides, and do not look at what others make of it: cgroups, BPF
programs and maps, threads of NICs, the pacemaker."""
_INFO_BY_FD = 15
_OURS = re.compile(r"isl_|.*\.(rodata|bss|data)|(delays|flows|nics|threads|wires)$")
"""Names of our programs and maps, and of the maps that libbpf makes for the programs' variables."""
_SETTINGS = ("threaded", "gro_flush_timeout", "napi_defer_hard_irqs", "mtu", "flags")
_NR_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_libc = ctypes.CDLL(None, use_errno=True)

Look = dict[str, Any]


def look(netns: tuple[str, ...] = ()) -> Look:
    """Everything that a command could leave on the host, and in some more namespaces."""
    host_wide = {"cgroups": _groups, "programs": _PROGRAMS.ours, "maps": _MAPS.ours}
    return {
        **{what: look_at() for what, look_at in host_wide.items() if not _beside()},
        "namespaces": _names(NETNS_DIR),
        "pinned": _pinned(),
        "isolane's files": [name for name in _tree(RUN_DIR) if not name.endswith("/lock")],
        "network": _network(),
        **{f"network of {path}": run_in_thread(partial(_inside, path)) for path in netns},
    }


def look_around() -> Look:
    """Return the same, and what besides a test could leave: mounts, processes, sysctls, cores."""
    mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return {
        **look(),
        # Whoever first names a namespace, iproute2 or Isolane, makes that folder a mount.
        "mounts": sorted(mount[4] for mount in mounts if mount[4] != str(NETNS_DIR)),
        "processes": processes(),
        **({} if _beside() else {"NAPI threads": _napi_threads()}),
        "sysctls": _sysctls(),
        "own namespace": os.stat("/proc/thread-self/ns/net").st_ino,  # noqa: PTH116
        "own cores": sorted(os.sched_getaffinity(0)),
    }


def _beside() -> bool:
    return BESIDE in os.environ


def _napi_threads() -> list[str]:
    return sorted(name for _, name in named_processes() if name.startswith("napi/isl-"))


def processes() -> dict[int, str]:
    """Pacemakers, and what these tests have started: number and name of those that run."""
    found = {}
    mine = f"{MARK}={os.getpid()}".encode()
    for pid, name in named_processes():
        with contextlib.suppress(OSError):  # processes come and go
            words = words_of(pid)
            if (b"isolane.pacemaker" in words and not _beside()) or (
                pid != os.getpid()
                and not is_command_server(pid)
                and mine in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ):
                found[pid] = name
    return found


def _sysctls() -> dict[str, bytes]:
    """Settings of the network, without those of single interfaces and without counters."""
    found = {}
    for folder, below, names in os.walk("/proc/sys/net"):
        if folder.endswith(("/conf", "/neigh")):
            below[:] = [name for name in below if name in ("all", "default")]
        for name in names:
            with contextlib.suppress(OSError):  # some can be written only
                if not name.endswith("_count"):
                    found[f"{folder}/{name}"] = _read(f"{folder}/{name}")
    return found


def _read(path: str) -> bytes:
    """Return a short file, in half the time that Path.read_bytes() takes: there are hundreds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def _names(directory: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(os.listdir(directory))  # noqa: PTH208
    return []


def _groups() -> list[str]:
    """cgroups of ours, in every hierarchy; others come and go."""
    root = Path("/sys/fs/cgroup")
    found = [path for depth in ("*", "*/*") for path in root.glob(f"{depth}isolane*")]
    return sorted(f"{path}/{name}" for path in found for name in ("", *_below(path)))


def _below(path: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):  # gone meanwhile
        return [entry.name for entry in os.scandir(path) if entry.is_dir()]
    return []


def _tree(directory: Path) -> list[str]:
    """Return all that is below a directory; parts of it may go away meanwhile."""
    while directory.is_dir():
        with contextlib.suppress(FileNotFoundError):
            return sorted(str(path) for path in directory.rglob("*"))
    return []


def _pinned() -> list[str]:
    """Return what is pinned; tc makes its own, empty directories when it first loads a program."""
    root = Path("/sys/fs/bpf")
    made_by_tc = {str(root / name) for name in ("ip", "tc", "tc/globals", "xdp", "xdp/globals")}
    return [path for path in _tree(root) if path not in made_by_tc]


def _bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """bpf(2); returns its result, negative on failure, and the attributes afterwards."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = _libc.syscall(_NR_BPF[os.uname().machine], command, buffer, len(attributes))
    if result < 0:
        assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())
    return int(result), buffer.raw


@dataclass(frozen=True)
class _Objects:
    """BPF programs, or maps, of this kernel."""

    next_id: int
    fd_by_id: int
    name_at: int
    """Where the name stands in what the kernel tells of one (linux/bpf.h)."""
    names: dict[int, str] = field(default_factory=dict)
    """Asked for once."""

    def ours(self) -> list[int]:
        """Numbers of those whose names are like ours."""
        found: list[int] = []
        number = 0
        while True:
            result, answer = _bpf(self.next_id, struct.pack("=III4x", number, 0, 0))
            if result < 0:
                return found
            number = struct.unpack_from("=II", answer)[1]
            if number not in self.names:
                self.names[number] = self._name(number)
            if _OURS.match(self.names[number]):
                found.append(number)

    def _name(self, number: int) -> str:
        descriptor, _ = _bpf(self.fd_by_id, struct.pack("=III4x", number, 0, 0))
        if descriptor < 0:  # gone meanwhile
            return ""
        try:
            info = ctypes.create_string_buffer(self.name_at + 16)
            request = struct.pack("=IIQ", descriptor, len(info), ctypes.addressof(info))
            _bpf(_INFO_BY_FD, request)
        finally:
            os.close(descriptor)
        return info.raw[self.name_at :].partition(b"\0")[0].decode(errors="replace")


_PROGRAMS = _Objects(next_id=11, fd_by_id=13, name_at=64)
_MAPS = _Objects(next_id=12, fd_by_id=14, name_at=24)


def hold_map(number: int) -> int:
    """Open a BPF map, which stays until the descriptor is closed."""
    return _bpf(_MAPS.fd_by_id, struct.pack("=III4x", number, 0, 0))[0]


def _inside(path: str) -> Look:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.setns_net(descriptor)
    finally:
        os.close(descriptor)
    return _network()


def _network() -> Look:
    """Links, their settings, programs and qdiscs, in the thread's namespace."""
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
