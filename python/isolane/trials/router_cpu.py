"""The CPU fields of a router's trial, from what it caused: the same for live and simulated runs."""

from __future__ import annotations

from typing import Final, TypedDict

from isolane.results.cpu_results import CpuPart
from isolane.trials.cpu_causes import Parts, caused

NO_CONTEXT_REASON = (
    "no thread and no poll is its own; what it caused in those that routers share is told"
)


class RouterCpu(TypedDict):
    """Fields of :class:`isolane.results.results.RouterTrial`."""

    cpu_ns: int | None
    cpu_share: float | None
    cpu_ns_per_frame: float | None
    cpu_reason: str | None
    cpu_parts: dict[CpuPart, int] | None
    cpu_caused_ns: int | None
    cpu_caused_share: float | None
    cpu_caused_ns_per_frame: float | None


FAR_CPU: Final = RouterCpu(
    cpu_ns=None,
    cpu_share=None,
    cpu_ns_per_frame=None,
    cpu_reason="it is external: nobody tells Isolane what runs it",
    cpu_parts=None,
    cpu_caused_ns=None,
    cpu_caused_share=None,
    cpu_caused_ns_per_frame=None,
)
"""Of an external router."""


def router_cpu(parts: Parts, received: int, cores_ns: int) -> RouterCpu:
    """Return the CPU fields of a router.

    Parameters
    ----------
    parts
        CPU time that it caused, by why it was spent, ns.
    received
        Its received frames in the window.
    cores_ns
        The window times the number of the DUT's cores, ns.
    """
    own, whole = parts.get("own"), caused(parts)
    return RouterCpu(
        cpu_ns=own,
        cpu_share=None if own is None else own / cores_ns,
        cpu_ns_per_frame=own / received if own is not None and received else None,
        cpu_reason=NO_CONTEXT_REASON if own is None else None,
        cpu_parts=parts,
        cpu_caused_ns=whole,
        cpu_caused_share=whole / cores_ns,
        cpu_caused_ns_per_frame=whole / received if received else None,
    )
