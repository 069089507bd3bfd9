"""What a host looks like, quickly: before and after each live test, and each row of misuse."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from isolane.procfs import named_processes, thread_name, words_of
from isolane.testbed import NETNS_DIR, kernel
from isolane.testbed.namespace_thread import run_in_thread
from pyroute2 import IPRoute

from tests.commands import is_command_server

RUN_DIR = Path("/run/isolane")
MARK = "ISOLANE_END_TO_END"
"""In the environment of every process that the tests start, and of its children: the tests' pid."""
HELD = "programs and maps"
_SETTINGS = ("threaded", "gro_flush_timeout", "napi_defer_hard_irqs", "mtu", "flags")
_STARTED_S = 300.0
_ENV_END = 51 - 3
"""proc_pid_stat(5): where the environment ends, 0 until it is there; after the name."""
_NR_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_MAP_BY_ID = 14
_libc = ctypes.CDLL(None, use_errno=True)

Look = dict[str, Any]


def look(netns: tuple[str, ...] = ()) -> Look:
    """Everything that a command could leave on the host, and in some more namespaces."""
    started, _ = _processes()
    return _look(started, netns)


def _look(started: dict[int, str], netns: tuple[str, ...] = ()) -> Look:
    return {
        "cgroups": _groups(),
        HELD: _held(started),
        "namespaces": _names(NETNS_DIR),
        "pinned": _pinned(),
        "isolane's files": [name for name in _tree(RUN_DIR) if not name.endswith("/lock")],
        "network": _network(),
        **{f"network of {path}": run_in_thread(partial(_inside, path)) for path in netns},
    }


def look_around() -> Look:
    """Return the same, and what besides a test could leave: mounts, processes, sysctls, cores."""
    mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    started, pacemakers = _processes()
    return {
        **_look(started),
        # Whoever first names a namespace, iproute2 or Isolane, makes that folder a mount.
        "mounts": sorted(mount[4] for mount in mounts if mount[4] != str(NETNS_DIR)),
        "processes": started | pacemakers,
        "sysctls": _sysctls(),
        "own namespace": os.stat("/proc/thread-self/ns/net").st_ino,  # noqa: PTH116
        "own cores": sorted(os.sched_getaffinity(0)),
    }


def _processes() -> tuple[dict[int, str], dict[int, str]]:
    """What these tests have started, or its children, and pacemakers: number and name of each."""
    mine = f"{MARK}={os.getpid()}".encode()
    started, pacemakers = {}, {}
    for pid, _ in named_processes():
        with contextlib.suppress(OSError):  # processes come and go
            environment, name = environment_of(pid), thread_name(pid)
            if not environment or pid == os.getpid() or is_command_server(pid):
                continue  # most are threads of the kernel's, which have none
            if mine in environment.split(b"\0"):
                started[pid] = name
            elif b"isolane.pacemaker" in words_of(pid) and _on_this_host(pid):
                pacemakers[pid] = name
    return started, pacemakers


def environment_of(pid: int) -> bytes:
    """Read the environment of a process; nothing of a kernel thread, or one that has ended.

    One that is just being started has none for a moment, and its former name: execve(2) tells its
    parent that it succeeded before it has written either. It is asked until it has.
    """
    process = f"/proc/{pid}"
    deadline = time.monotonic() + _STARTED_S
    while not (found := _read(f"{process}/environ")) and time.monotonic() < deadline:
        Path(process, "exe").readlink()  # OSError where it has no program, and gets none
        if int(_read(f"{process}/stat").rpartition(b")")[2].split()[_ENV_END]):
            break  # it has come since, or is empty
        time.sleep(0.001)
    return found or _read(f"{process}/environ")


def _on_this_host(pid: int) -> bool:
    """Whether it has the mounts of this process: tools/private-host gives others others."""
    return (Path("/proc") / str(pid) / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()


def _held(started: Iterable[int]) -> list[str]:
    """BPF programs, maps and links that these tests and what they have started have open.

    The others that the kernel has are somebody else's, or pinned or attached to an interface, which
    is looked at, too.
    """
    found = set()
    for pid in (os.getpid(), *started):
        with contextlib.suppress(OSError):  # processes come and go
            found |= _opened(Path(f"/proc/{pid}"))
    return sorted(found)


def _opened(process: Path) -> set[str]:
    found = set()
    for descriptor in os.listdir(process / "fd"):  # noqa: PTH208 - they are names
        with contextlib.suppress(OSError):  # descriptors come and go
            if str((process / "fd" / descriptor).readlink()).startswith("anon_inode:bpf"):
                lines = _read(f"{process}/fdinfo/{descriptor}").decode().splitlines()
                found |= {line for line in lines if line.startswith(("prog_id", "map_id"))}
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


def hold_map(number: int) -> int:
    """Open a BPF map, which stays until the descriptor is closed; negative when it is gone."""
    request = struct.pack("=III4x", number, 0, 0)
    buffer = ctypes.create_string_buffer(request, len(request))
    call = _NR_BPF[os.uname().machine]
    return int(_libc.syscall(call, _MAP_BY_ID, buffer, len(request)))


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
