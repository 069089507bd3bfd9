"""The result format of what a run was made on."""

from __future__ import annotations

from isolane.stored_model import StoredModel


class HostFacts(StoredModel):
    """The machine that the run was made on."""

    kernel: str
    cpu: str
    cores: int
    memory_bytes: int
    versions: dict[str, str]
    clocksource: str
    hypervisor: str | None
    mitigations: str
    nics: tuple[dict[str, str], ...]
    """Interfaces that took part: name, driver, speed, offloads (ethtool -k, those that are on)."""
    simulated: str | None = None
    """Profile of a simulated host; None for a real one."""
    bridge_netfilter: str | None = None
    """Whose rules bridges of this host apply to their frames (``iptables``, ...), ``off``, or ``no
    br_netfilter``; None in simulations and from older versions."""
