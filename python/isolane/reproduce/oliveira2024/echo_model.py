"""Builds the simulator's model of both servers, with an echo that goes there and back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isolane.reproduce.oliveira2024.load_cells import SERVERS, Cell, Server, router_of
from isolane.reproduce.oliveira2024.testbed import (
    BACKGROUND_PPS,
    BURST_FRAMES,
    CORES,
    DRAIN_NS,
    FRAME_BYTES,
    STAGGER_NS,
    WARM_UP_NS,
)
from isolane.spec.hostmodel import Cost, PathData
from isolane.trials.sim.catalogue import SimHost
from isolane.trials.sim.segments import Segment, segments

Json = dict[str, Any]

MAIN: Final = "main"
PING: Final = "ping"
"""The sender's program: its stage, and its cost in the profile."""
SINK: Final = "received"
"""Where frames end that a VM has read: a port without delay."""
MEMORY_BPS: Final = 1_000_000_000_000
"""Rate of what is no wire: frames that a program writes or reads."""


@dataclass(frozen=True)
class EchoModel:
    """A model, and the names of what is read from its results."""

    json: Json
    captures: tuple[str, str] | None
    """Stages after which the responder's kernel stamps an echo, on its way in and out; none where
    the guest has the NIC."""
    send_ns: float
    """What the sender's program and its VM's way out cost, ns: from its time stamp to the NIC."""


def echo_model(host: SimHost, cell: Cell, seed: int, window_ns: int, rate_pps: float) -> EchoModel:
    """Return the model of one trial.

    Parameters
    ----------
    host
        Profile and paths of both servers.
    cell
        What is simulated.
    seed
        Of the simulation and of the places of VMs and rings, which are the same whatever the
        drivers, so that configurations can be compared pair by pair.
    window_ns
        How long echoes are sent, ns.
    rate_pps
        Echoes per second.
    """
    drawn_for = f"{cell.load}/{cell.location}/{cell.vms}/{seed}"
    parts = _Parts(host, random.Random(drawn_for))  # noqa: S311 - not a secret
    from_: Server = "sender" if cell.location == "responder" else "responder"
    to = cell.location
    for server in SERVERS:
        parts.add_server(server, cell.vms if server == to or cell.load == "network" else 0)
    captures = parts.add_echo(cell.use.main, rate_pps, WARM_UP_NS + window_ns)
    for number in range(cell.vms):
        if cell.load == "cpu":
            parts.add_hog(to, number)
        else:
            parts.add_stream(from_, to, number, cell.use.background)
    return EchoModel(parts.model(seed, window_ns), captures, parts.send_ns(cell.use.main))


@dataclass
class _Parts:
    """A model in the making."""

    host: SimHost
    chance: random.Random
    lists: dict[str, list[Json]] = field(default_factory=dict)
    rings: dict[str, list[Json]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    first_core: dict[str, int] = field(default_factory=dict)
    """Core of each server's first background VM."""

    def _add(self, kind: str, entry: Json) -> None:
        """Add a part unless one of this name is there."""
        key = f"{kind}/{entry['name']}"
        if key not in self.names:
            self.names.add(key)
            self.lists.setdefault(kind, []).append(entry)

    def model(self, seed: int, window_ns: int) -> Json:
        """Return the model: its parts, and NICs, ports and times."""
        of = self.host.profile.host
        end_ns = WARM_UP_NS + window_ns
        line_bps = round(of.line_rate or 10e9)
        nics = [
            {"name": f"{server}.nic", "rate_bps": line_bps, "rings": self.rings[server]}
            for server in SERVERS
        ]
        port = {"rate_bps": line_bps, "capacity": of.egress_frames, "latency_ns": round(of.wire_ns)}
        ports = [{"name": f"{server}.out", **port} for server in SERVERS]
        sink = {"name": SINK, "rate_bps": MEMORY_BPS, "capacity": 65536}
        return {
            **self.lists,
            "seed": seed,
            "duration_ns": end_ns + DRAIN_NS,
            "warm_up_ns": WARM_UP_NS,
            "window_end_ns": end_ns,
            "nics": nics + self.lists.get("nics", []),
            "ports": [*ports, sink],
        }

    def add_server(self, server: Server, vms: int) -> None:
        """Add cores, and the main VM on a core that has as few background VMs as any."""
        of = self.host.profile.host
        cfs = {
            "kind": "cfs",
            "latency_ns": round(of.latency_ns),
            "min_granularity_ns": round(of.min_granularity_ns),
            "wakeup_granularity_ns": round(of.wakeup_granularity_ns),
        }
        for number in range(CORES):
            core = f"{server}.{number}"
            entry = {"switch_ns": of.switch_ns, "tick_cost_ns": of.tick_cost_ns, "scheduler": cfs}
            self._add("cores", {"name": core, **entry})
            self._add("contexts", {"name": f"{core}.softirq", "kind": "softirq", "cores": [core]})
        self.first_core[server] = self.chance.randrange(CORES)
        free = CORES - vms % CORES
        self._add_vm(server, MAIN, vms + self.chance.randrange(free))

    def _add_vm(self, server: Server, vm: str, turn: int) -> str:
        """Add a VM, which is a process in a cgroup of its own, on the core whose turn it is."""
        of = self.host.profile.host
        name = f"{server}.{vm}"
        self._add("groups", {"name": name})
        self._add(
            "contexts",
            {
                "name": name,
                "kind": "process",
                "cores": [f"{server}.{(self.first_core[server] + turn) % CORES}"],
                "group": name,
                "wake_ns": of.wake_ns,
                "exit_ns": of.exit_ns,
                "cold_ns": of.cold_ns,
                "wake_mode": "hypervisor",
            },
        )
        return name

    def add_hog(self, server: Server, number: int) -> None:
        """Add a background VM that computes without end."""
        vm = self._add_vm(server, f"vm{number}", number)
        load = {"name": f"{vm}.cpu", "context": vm, "load": {"kind": "cpu"}}
        self._add("loads", {**load, "start_ns": self.chance.randrange(STAGGER_NS)})

    def add_stream(self, from_: Server, to: Server, number: int, driver: str) -> None:
        """Add a background VM on either server; the first sends bursts to the second."""
        name = f"vm{number}"
        source, _ = (self._add_vm(server, name, number) for server in (from_, to))
        path = self._path(driver)
        costs = _sum([*self._costs("ip-forward", "guest"), *self._sending(path)])
        program = self._add_program(source, {"name": f"{source}.send", **costs})
        inward = self._inward(to, name, path, last=[])
        passed = [*program, f"{from_}.out", *inward, SINK]
        self._add("routers", {"name": name, "path": passed})
        bursts = {"kind": "bursts", "rate_pps": BACKGROUND_PPS, "burst_frames": BURST_FRAMES}
        self._add_traffic(name, bursts)

    def add_echo(self, driver: str, rate_pps: float, stop_ns: int) -> tuple[str, str] | None:
        """Add the echoes: from the sender's main VM to the responder's and back."""
        path, ping = self._path(driver), self._costs(PING)
        costs = _sum([*ping, *self._sending(path)])
        program = self._add_program(f"sender.{MAIN}", {"name": PING, "capture": True, **costs})
        there = self._inward("responder", MAIN, path, last=self._sending(path))
        back = self._inward("sender", MAIN, path, last=ping)
        passed = [*program, "sender.out", *there, "responder.out", *back, SINK]
        self._add("routers", {"name": MAIN, "path": passed})
        self._add_traffic(MAIN, {"kind": "cbr", "rate_pps": rate_pps}, stop_ns=stop_ns)
        if path.ring == "guest":
            return None
        for stage in self.lists["stages"]:
            if stage["name"] in there[-2:]:
                stage["capture"] = True
        return there[-2], there[-1]

    def _add_program(self, vm: str, stage: Json) -> list[str]:
        """Add a program that sends by a timer: what it sends lies in a ring that wakes its VM."""
        ring = {"name": f"{vm}.program", "capacity": 4096, "irq_ns": 0}
        self._add("nics", {"name": ring["name"], "rate_bps": MEMORY_BPS, "rings": [ring]})
        self._add("stages", {**stage, "context": vm, "ring": ring["name"]})
        return [ring["name"], stage["name"]]

    def send_ns(self, driver: str) -> float:
        """Return what it costs to send an echo, ns."""
        costs = _sum([*self._costs(PING), *self._sending(self._path(driver))])
        return float(costs["frame_ns"] + FRAME_BYTES * costs["byte_ns"])

    def _add_traffic(self, name: str, pattern: Json, **times: int) -> None:
        entry = {"name": name, "router": name, "frame_bytes": FRAME_BYTES, "pattern": pattern}
        self._add("traffic", {**entry, **times})

    def _path(self, driver: str) -> PathData:
        return self.host.path_of(router_of(driver, driver))

    def _costs(self, *names: str) -> list[Cost]:
        return [self.host.profile.costs[name] for name in names]

    def _sending(self, path: PathData) -> list[Cost]:
        """Return the costs of a path's last stage, by which a VM sends."""
        return self._costs(*path.ordered()[-1][1].cost)

    def _inward(self, server: Server, vm: str, path: PathData, last: Sequence[Cost]) -> list[str]:
        """Add a path as far as its last stage, which costs `last` instead; return its parts."""
        core, ring = self._add_ring(server, vm, path)
        passed = [ring]
        for segment in segments(path, f"{server}.{vm}", ring, link=False):
            final = segment.stages[-1][1].next == "wire"
            stages = segment.stages[:-1] if final else segment.stages
            costs = [cost for _, stage in stages for cost in self._costs(*stage.cost)]
            costs += last if final else []
            polled = ring if len(passed) == 1 else None
            self._add_stage(segment, (core, f"{server}.{vm}"), costs, polled)
            passed.append(segment.name)
        return passed

    def _add_ring(self, server: Server, vm: str, path: PathData) -> tuple[str, str]:
        """Add the ring that a VM's frames come by; return the core of its softirq, and its name.

        A port has a ring for each core, among which a hash of addresses, here chance, chooses.
        """
        number = self.chance.randrange(CORES)
        name = f"{server}.rx{number}" if path.ring == "port" else f"{server}.{vm}.vf"
        size = self.host.profile.rings[path.ring]
        if f"rings/{name}" not in self.names:
            self.names.add(f"rings/{name}")
            self.rings.setdefault(server, []).append(
                {
                    "name": name,
                    "capacity": size.capacity,
                    "refill": size.refill,
                    "moderation_ns": round(size.moderation_ns),
                    "irq_ns": size.irq_ns,
                }
            )
        return f"{server}.{number}", name

    def _add_stage(
        self,
        segment: Segment,
        contexts: tuple[str, str],
        costs: Sequence[Cost],
        ring: str | None,
    ) -> None:
        """Add a stage; `contexts`: the core whose softirq it may run in, or else the VM."""
        core, vm = contexts
        queue = segment.stages[0][1].queue
        entry: Json = {
            "name": segment.name,
            "context": f"{core}.softirq" if segment.context == "softirq" else vm,
            **_sum(costs),
        }
        if ring is not None:
            entry["ring"] = ring
        if queue is not None:
            size = self.host.profile.queues[queue]
            entry["queue"] = {"capacity": size.capacity, "notify_ns": size.notify_ns}
        self._add("stages", entry)


def _sum(costs: Sequence[Cost]) -> Json:
    """Return what a stage with these costs costs."""
    return {
        "frame_ns": sum(cost.frame_ns for cost in costs),
        "byte_ns": sum(cost.byte_ns for cost in costs),
        "cold_ns": sum(cost.cold_ns for cost in costs),
    }
