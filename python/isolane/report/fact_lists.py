"""The facts of a report, as pairs of what and which: of the machine, and of the run."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.analysis import wording
from isolane.report.tables import value_of
from isolane.results.results import ArmCapacity, HostFacts, Summary
from isolane.spec.units import format_pps


def host(facts: HostFacts) -> list[tuple[str, str]]:
    """Facts about the machine, as pairs of what and which."""
    pairs = [
        ("Kernel", facts.kernel),
        ("Processor", f"{facts.cpu}, {wording.plural(facts.cores, 'core')}"),
        ("Memory", f"{facts.memory_bytes / 2**30:.1f} GiB"),
        ("Clock source", facts.clocksource),
        ("Hypervisor", facts.hypervisor or "none found"),
        ("Mitigations", facts.mitigations),
        *_of_bridges(facts),
        ("Versions", ", ".join(f"{name} {value}" for name, value in facts.versions.items())),
    ]
    for number, nic in enumerate(facts.nics, start=1):
        name = nic.get("name", f"NIC {number}")
        rest = [f"{key} {value}" for key, value in nic.items() if key != "name" and value]
        pairs.append((name, "; ".join(rest) or "no details"))
    return pairs


def _of_bridges(facts: HostFacts) -> list[tuple[str, str]]:
    told = facts.bridge_netfilter
    return [] if told is None else [("Netfilter on bridges", told)]


def facts(summary: Summary) -> Sequence[tuple[str, str]]:
    """Key facts of a run, for the line below its verdict."""
    took = max(0.0, summary.finished_unix_s - summary.started_unix_s)
    left_out = summary.trials_failed + summary.trials_without_verdict
    pairs = [("Trials", f"{summary.trials:,}"), ("Left out", f"{left_out:,}")]
    pairs.append(("Took", f"{took:.0f} s" if took < 120 else f"{took / 60:.0f} min"))
    if summary.simulated is not None:
        pairs.insert(0, ("Predicted, not measured", f"profile {summary.simulated}"))
    if summary.capacity is not None:
        capacity = value_of(summary.capacity.pps, format_pps).flat()
        if summary.capacity.at_least:
            capacity = f"at least {capacity}"
        where = f"1x, {summary.capacity.router} on {summary.capacity.arm}"
        if summary.capacity.source is not None:
            where = f"1x, taken from {summary.capacity.source}"
        pairs.insert(0, (f"Capacity ({where})", capacity))
    return pairs


def capacities(summary: Summary) -> list[tuple[str, str]]:
    """Return what each arm forwards, as pairs of arm and rates."""
    return [(f"Capacity of {one.arm}", _of_arm(one)) for one in summary.capacities]


def _of_arm(one: ArmCapacity) -> str:
    """Write what an arm forwards, by the names that RFC 2285 gives the rates."""
    prefix = "at least " if one.at_least else ""
    return (
        f"MFR {prefix}{value_of(one.mfr_pps, format_pps).flat()}, offered "
        f"{format_pps(one.mfr_load_pps)}; FRMOL {format_pps(one.frmol_pps)}, offered "
        f"{format_pps(one.max_load_pps)}"
    )
