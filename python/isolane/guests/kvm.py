"""Whether KVM really runs virtual machines on this host: tried, not looked up."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from isolane.errors import IsolaneError
from isolane.guests import tiny_machine
from isolane.guests.qemu import QemuGuest, QemuPlan, lacking

TINY_LIMIT_S: Final = 2.0
"""Above :data:`SLOW_S`; a KVM that hangs keeps a core busy until its time is over."""
SLOW_S: Final = 1.0
"""Emulation starts a machine this small in 0.2 s; a KVM that takes longer is of no use."""
BOOT_LIMIT_S: Final = 10.0
"""A whole kernel boots in 2.4 s under emulation, on an idle core."""


@cache
def fault() -> str:
    """Return what is wrong with KVM on this host; empty if it starts a machine of 512 bytes."""
    device = Path("/dev/kvm")
    if not device.exists():
        return f"no {device}"
    found = tiny_machine.start("kvm", TINY_LIMIT_S)
    if not found.ran:
        return f"a virtual machine of 512 bytes {found.message}"
    return "" if found.seconds <= SLOW_S else f"it {found.message}: slower than emulation"


@cache
def fault_with_routers() -> str:
    """Return why no router can run under KVM on this host; empty if one really booted.

    There are hosts whose KVM starts 512 bytes and no Linux. It is tried once in a process's life;
    as root only, as the routers.
    """
    if why := lacking("kvm") or fault():
        return why
    with tempfile.TemporaryDirectory(prefix="isolane-guest-") as folder:
        plan = QemuPlan(f"kvm-{os.getpid()}", accelerator="kvm")
        try:
            with QemuGuest(plan, BOOT_LIMIT_S, Path(folder)):
                return ""
        except IsolaneError as error:
            return str(error)
