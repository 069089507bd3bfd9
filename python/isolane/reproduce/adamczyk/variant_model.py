"""Builds the simulator's model of a variant of an experiment."""

from __future__ import annotations

import random
from typing import Any, Final

from isolane.reproduce.adamczyk.spec import Guest, Sweep, Variant, XenExperiment, XenHost
from isolane.spec import WIRE_OVERHEAD_BYTES

Json = dict[str, Any]

HEADER_BYTES: Final = 14 + 20 + 8 + 4
"""Ethernet, IPv4, UDP, checksum: a datagram of 1,500 bytes is a frame of 1,518."""
FRAME_BYTES: Final = 1472 + HEADER_BYTES
"""Of a full datagram."""
PHASE_S: Final = 0.1
"""Programs that are started together begin to send at most this long after one another."""
NS: Final = 1e9
PROTECTED_SHARES: Final = {"netback": 4096, "disk": 512}
"""CPU shares in dom0 where the disk back-end is kept off netback's part."""


def model(host: XenHost, experiment: XenExperiment, variant: Variant, seed: int) -> Json:
    """Return the simulator's model (format: ``docs/simulator``)."""
    phases = random.Random(f"{experiment.name}/{variant.name}/{seed}")  # noqa: S311 - not a secret
    return {
        "seed": seed,
        "duration_ns": round(experiment.duration * NS),
        "bin_ns": round(experiment.bin * NS),
        **_cpus(host, variant),
        "ports": [
            {
                "name": "eth0",
                "rate_bps": round(host.link_mbps * 1e6),
                "overhead_bytes": WIRE_OVERHEAD_BYTES,
                "capacity": host.buffers.output,
            }
        ],
        "stages": _stages(host, variant),
        "routers": [
            {"name": vm, "path": [f"{vm}.send", "netback", "bridge", "driver", "eth0"]}
            for vm in variant.guests
        ],
        "traffic": [
            entry
            for vm, guest in variant.guests.items()
            for entry in _traffic(host, vm, guest, phases)
        ],
        "loads": _loads(host, variant),
        "changes": _changes(experiment, variant.sweep),
    }


def _cpus(host: XenHost, variant: Variant) -> Json:
    cpu = host.cpu
    scheduler = {"kind": "credit", "slice_ns": round(cpu.slice_ns), "tick_ns": round(cpu.tick_ns)}
    guests = {vm: f"guest{i if variant.own_cores else 0}" for i, vm in enumerate(variant.guests)}
    cores = [
        {"name": name, "mode": "hypervisor", "switch_ns": cpu.switch_ns, "scheduler": scheduler}
        for name in dict.fromkeys(guests.values())
    ]
    contexts = [
        {"name": vm, "kind": "vcpu", "cores": [core], "wake_ns": cpu.wake_ns}
        for vm, core in guests.items()
    ]
    if variant.disk is not None and variant.disk.protected:
        # dom0's core is its own: what its kernel does there is shared out by its own scheduler.
        groups = [{"name": name, "shares": shares} for name, shares in PROTECTED_SHARES.items()]
        cores.append({"name": "dom0", "switch_ns": cpu.switch_ns, "scheduler": {"kind": "cfs"}})
        contexts += [
            {"name": name, "kind": "thread", "cores": ["dom0"], "group": name}
            for name in PROTECTED_SHARES
        ]
        return {"cores": cores, "groups": groups, "contexts": contexts}
    cores.append(
        {"name": "dom0", "mode": "hypervisor", "switch_ns": cpu.switch_ns, "scheduler": scheduler}
    )
    contexts.append({"name": "netback", "kind": "vcpu", "cores": ["dom0"]})
    return {"cores": cores, "contexts": contexts}


def _stages(host: XenHost, variant: Variant) -> list[Json]:
    costs = host.costs
    stages: list[Json] = [
        {"name": f"{vm}.send", "context": vm, "frame_ns": costs["send"].frame_ns, "account": "send"}
        for vm in variant.guests
    ]
    queue = {
        "capacity": host.buffers.adapter,
        "notify_ns": host.cpu.notify_ns,
        "back_pressure": "on" if variant.look else "off",
        "scheduler": _scheduler(host, variant),
    }
    netback = {"name": "netback", "context": "netback", "frame_ns": costs["netback"].frame_ns}
    bridge = {"name": "bridge", "context": "netback", "frame_ns": costs["bridge"].frame_ns}
    driver = {"name": "driver", "context": "netback", "frame_ns": costs["driver"].frame_ns}
    return [*stages, {**netback, "queue": queue}, bridge, driver]


def _scheduler(host: XenHost, variant: Variant) -> Json:
    own: dict[str, Json] = {
        "credit": {"period_ns": round(host.credit_period_ns), "random": variant.random},
        "wrr": {"transmission_bps": round(host.link_mbps * 1e6)},
        "drr": {},
        "wfq": {},
        "hierarchical": {},
    }
    settings = [_settings(variant, vm, guest) for vm, guest in variant.guests.items()]
    return {"kind": variant.scheduler, "settings": settings, **own[variant.scheduler]}


def _settings(variant: Variant, vm: str, guest: Guest) -> Json:
    found: Json = {"flow": vm}
    if variant.scheduler != "credit":
        found["weight"] = guest.weight
    if guest.rate_max is not None:
        found["rate_max_bps"] = round(guest.rate_max * 1e6)
    if guest.rate_min is not None:
        found["rate_min_bps"] = round(guest.rate_min * 1e6)
    return found


def _traffic(host: XenHost, vm: str, guest: Guest, phases: random.Random) -> list[Json]:
    sizes = [payload + HEADER_BYTES for payload in guest.payload]
    payload_bits = 8 * sum(guest.payload) / len(guest.payload)
    return [
        {
            "name": f"{vm}.{i + 1}",
            "router": vm,
            "frame_bytes": sizes[0] if len(sizes) == 1 else sizes,
            "start_ns": round((guest.start + phases.uniform(0, PHASE_S)) * NS),
            "pattern": {
                "kind": "sender",
                "window_frames": host.buffers.socket,
                "rate_pps": host.sender.pace_mbps * 1e6 / payload_bits,
                "release": "sent",
            },
        }
        for i in range(guest.connections)
    ]


def _loads(host: XenHost, variant: Variant) -> list[Json]:
    background = {
        "kind": "periodic",
        "cpu_ns": host.background.cpu_ns,
        "idle_ns": round(host.background.every_s * NS),
    }
    loads: list[Json] = [
        {"name": f"{vm}.background", "context": vm, "load": background} for vm in variant.guests
    ]
    if variant.disk is not None:
        disk = host.disk
        protected = variant.disk.protected
        loads.append(
            {
                "name": "disk",
                "context": "disk" if protected else "netback",
                "start_ns": round(variant.disk.start * NS),
                "stop_ns": round(variant.disk.stop * NS),
                "load": {
                    "kind": "disk",
                    "depth": disk.depth,
                    "cpu_ns": disk.cpu_ns,
                    "disk_ns": round(disk.disk_ns),
                    "blocking_permille": round(disk.blocking_permille),
                },
            }
        )
    return loads


def weights_at(sweep: Sweep, second: int, seconds: int) -> tuple[int, int]:
    """Return the two guests' weights in this second: from most:1 to 1:most in equal steps."""
    step = round((sweep.favoured - 1) * second / max(seconds - 1, 1))
    return sweep.favoured - step, 1 + step


def _changes(experiment: XenExperiment, sweep: Sweep | None) -> list[Json]:
    if sweep is None:
        return []
    seconds = max(round(experiment.duration), 1)
    return [
        {
            "set": "flow",
            "at_ns": round(second * NS),
            "at": "netback",
            "settings": {"flow": vm, "weight": weight},
        }
        for second in range(seconds)
        for vm, weight in zip(("vm1", "vm2"), weights_at(sweep, second, seconds), strict=True)
    ]
