"""Whether bridges hand their frames to netfilter: br_netfilter, one setting for each namespace.

The kernel switches it on in each new namespace, whatever the host's own says. So a test bed has to
be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isolane.errors import NotSupported

FOLDER: Final = Path("/proc/sys/net/bridge")
"""Of the namespace that the thread is in; not there: the kernel has no br_netfilter, so that no
bridge hands a frame to netfilter."""
KINDS: Final = ("arptables", "ip6tables", "iptables")


def here() -> dict[str, bool]:
    """Return whose rules a bridge of the thread's namespace applies; empty without br_netfilter."""
    return {kind: bool(int(file.read_text())) for kind, file in _files().items() if file.exists()}


def _files() -> dict[str, Path]:
    return {kind: FOLDER / f"bridge-nf-call-{kind}" for kind in KINDS}


def settings(found: Mapping[str, bool], *, asked: bool | None) -> dict[str, int]:
    """Return the sysctls below ``net/`` for a namespace with bridges. Pure.

    Parameters
    ----------
    found
        Of the host's own namespace, from :func:`here`.
    asked
        What the experiment says; None: as on the host.

    Raises
    ------
    NotSupported
        If it is asked for and the kernel has no br_netfilter.
    """
    if asked and not found:
        raise NotSupported(
            "bridge_netfilter on: this kernel has no br_netfilter (modprobe br_netfilter)"
        )
    return {
        f"bridge/bridge-nf-call-{kind}": int(on if asked is None else asked)
        for kind, on in found.items()
    }


def passes(found: Mapping[str, bool], ip: int, *, asked: bool | None) -> bool:
    """Tell whether frames of an IP version pass netfilter on a bridge. Pure."""
    kind = "iptables" if ip == 4 else "ip6tables"
    return found.get(kind, False) if asked is None else asked and bool(found)


def described(found: Mapping[str, bool]) -> str:
    """Return for people what :func:`here` has found. Pure."""
    if not found:
        return "no br_netfilter"
    return ", ".join(kind for kind, on in found.items() if on) or "off"
