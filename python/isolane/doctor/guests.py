"""Virtual machines: really starts one of each sort, within a time limit."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isolane.doctor.answers import Answer, Probe
from isolane.errors import NotSupported, TestbedError
from isolane.guests import KERNEL, GuestKernel, UmlGuest, UmlPlan, kvm, tiny_machine
from isolane.guests.qemu import EMULATOR
from isolane.guests.tiny_machine import KILL_WAIT_S

_LIMIT_S: Final = 5.0
_UML_LIMIT_S: Final = 10.0
"""A whole Linux boots in 0.5 s where nobody else wants the cores."""


def _qemu_lacking() -> Answer | None:
    if shutil.which(EMULATOR) is None:
        return Answer("unknown", f"not tried: {EMULATOR} is not installed")
    return None


def _kvm() -> Mapping[str, Answer]:
    lacking = _qemu_lacking() if Path("/dev/kvm").exists() else None
    fault = "" if lacking else kvm.fault()
    if lacking or fault:
        return {"kvm": lacking or Answer("no", fault)}
    answer = _for_routers("a virtual machine of 512 bytes started and ended at once")
    if answer.status == "yes" and os.geteuid() == 0 and (fault := kvm.fault_with_routers()):
        answer = Answer("no", f"512 bytes start, but a router does not: {fault}")
    return {"kvm": answer}


def _tcg() -> Mapping[str, Answer]:
    if lacking := _qemu_lacking():
        return {"tcg": lacking}
    start = tiny_machine.start("tcg", _LIMIT_S)
    detail = f"a virtual machine {start.message}"
    return {"tcg": _for_routers(detail) if start.ran else Answer("no", detail)}


def _for_routers(detail: str) -> Answer:
    """Return the answer of a hypervisor that works, by whether there is a kernel for routers."""
    lacks = GuestKernel.installed().lacking()
    return Answer("limited", f"{detail}; {lacks}") if lacks else Answer("yes", detail)


def _uml() -> Mapping[str, Answer]:
    if os.geteuid() != 0:
        raise PermissionError(errno.EPERM, "a mount namespace")
    began = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="isolane-doctor-") as folder,
            UmlGuest(UmlPlan("doctor"), _UML_LIMIT_S, Path(folder)),
        ):
            seconds = time.monotonic() - began
    except NotSupported:
        return {"uml": Answer("unknown", f"not tried: {KERNEL} is not installed")}
    except TestbedError as error:
        return {"uml": Answer("no", str(error))}
    return {"uml": Answer("yes", f"a guest was ready in {seconds:.1f} s")}


def _devices() -> Mapping[str, Answer]:
    vhost = Path("/dev/vhost-net")
    vfio = Path("/dev/vfio/vfio")
    groups = Path("/sys/kernel/iommu_groups")
    count = len(list(groups.iterdir())) if groups.exists() else 0
    if count and vfio.exists():
        iommu = Answer("yes", f"{count} IOMMU groups and {vfio}")
    elif count:
        iommu = Answer("limited", f"{count} IOMMU groups, but no {vfio}")
    else:
        iommu = Answer("no", "no IOMMU groups" + ("" if vfio.exists() else f", no {vfio}"))
    return {
        "vhost-net": Answer("yes", str(vhost)) if vhost.exists() else Answer("no", f"no {vhost}"),
        "iommu": iommu,
    }


PROBES: tuple[Probe, ...] = (
    Probe(("kvm",), _kvm, seconds=kvm.TINY_LIMIT_S + KILL_WAIT_S + kvm.BOOT_LIMIT_S + 5),
    Probe(("tcg",), _tcg, seconds=_LIMIT_S + KILL_WAIT_S + 3),
    Probe(("uml",), _uml, seconds=_UML_LIMIT_S + KILL_WAIT_S + 5),
    Probe(("vhost-net", "iommu"), _devices),
)
