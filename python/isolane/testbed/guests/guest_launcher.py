"""Becomes a hypervisor's process; a program of its own, run by the test bed for each guest.

It enters the guest's cgroup, takes a mount namespace in which almost nothing of the host is left,
and only then executes the hypervisor, which started as the caller would see too much. It imports
nothing but the standard library, because it starts often and is not to cost much.

What the guest sees is the folder ``guest`` of the new root: ``/usr`` of the host, read-only, and
its init. ``/root``, ``/home`` and all else of the host are not there.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NOSUID, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
_DEVICES = ("null", "zero", "urandom", "random", "net/tun")
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_SPARE_BYTES = 8 << 20
"""Beside a guest's memory, which the hypervisor keeps in a file."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: Path, kind: str | None, flags: int, data: str = "") -> None:
    done = _libc.mount(
        source.encode(), os.fsencode(target), kind and kind.encode(), ctypes.c_ulong(flags),
        data.encode() or None,
    )  # fmt: skip
    _checked(done, f"mount {source} on {target}")


def _bind(source: str, target: Path, *, read_only: bool) -> None:
    _mount(source, target, None, _MS_BIND | _MS_REC)
    if read_only:
        _mount("none", target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID)


def _merged_usr(root: Path) -> None:
    """Add the host's /usr, read-only, and the links of a merged /usr (Debian 12 and later)."""
    (root / "usr").mkdir()
    _bind("/usr", root / "usr", read_only=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")


def build_root(root: Path, init: str, memory_bytes: int) -> None:
    """Build what hypervisor and guest see of files, upon ``root``, in a mount namespace."""
    _checked(_libc.unshare(_CLONE_NEWNS), "unshare(CLONE_NEWNS)")
    _mount("none", Path("/"), None, _MS_REC | _MS_PRIVATE)
    _mount("isolane", root, "tmpfs", _MS_NOSUID, "size=1m,mode=755")
    _merged_usr(root)
    for name in ("proc", "dev/net", "shm"):
        (root / name).mkdir(parents=True)
    _bind("/proc", root / "proc", read_only=False)
    for name in _DEVICES:
        (root / "dev" / name).touch()
        _bind(f"/dev/{name}", root / "dev" / name, read_only=False)
    _mount("memory", root / "shm", "tmpfs", 0, f"size={memory_bytes + _SPARE_BYTES},mode=700")
    guest = root / "guest"
    guest.mkdir()
    _merged_usr(guest)
    for name in ("proc", "sys", "dev"):
        (guest / name).mkdir()
    (guest / "init").write_text(init)
    (guest / "init").chmod(0o755)
    _mount("isolane", root, None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)


def hide_wide_registers() -> None:
    """Have ptrace(2) refuse the extended register set (XSAVE), on CPUs with AMX.

    User-Mode Linux 6.1 reads it into 2,696 bytes, and Linux takes back only the whole of it, which
    with AMX is 11,008. Where the host refuses the set User-Mode Linux falls back to the legacy one
    (save_i387_registers() in arch/x86/um/os-Linux/registers.c), which all CPUs have.
    """
    load, equal, give = 0x20, 0x15, 0x06
    ptrace_call, get_set, extended = 101, 0x4204, 0x202  # PTRACE_GETREGSET, NT_X86_XSTATE
    refuse, allow = 0x50000 | 19, 0x7FFF0000  # SECCOMP_RET_ERRNO with ENODEV, SECCOMP_RET_ALLOW
    steps = (
        (load, 0, 0, 0), (equal, 0, 5, ptrace_call),  # offsets in struct seccomp_data
        (load, 0, 0, 16), (equal, 0, 3, get_set),
        (load, 0, 0, 32), (equal, 0, 1, extended),
        (give, 0, 0, refuse), (give, 0, 0, allow),
    )  # fmt: skip
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HxxxxxxQ", len(steps), ctypes.addressof(buffer))
    done = _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)
    _checked(done, "prctl(PR_SET_SECCOMP)")


def _has_wide_registers() -> bool:
    flags = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in x), "")
    return "amx_tile" in flags.split()


def become(order: dict[str, Any]) -> None:
    """Carry out an order: keys ``group``, ``root``, ``init``, ``memory_bytes``, ``command``."""
    (Path(order["group"]) / "cgroup.procs").write_text(str(os.getpid()))
    build_root(Path(order["root"]), order["init"], order["memory_bytes"])
    os.chroot(order["root"])
    os.chdir("/")
    if _has_wide_registers():
        hide_wide_registers()
    command = order["command"]
    environment = {"PATH": "/usr/bin:/usr/sbin", "HOME": "/shm", "TMPDIR": "/shm"}
    os.execve(command[0], command, environment)  # noqa: S606 - this is what it is for


if __name__ == "__main__":
    become(json.loads(sys.argv[1]))
