"""Reads the facts about this host that a run folder keeps."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from isolane import __version__
from isolane.procfs import memory_info
from isolane.results.results import HostFacts
from isolane.testbed import bridge_netfilter

PACKAGES = ("pyroute2", "polars", "scipy", "pydantic", "altair")
TOOLS = ("clang", "ip", "ethtool")
TOOL_LIMIT_S = 5


def host_facts() -> HostFacts:
    """Describe the machine; a fact that cannot be read is left out."""
    cpuinfo = _fields(Path("/proc/cpuinfo"))
    return HostFacts(
        kernel=f"{platform.system()} {platform.release()} {platform.version()}",
        cpu=cpuinfo.get("model name", platform.machine()),
        cores=os.cpu_count() or 1,
        memory_bytes=memory_info().get("MemTotal", 0),
        versions=_versions(),
        clocksource=_text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        hypervisor=_hypervisor(cpuinfo),
        mitigations=_mitigations(),
        nics=(),
        bridge_netfilter=bridge_netfilter.described(bridge_netfilter.here()),
    )


def _fields(path: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in path.read_text().splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    return fields


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def _hypervisor(cpuinfo: dict[str, str]) -> str | None:
    """Name the hypervisor: the CPU's flags say that there is one, the board's name mostly which."""
    if "hypervisor" not in cpuinfo.get("flags", "").split():
        return None
    board = _text("/sys/class/dmi/id/sys_vendor")
    return "yes, of unknown make" if board == "unknown" else board


def _mitigations() -> str:
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    if not folder.is_dir():
        return "unknown"
    active = [
        f"{file.name}: {text.removeprefix('Mitigation: ')}"
        for file in sorted(folder.iterdir())
        if (text := _text(str(file))) not in ("Not affected", "unknown")
    ]
    return "; ".join(active) or "none needed"


def _versions() -> dict[str, str]:
    versions = {"isolane": __version__, "python": sys.version.split()[0]}
    for package in PACKAGES:
        versions[package] = importlib.metadata.version(package)
    for tool in TOOLS:
        path = shutil.which(tool)
        if path:
            flag = "-V" if tool == "ip" else "--version"
            versions[tool] = _output([path, flag]).partition("\n")[0] or "unknown"
    return versions


def _output(command: list[str]) -> str:
    """Return what a tool tells; nothing if it takes too long, as on a host that is slow or busy."""
    try:
        out = subprocess.run(
            command, capture_output=True, text=True, timeout=TOOL_LIMIT_S, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return out.stdout or out.stderr


def nic_facts(netns: str | None, ifname: str) -> dict[str, str]:
    """Describe an interface: driver, speed, and the offloads that are on.

    Parameters
    ----------
    netns
        File of its network namespace; None: this one.
    """
    driver = _ethtool(netns, "-i", ifname).get("driver", "unknown")
    features = _ethtool(netns, "-k", ifname)
    on = [feature for feature, state in features.items() if state.split()[:1] == ["on"]]
    return {
        "name": ifname,
        "namespace": Path(netns).name if netns else "this host's",
        "driver": driver,
        "speed": "none of its own" if driver == "veth" else "unknown",
        "offloads": ", ".join(on) or "unknown",
    }


def _ethtool(netns: str | None, option: str, ifname: str) -> dict[str, str]:
    """Return ethtool's output in a namespace as a dict; empty if it tells nothing."""
    tool, enter = shutil.which("ethtool"), shutil.which("nsenter")
    if tool is None or enter is None:
        return {}
    inside = [enter, f"--net={netns}"] if netns else []
    out = _output([*inside, tool, option, ifname])
    pairs = (line.partition(":") for line in out.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}
