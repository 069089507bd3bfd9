"""System calls and ioctls that neither Python nor pyroute2 offers: the thinnest possible layer.

Everything here acts on the calling *thread* or on what it is given; nothing keeps state.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNET = 0x40000000
MS_BIND = 4096
MS_REC = 16384
MS_SHARED = 1 << 20
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

# linux/mount.h; numbers of the x86-64 and of the generic (arm64, riscv) table alike
_NR_FSOPEN, _NR_FSCONFIG, _NR_FSMOUNT = 430, 431, 432
_FSCONFIG_CMD_CREATE = 6
_CLOEXEC = 1
_MOUNT_ATTR_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8

_NR_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_BPF_PROG_GET_FD_BY_ID = 13
_BPF_MAP_GET_FD_BY_ID = 14
_BPF_ATTR_BYTES = 16

_SIOCETHTOOL = 0x8946
_ETHTOOL_GSTRINGS, _ETHTOOL_GSTATS, _ETHTOOL_GSSET_INFO = 0x1B, 0x1D, 0x37
_ETH_SS_STATS, _ETH_GSTRING_LEN = 1, 32
_MAX_COUNTERS = 4096 * 16 + 64
"""More than a veth can have: 4096 queues (rtnetlink's limit), some 9 for each, some of its own."""
_OFFLOADS = {"tx": (0x16, 0x17), "tso": (0x1E, 0x1F), "gro": (0x2B, 0x2C)}
"""ETHTOOL_G... and ETHTOOL_S... of features that have a command of their own."""
_ETHTOOL_GFLAGS, _ETHTOOL_SFLAGS = 0x25, 0x26
_OFFLOAD_FLAGS = {"txvlan": 1 << 7, "rxvlan": 1 << 8, "lro": 1 << 15, "ntuple": 1 << 27}

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def unshare_net() -> None:
    """Put the calling thread into a new, empty network namespace."""
    _checked(_libc.unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)")


def setns_net(fd: int) -> None:
    """Put the calling thread into the network namespace behind ``fd``."""
    _checked(_libc.setns(fd, CLONE_NEWNET), "setns(CLONE_NEWNET)")


def open_own_net() -> int:
    """Open the calling thread's network namespace (the process's may be another)."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def mount(source: str, target: Path, flags: int) -> None:
    """mount(2) without file system type and data: binds and changes of propagation."""
    done = _libc.mount(source.encode(), os.fsencode(target), None, ctypes.c_ulong(flags), None)
    _checked(done, f"mount {source} on {target}")


def unmount(target: Path, flags: int = 0) -> None:
    """umount2(2), never through a symbolic link."""
    _checked(_libc.umount2(os.fsencode(target), flags | UMOUNT_NOFOLLOW), f"umount {target}")


def open_detached(file_system: str = "sysfs") -> int:
    """Open a file system of the kernel's own that is mounted nowhere.

    A sysfs shows in ``class/net`` the interfaces of the network namespace that the *mount* was
    made in, so the files of another namespace need a mount of their own, made by a thread that
    has entered it. A detached one leaves nothing behind and does not keep the namespace alive.

    Returns
    -------
    int
        A directory descriptor, for ``dir_fd``.
    """
    context = _checked(
        _syscall(_NR_FSOPEN, file_system.encode(), _CLOEXEC), f"fsopen({file_system})"
    )
    try:
        create = _syscall(_NR_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        _checked(create, f"fsconfig({file_system})")
        attributes = _MOUNT_ATTR_NOSUID_NODEV_NOEXEC
        return _checked(
            _syscall(_NR_FSMOUNT, context, _CLOEXEC, attributes), f"fsmount({file_system})"
        )
    finally:
        os.close(context)


def ethtool(sock: socket.socket, ifname: str, request: bytes, size: int = 0) -> bytes:
    """Return what the kernel makes of an ethtool structure, with room for ``size`` bytes more."""
    answer = ctypes.create_string_buffer(request, len(request) + size)
    _ethtool_at(sock, ifname, ctypes.addressof(answer))
    return bytes(answer.raw)


def _ethtool_at(sock: socket.socket, ifname: str, address: int) -> None:
    # A name may be any bytes: in a container it is whoever has that who chooses it.
    command = struct.pack("16sP16x", os.fsencode(ifname), address)
    fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, command)


def _ethtool_statistics(sock: socket.socket, ifname: str, request: bytes, size: int) -> bytes:
    """Return what the kernel says of all counters: first ``request``, then ``size`` bytes of them.

    It may write as many as there are by then, whatever it was told: a container may have changed
    the queues of its interface meanwhile. So there is space for as many as there can be, of which
    pages that nobody writes to cost nothing.
    """
    space = len(request) + max(size, _MAX_COUNTERS * _ETH_GSTRING_LEN)
    with mmap.mmap(-1, space, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        area[: len(request)] = request
        first = ctypes.c_char.from_buffer(area)
        try:
            _ethtool_at(sock, ifname, ctypes.addressof(first))
        finally:
            del first  # else the area cannot be given back
        return area[: len(request) + size]


def _ethtool_value(sock: socket.socket, ifname: str, command: int, value: int) -> int:
    answer = ethtool(sock, ifname, struct.pack("=II", command, value))
    return int(struct.unpack("=II", answer)[1])


def counter_names(sock: socket.socket, ifname: str) -> list[str]:
    """Return the names of a driver's counters (``ethtool -S``); empty where it has none."""
    asked = struct.pack("=IIQI", _ETHTOOL_GSSET_INFO, 0, 1 << _ETH_SS_STATS, 0)
    _, _, mask, count = struct.unpack("=IIQI", ethtool(sock, ifname, asked))
    if not mask or not count:
        return []
    head = struct.pack("=III", _ETHTOOL_GSTRINGS, _ETH_SS_STATS, count)
    answer = _ethtool_statistics(sock, ifname, head, count * _ETH_GSTRING_LEN)
    if struct.unpack_from("=III", answer)[2] != count:
        return []  # they have just become others
    names = answer[len(head) :]
    cut = (names[at : at + _ETH_GSTRING_LEN] for at in range(0, len(names), _ETH_GSTRING_LEN))
    return [name.partition(b"\0")[0].decode(errors="replace") for name in cut]


def counters(sock: socket.socket, ifname: str) -> list[tuple[str, int]]:
    """Return a driver's counters, names and values; empty, too, if they just become others."""
    names = counter_names(sock, ifname)
    if not names:
        return []
    head = struct.pack("=II", _ETHTOOL_GSTATS, len(names))
    answer = _ethtool_statistics(sock, ifname, head, 8 * len(names))
    if struct.unpack_from("=II", answer)[1] != len(names):
        return []
    values = struct.unpack_from(f"={len(names)}Q", answer, len(head))
    return list(zip(names, values, strict=True))


def get_offload(sock: socket.socket, ifname: str, feature: str) -> bool:
    """Tell whether a feature is on, one of ``_OFFLOADS`` or ``_OFFLOAD_FLAGS``."""
    if feature in _OFFLOADS:
        return bool(_ethtool_value(sock, ifname, _OFFLOADS[feature][0], 0))
    return bool(_ethtool_value(sock, ifname, _ETHTOOL_GFLAGS, 0) & _OFFLOAD_FLAGS[feature])


def set_offload(sock: socket.socket, ifname: str, feature: str, *, on: bool) -> None:
    """Switch a feature of ``ifname``, in the namespace of ``sock``; see :func:`get_offload`."""
    if feature in _OFFLOADS:
        _ethtool_value(sock, ifname, _OFFLOADS[feature][1], int(on))
        return
    flag = _OFFLOAD_FLAGS[feature]
    flags = _ethtool_value(sock, ifname, _ETHTOOL_GFLAGS, 0)
    _ethtool_value(sock, ifname, _ETHTOOL_SFLAGS, flags | flag if on else flags & ~flag)


def program_exists(number: int) -> bool:
    """Tell whether the BPF program with this id is (still) there."""
    return _bpf_has(_BPF_PROG_GET_FD_BY_ID, number)


def map_exists(number: int) -> bool:
    """Tell whether the BPF map with this id is (still) there."""
    return _bpf_has(_BPF_MAP_GET_FD_BY_ID, number)


def _bpf_has(command: int, number: int) -> bool:
    attributes = ctypes.create_string_buffer(struct.pack("=I", number), _BPF_ATTR_BYTES)
    call = _NR_BPF[os.uname().machine]
    fd = _syscall(call, command, attributes, _BPF_ATTR_BYTES)
    if fd < 0:
        return ctypes.get_errno() != errno.ENOENT
    os.close(fd)
    return True
