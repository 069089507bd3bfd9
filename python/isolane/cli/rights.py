"""Checks for root, and for the capabilities that root may lack in a container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from isolane.errors import NotSupported

_BITS: Final = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
_ALL_IDS: Final = 4_294_967_295


def lacking(*names: str) -> list[str]:
    """Return the capabilities that this process lacks."""
    return [name for name in names if not _effective() >> _BITS[name] & 1]


def need_root(why: str, otherwise: str = "", *, bpf_alone: bool = False) -> None:
    """Refuse to go on without the right to change interfaces, namespaces and BPF programs.

    Parameters
    ----------
    why
        What root is needed for, such as ``sending frames needs root (BPF)``.
    otherwise
        What the user can do instead, if anything.
    bpf_alone
        The command only needs BPF programs, so the narrower capabilities are enough.

    Raises
    ------
    NotSupported
        Names what is missing.
    """
    without = lacking("CAP_NET_ADMIN", "CAP_SYS_ADMIN")
    if bpf_alone:  # the kernel takes CAP_SYS_ADMIN for all three
        narrow = lacking("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")
        without = narrow if lacking("CAP_SYS_ADMIN") else []
    if os.geteuid() != 0:
        raise NotSupported(
            f"not supported on this host: {why}; run the command with sudo{otherwise}"
        )
    if without:
        raise NotSupported(
            f"not supported on this host: {why}, and this root lacks {', '.join(without)}; "
            f"give the container all capabilities (--privileged){otherwise}"
        )
    if in_user_namespace():
        raise NotSupported(
            f"not supported on this host: {why}, and this is only the root of a user "
            f"namespace; run the command outside of it, with sudo{otherwise}"
        )


def _effective() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0


def in_user_namespace() -> bool:
    """Whether root is only that of a user namespace, which maps fewer users than the host has."""
    try:
        words = Path("/proc/self/uid_map").read_text().split()
    except OSError:  # a kernel without user namespaces
        return False
    return [int(word) for word in words] != [0, 0, _ALL_IDS]
