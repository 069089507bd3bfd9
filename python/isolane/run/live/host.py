"""Facts about this host, for the run folder."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from isolane import __version__
from isolane.run.results import HostFacts

PACKAGES = ("pyroute2", "polars", "scipy", "pydantic", "altair")
TOOLS = ("clang", "ip", "ethtool")
TOOL_LIMIT_S = 5


def host_facts() -> HostFacts:
    """Describe the machine; what cannot be read is left out, not guessed."""
    cpuinfo = _fields(Path("/proc/cpuinfo"))
    memory_kib = _fields(Path("/proc/meminfo")).get("MemTotal", "0 kB").split()[0]
    return HostFacts(
        kernel=f"{platform.system()} {platform.release()} {platform.version()}",
        cpu=cpuinfo.get("model name", platform.machine()),
        cores=os.cpu_count() or 1,
        memory_bytes=int(memory_kib) * 1024,
        versions=_versions(),
        clocksource=_text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        hypervisor="yes, name unknown" if "hypervisor" in cpuinfo.get("flags", "").split() else None,
        mitigations=_mitigations(),
        nics=_nics(),
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
            out = subprocess.run(
                [path, flag], capture_output=True, text=True, timeout=TOOL_LIMIT_S, check=False
            )
            versions[tool] = (out.stdout or out.stderr).partition("\n")[0]
    return versions


def _nics() -> tuple[dict[str, str], ...]:
    """The test bed's wires, as every live run has them; a real NIC would be named here too."""
    return (
        {
            "name": "isl-*",
            "driver": "veth",
            "speed": "no line rate of their own",
            "offloads": "generic-receive-offload (NAPI of the receiving ends), veth defaults",
        },
    )
