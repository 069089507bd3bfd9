"""Who may do what: root, and the capabilities that a root may lack in a container."""

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
    """Return those of the capabilities that this process does not have."""
    return [name for name in names if not _effective() >> _BITS[name] & 1]


def need_root(why: str, otherwise: str = "", *, bpf_alone: bool = False) -> None:
    """Refuse to go on without root that may change interfaces, namespaces and BPF programs.

    Parameters
    ----------
    why
        What root is needed for, such as ``this needs root (BPF)``.
    otherwise
        What to do instead, if there is something.
    bpf_alone
        BPF programs are all that it takes, so the narrower capabilities do as well.

    Raises
    ------
    NotSupported
        Naming what is lacking.
    """
    without = lacking("CAP_NET_ADMIN", "CAP_SYS_ADMIN")
    if bpf_alone:  # the kernel takes CAP_SYS_ADMIN for all three
        narrow = lacking("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN")
        without = narrow if lacking("CAP_SYS_ADMIN") else []
    if os.geteuid() != 0:
        raise NotSupported(f"not supported on this host: {why}; run it with sudo{otherwise}")
    if without:
        raise NotSupported(
            f"not supported on this host: {why}, and this root lacks {', '.join(without)}; "
            f"give its container all capabilities (--privileged){otherwise}"
        )
    if in_user_namespace():
        raise NotSupported(
            f"not supported on this host: {why}, and this is the root of a user namespace only; "
            f"run it outside, with sudo{otherwise}"
        )


def _effective() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0


def in_user_namespace() -> bool:
    """Whether root here is not the host's: it maps fewer users than there are."""
    try:
        words = Path("/proc/self/uid_map").read_text().split()
    except OSError:  # a kernel without user namespaces
        return False
    return [int(word) for word in words] != [0, 0, _ALL_IDS]
