"""Speed of the simulator, beside ns-3 and ns-2 on the same queue and link."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolane import _native
from isolane.errors import IsolaneError
from isolane.reproduce import trials
from isolane.reproduce.adamczyk import runs, variant_model
from isolane.reproduce.model import Options as Chosen
from isolane.trials.live.cores import staying_on
from isolane.trials.sim.build import build as build_model
from isolane.trials.sim.catalogue import find_host

from benches import programs
from benches.common import GENERATOR_CORE, Check, Options, Outcome, main, median, spread

SOURCES, SOURCE_PPS = 2, 600_000
QUEUE_FRAMES = 1_000
LINKS = {"1 Gbit/s": 1_000_000_000, "500 Mbit/s": 500_000_000}
LINK_FPS, SCENARIO_FPS, REAL_TIME = 10e6, 5e6, 60.0
XEN = {
    "equal-rates": "rate-40",
    "no-rate": "unmodified",
    "connections": "three",
    "disk": "unmodified",
    "priorities": "sweep",
}
"""The 100 Mbit/s experiments, and of each the variant that takes longest."""
PROBE_S = 0.05
"""Simulated seconds of the short run that tells how long a run may be."""
WINDOW = ("duration_ns", "warm_up_ns", "window_end_ns")


@dataclass(frozen=True)
class Speed:
    """What a run was."""

    frames: int
    """Offered."""
    simulated_s: float
    cpu_s: float
    """CPU time: all of these programs are single threads that never wait."""

    @property
    def fps(self) -> float:
        """Frames offered per second of one core's time."""
        return self.frames / self.cpu_s

    @property
    def times_real(self) -> float:
        """Simulated time over a core's."""
        return self.simulated_s / self.cpu_s


Run = Callable[[float], Speed]
"""Simulates so many seconds."""


def isolane_speed(model: dict[str, Any], simulated_s: float) -> Speed:
    """Simulate a model for so long, in this process."""
    text = json.dumps({**model, "duration_ns": round(simulated_s * 1e9)})
    begun = time.process_time()
    results = json.loads(_native.simulate(text))
    cpu_s = time.process_time() - begun
    if results["interrupted"]:
        raise KeyboardInterrupt
    return Speed(sum(flow["offered"]["frames"] for flow in results["flows"]), simulated_s, cpu_s)


def link_model(rate_bps: int, scheduler: str | None) -> dict[str, Any]:
    """Return two sources, one queue and one link."""
    port: dict[str, Any] = {"name": "link", "rate_bps": rate_bps, "capacity": QUEUE_FRAMES}
    if scheduler:
        port["scheduler"] = {"kind": scheduler, "quantum_bytes": 1500, "flows": "traffic"}
    pattern = {"kind": "cbr", "rate_pps": SOURCE_PPS}
    traffic = [
        {"name": f"source{i}", "router": "router", "frame_bytes": 64, "pattern": pattern}
        for i in range(SOURCES)
    ]
    routers = [{"name": "router", "path": ["link"]}]
    return {"seed": 1, "ports": [port], "routers": routers, "traffic": traffic}


def rathore_model() -> dict[str, Any]:
    """Return scenario I with two virtual machines and the line full: 1,088 and 400 kpps."""
    experiment = trials.load("rathore2013", "scenario1")
    point = experiment.points()[-1].index
    job = trials.jobs(experiment, Chosen())[experiment.name, "vm-sriov", point][0]
    arm = next(arm for arm in experiment.resolved_arms() if arm.name == job.arm)
    host = find_host("rathore2013")
    model = build_model(host, experiment, arm, list(job.routers), job.setting).json
    # As long as the bench wants, without the trial's window.
    for entry in model["traffic"]:
        entry.pop("stop_ns")
    return {key: value for key, value in model.items() if key not in WINDOW}


def xen_model(name: str, variant: str) -> dict[str, Any]:
    """Return a variant of one of the 100 Mbit/s experiments."""
    experiment = runs.load_experiment(name)
    (chosen,) = [one for one in experiment.variants if one.name == variant]
    model = variant_model.model(runs.load_host(None), experiment, chosen, 1)
    return {**model, "bin_ns": 1_000_000_000}


def peer_speed(argv: list[str], simulated_s: float) -> Speed:
    """Run a peer's program, which prints frames offered, frames received and seconds."""
    offered, received, cpu_s = programs.output(argv, GENERATOR_CORE).split()[:3]
    del received  # looked at by links_agree()
    return Speed(int(offered), simulated_s, float(cpu_s))


def ns3(program: Path, rate_bps: int, how: str, scheduler: str) -> Run:
    """ns-3: 64-byte frames through a point-to-point device with a drop-tail queue."""

    def run(simulated_s: float) -> Speed:
        argv = [str(program), str(rate_bps), f"{simulated_s:.6f}", how, f"ns3::{scheduler}"]
        return peer_speed(argv, simulated_s)

    return run


def ns2(rate_bps: int, queue: str, scheduler: str) -> Run:
    """ns-2: CBR over UDP agents, only the headers in use."""

    def run(simulated_s: float) -> Speed:
        script = str(programs.PEERS / "ns2_link.tcl")
        argv = ["ns", script, str(rate_bps), f"{simulated_s:.6f}", queue, scheduler, "Null"]
        return peer_speed(argv, simulated_s)

    return run


def own(model: dict[str, Any]) -> Run:
    """Isolane's simulator."""
    return lambda simulated_s: isolane_speed(model, simulated_s)


def link_runs(notes: list[str]) -> dict[tuple[str, str], Run]:
    """All simulators on both links, by simulator and link."""
    found: dict[tuple[str, str], Run] = {}
    try:
        libraries = (
            "applications",
            "point-to-point",
            "internet",
            "traffic-control",
            "network",
            "core",
        )
        arguments = [flag for name in libraries for flag in programs.flags(f"ns3-{name}")]
        program = programs.compiled("c++", "ns3_link.cc", *dict.fromkeys(arguments))
    except IsolaneError as error:
        notes.append(f"not compared with ns-3: {error}")
        program = None
    for link, rate_bps in LINKS.items():
        found["isolane, drop-tail", link] = own(link_model(rate_bps, None))
        found["isolane, DRR", link] = own(link_model(rate_bps, "drr"))
        if program:
            for scheduler in ("MapScheduler", "HeapScheduler"):
                found[f"ns-3 without a stack, {scheduler}", link] = ns3(
                    program, rate_bps, "bare", scheduler
                )
            found["ns-3 with UDP and IP, MapScheduler", link] = ns3(
                program, rate_bps, "udp", "MapScheduler"
            )
        for queue, name in (("DropTail", "drop-tail"), ("DRR", "DRR")):
            for scheduler in ("Calendar", "List"):
                found[f"ns-2, {name}, {scheduler}", link] = ns2(rate_bps, queue, scheduler)
    return found


def rounds(
    todo: Mapping[tuple[str, str], Run], options: Options, notes: list[str]
) -> dict[tuple[str, str], list[Speed]]:
    """Give each its turn, round by round, each time for about the seconds chosen."""
    found: dict[tuple[str, str], list[Speed]] = defaultdict(list)
    lengths: dict[tuple[str, str], float] = {}
    for _ in range(options.rounds):
        for key, run in todo.items():
            try:
                if key not in lengths:
                    probe = run(PROBE_S)
                    lengths[key] = max(PROBE_S, options.seconds * probe.times_real)
                found[key].append(run(lengths[key]))
            except IsolaneError as error:
                note = f"{key[0]}: not measured: {error}"
                if note not in notes:
                    notes.append(note)
    return found


def bench(options: Options) -> Outcome:
    """Measure everything in turn, round by round."""
    notes: list[str] = []
    todo = link_runs(notes)
    todo["isolane", "Rathore, scenario I"] = own(rathore_model())
    for name, variant in XEN.items():
        todo["isolane", f"Xen, {name}, {variant}"] = own(xen_model(name, variant))
    with staying_on((GENERATOR_CORE,)):
        found = rounds(todo, options, notes)
    rows = [
        [
            f"{simulator}, {what}",
            f"{median([speed.fps for speed in speeds]) / 1e6:.2f}",
            spread([speed.fps for speed in speeds], 1e6, 2),
            f"{median([speed.times_real for speed in speeds]):.1f}",
        ]
        for (simulator, what), speeds in found.items()
    ]
    checks = [
        fps_check(found, (name, link), LINK_FPS)
        for name in ("isolane, drop-tail", "isolane, DRR")
        for link in LINKS
    ]
    checks.append(fps_check(found, ("isolane", "Rathore, scenario I"), SCENARIO_FPS))
    checks += [
        time_check(found, ("isolane", f"Xen, {name}, {variant}")) for name, variant in XEN.items()
    ]
    return Outcome(
        title=f"Simulated frames on one core ({options.rounds} interleaved rounds)",
        columns=("simulator and model", "Mframes/s", "range", "x real time"),
        rows=rows,
        checks=checks,
        notes=notes,
        data={"runs": {f"{a} / {b}": [vars(speed) for speed in found[a, b]] for a, b in found}},
    )


def fps_check(
    found: Mapping[tuple[str, str], list[Speed]], key: tuple[str, str], min_speed: float
) -> Check:
    """Hold frames per second against a target."""
    target = f"{key[0]}, {key[1]}: at least {min_speed / 1e6:.0f} million frames/s"
    values = [speed.fps for speed in found.get(key, [])]
    if not values:
        return Check(target, "nothing", None)
    return Check(
        target,
        f"{median(values) / 1e6:.2f} million (best {max(values) / 1e6:.2f})",
        median(values) >= min_speed,
    )


def time_check(found: Mapping[tuple[str, str], list[Speed]], key: tuple[str, str]) -> Check:
    """Hold simulated time against real time."""
    target = f"{key[1]}: at least {REAL_TIME:.0f} times real time"
    values = [speed.times_real for speed in found.get(key, [])]
    if not values:
        return Check(target, "nothing", None)
    return Check(target, f"{median(values):.0f} times", median(values) >= REAL_TIME)


if __name__ == "__main__":
    main("simulator", bench, Options(rounds=5, seconds=1.0), __doc__, live=False)
