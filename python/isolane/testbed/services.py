"""Has a router's kernel do more with each frame than pass it on: nftables' rules, tracking, NAT."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Final

from isolane.errors import NotSupported, TestbedError
from isolane.spec.services_models import Services
from isolane.testbed.netns import Namespace

_PROGRAM: Final = "nft"
_TIMEOUT_S: Final = 60.0
_NOBODY: Final = {4: "ip daddr 203.0.113.{}", 6: "ip6 daddr 2001:db8:ffff::{:x}"}
"""Matches what no frame of a test bed is sent to (RFC 5737, RFC 3849)."""
TRACKING: Final = "/proc/thread-self/net/stat/nf_conntrack"
"""What the tracking of the thread's namespace did, a line for each core."""


def refuse_lacking(routers: Iterable[str]) -> None:
    """Raise NotSupported where routers have services and this host has no nft(8)."""
    names = ", ".join(dict.fromkeys(routers))
    if names and shutil.which(_PROGRAM) is None:
        raise NotSupported(
            f"services of router {names}: there is no {_PROGRAM}(8) on this host; install the "
            "package nftables"
        )


def ruleset(services: Services, ip: int, out_ifname: str) -> str:
    """Return the rules as nft(8) reads them. Pure.

    Parameters
    ----------
    ip
        IP version of the frames, 4 or 6.
    out_ifname
        The interface that the router sends by.
    """
    match = _NOBODY[ip]
    rules = [f"{match.format(number % 254 + 1)} drop" for number in range(services.nftables)]
    if services.tracks:  # a rule that asks for the state is what makes the kernel track
        rules.append("ct state invalid counter")
    lines = [
        "table inet isolane {",
        " chain forward {",
        "  type filter hook forward priority filter; policy accept;",
        *(f"  {rule}" for rule in rules),
        " }",
    ]
    if services.nat:
        lines += [
            " chain leave {",
            "  type nat hook postrouting priority srcnat; policy accept;",
            f'  oifname "{out_ifname}" masquerade',
            " }",
        ]
    return "\n".join([*lines, "}", ""])


def begin(namespace: Namespace, router: str, text: str) -> None:
    """Give the rules to a router's kernel; the thread is in its namespace afterwards.

    Raises
    ------
    NotSupported
        If there is no nft(8) here, or the kernel lacks what the rules need.
    TestbedError
        If nft(8) hangs.
    """
    refuse_lacking([router])
    namespace.enter()
    try:
        done = subprocess.run(
            [_PROGRAM, "-f", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TestbedError(
            f"services of router {router}: {_PROGRAM} did not end within {_TIMEOUT_S:.0f} s"
        ) from None
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise NotSupported(
            f"services of router {router}: the kernel takes no such rules (nftables with inet "
            f"tables, connection tracking and NAT): {why}"
        )


def open_tracking() -> int:
    """Open what the tracking of the thread's namespace tells; return the descriptor.

    Raises
    ------
    NotSupported
        If this kernel does not tell it.
    """
    try:
        return os.open(TRACKING, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotSupported(
            "services: the kernel does not tell what connection tracking refuses "
            "(CONFIG_NF_CONNTRACK_PROCFS), so that lost frames could not be accounted for"
        ) from None


def refused(text: str) -> int:
    """Return the frames that were dropped because their flow could not be put into the table.

    They had found a route by then. What the table refuses at the entrance never finds one, and is
    among the frames without a route already. Pure.

    Raises
    ------
    TestbedError
        If the kernel does not tell.
    """
    head, *cores = text.splitlines()
    try:
        column = head.split().index("insert_failed")
    except ValueError:
        raise TestbedError("the kernel does not tell what connection tracking refused") from None
    return sum(int(line.split()[column], 16) for line in cores)
