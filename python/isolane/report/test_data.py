"""Synthetic trials for tests of the report: what a renderer is given, not what was measured.

The numbers come from a toy model of a shared core with noise added. They look like a run, so that
tables and plots are tried with figures of the right size and shape; no result is claimed by them.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from isolane.analysis.summary import summarise
from isolane.results.folder import RunFolder
from isolane.results.results import (
    DROP_POINTS,
    CoreTrial,
    Delay,
    Drawing,
    DropPoint,
    Edge,
    GeneratorAudit,
    HostFacts,
    Node,
    Placement,
    RouterTrial,
    Trial,
)
from isolane.spec import Experiment, Point, load_experiment
from isolane.stats.isolation import max_min_fair
from isolane.trials.router_cpu import NO_CONTEXT_REASON

CAPACITY = 720e3
WINDOW_S = 0.5
KEPT = {"direct": 1.0, "bridge": 0.78, "macvlan": 0.88}

NOISY = """\
isolane: 1
name: noisy-neighbour
title: What a noisy neighbour does to you
description: |
  Two routers share one core. One is offered more and more; the other always the same.
routers:
  - {name: victim, role: victim}
  - {name: aggressor, role: aggressor}
load:
  victim: 0.27x
  aggressor: [0x, 0.5x, 1x, 2x, 4x]
arms:
  - {name: direct, path: direct}
  - {name: bridge, path: bridge}
  - {name: macvlan, path: macvlan}
trial: {repeats: REPEATS}
published:
  source: "Somebody et al. 2013, table 1"
  capacity: 1488kpps
  rows:
    - {arm: direct, load: {victim: 0.27x, aggressor: 0.5x}, router: victim,
       metric: throughput, value: 400kpps}
    - {arm: direct, load: {victim: 0.27x, aggressor: 1x}, router: victim,
       metric: throughput, value: 390kpps, note: "read from the figure"}
    - {arm: bridge, load: {victim: 0.27x, aggressor: 1x}, router: victim, metric: throughput}
    - {arm: sriov, load: {victim: 0.27x, aggressor: 1x}, router: victim,
       metric: throughput, value: 400kpps}
"""

SWEEP = """\
isolane: 1
name: how-many
title: How many routers fit on one core
routers:
  - {name: vr, path: direct, count: [1, 2, 4, 8]}
load: {vr: 2x}
arms:
  - {name: direct, path: direct}
  - {name: macvlan, path: macvlan}
trial: {repeats: REPEATS}
"""

LADDER = """\
isolane: 1
name: throughput
title: Throughput against offered load
routers:
  - {name: vr, path: direct}
load: {vr: [0.2x, 0.4x, 0.6x, 0.8x, 1x, 1.2x]}
arms:
  - {name: direct, path: direct}
  - {name: bridge, path: bridge}
trial: {repeats: REPEATS}
published:
  source: "Somebody et al. 2013, figure 4"
  capacity: 1000kpps
  rows:
    - {arm: direct, load: {vr: 400kpps}, router: vr, metric: throughput, value: 400kpps}
    - {arm: direct, load: {vr: 800kpps}, router: vr, metric: throughput, value: 780kpps}
    - {arm: direct, load: {vr: 1200kpps}, router: vr, metric: throughput, value: 960kpps}
    - {arm: bridge, load: {vr: 1200kpps}, router: vr, metric: throughput, value: 500kpps}
"""

HOST = HostFacts(
    kernel="Linux 6.18.0 (synthetic)",
    cpu="An imaginary CPU @ 2.60GHz",
    cores=2,
    memory_bytes=8 << 30,
    versions={"isolane": "0.1.0", "python": "3.11.7"},
    clocksource="tsc",
    hypervisor="kvm",
    mitigations="spectre_v2: Mitigation: IBRS",
    bridge_netfilter="ip6tables, iptables",
    nics=({"name": "veth-a", "driver": "veth", "speed": "10 Gbit/s", "offloads": "gro, xdp"},),
)


def experiment(folder: Path, text: str, repeats: int = 5) -> Experiment:
    path = folder / "given.yaml"
    path.write_text(text.replace("REPEATS", str(repeats)))
    return load_experiment(path)


def _served(arm: str, offered: Sequence[float]) -> list[float]:
    capacity = CAPACITY * KEPT.get(arm, 1.0)
    if arm == "direct":
        return max_min_fair(offered, capacity)
    total = sum(offered)
    return [load * min(1.0, capacity / total) if total else 0.0 for load in offered]


def _delay(frames: int, crowded: float, noise: random.Random) -> Delay | None:
    if frames == 0:
        return None
    base = (9e3 + 90e3 * crowded**4) * noise.uniform(0.95, 1.05)
    return Delay(
        count=frames,
        mean_ns=1.3 * base,
        p50_ns=base,
        p90_ns=1.6 * base,
        p99_ns=2.4 * base,
        p999_ns=6 * base,
        p9999_ns=11 * base,
        max_ns=25 * base * noise.uniform(0.6, 1.8),
    )


def _router(
    arm: str, load: tuple[Point, int], got: float, crowded: float, noise: random.Random
) -> RouterTrial:
    member = load[0].routers[load[1]]
    offered_pps = member.load.to_pps(CAPACITY, 64)
    offered, received = round(offered_pps * WINDOW_S), round(got * WINDOW_S)
    lost: dict[DropPoint, int] = dict.fromkeys(DROP_POINTS, 0)
    lost["nic_queue"] = round((offered - received) * 0.7)
    lost["router_queue"] = offered - received - lost["nic_queue"]
    threaded = arm != "bridge"
    cpu = round(received * 1_150) if threaded else None
    caused = round(received * 1_450) if cpu is None else cpu
    return RouterTrial(
        router=member.name,
        group=member.group,
        role=member.role,
        kind="container",
        path=arm,
        work=member.work,
        load_x=member.load.value if member.load.unit == "x" else None,
        offered_pps=offered_pps,
        generated_pps=offered_pps,
        received_pps=received / WINDOW_S,
        offered_frames=offered,
        generated_frames=offered,
        received_frames=received,
        offered_total=offered,
        received_total=received,
        lost=lost,
        loss_ratio=1 - received / offered if offered else None,
        delay=_delay(received, crowded, noise),
        reordered=0,
        duplicated=0,
        cpu_ns=cpu,
        cpu_share=cpu / (WINDOW_S * 1e9) if cpu is not None else None,
        cpu_ns_per_frame=cpu / received if cpu is not None and received else None,
        cpu_reason=None if threaded else NO_CONTEXT_REASON,
        cpu_parts={"own" if threaded else "receive": caused},
        cpu_caused_ns=caused,
        cpu_caused_share=caused / (WINDOW_S * 1e9),
        cpu_caused_ns_per_frame=caused / received if received else None,
    )


def _cores(crowded: float) -> tuple[CoreTrial, ...]:
    busy = min(0.99, crowded)
    return (
        CoreTrial(
            core=0,
            part="dut",
            user=0.005,
            system=0.01,
            softirq=0.975 * busy,
            idle=1 - 0.015 - 0.975 * busy,
            routers=0.9 * busy,
            steal=0.002,
        ),
        CoreTrial(
            core=1,
            part="measure",
            user=0.01,
            system=0.6,
            softirq=0.38,
            idle=0.01,
            routers=0.0,
            steal=0.001,
        ),
    )


def trial(arm: str, point: Point, repeat: int, number: int, seed: int = 1) -> Trial:
    noise = random.Random(f"{seed} {arm} {point.index} {repeat}")
    offered = [member.load.to_pps(CAPACITY, 64) for member in point.routers]
    crowded = min(1.0, sum(offered) / (CAPACITY * KEPT.get(arm, 1.0)))
    served = [
        min(load, got * (noise.uniform(0.97, 1.0 if got >= load else 1.03) if crowded == 1 else 1))
        for load, got in zip(offered, _served(arm, offered), strict=True)
    ]
    requested = sum(offered)
    return Trial(
        trial=number,
        arm=arm,
        point=point.index,
        point_label=point.label,
        repeat=repeat,
        started_unix_s=1_750_000_000 + number,
        window_s=WINDOW_S,
        status="ok",
        reason=None,
        conserved=True,
        routers=tuple(
            _router(arm, (point, index), got, crowded, noise) for index, got in enumerate(served)
        ),
        cores=_cores(crowded),
        generator=GeneratorAudit(
            requested_pps=requested,
            achieved_pps=requested,
            rate_error=0.0,
            departure_p50_ns=400,
            departure_p99_ns=2_000,
            departure_max_ns=40_000,
            busy=0.4,
            saturated=False,
        ),
        placement=Placement(
            polls_on_dut=1000,
            polls_elsewhere=0,
            frames_on_dut=64_000,
            frames_elsewhere=0,
            ok=True,
        ),
    )


def capacity_trial(found: Experiment, number: int) -> Trial:
    """One router alone, offered more than it forwards."""
    arm, point = found.resolved_arms()[0].name, found.points()[0]
    plain = trial(arm, point, number, number)
    alone = plain.routers[0].model_copy(
        update={"received_pps": CAPACITY + 900 * number, "offered_pps": 2 * CAPACITY}
    )
    return plain.model_copy(update={"purpose": "capacity", "routers": (alone,)})


def trials_of(found: Experiment, repeats: int) -> list[Trial]:
    trials = [capacity_trial(found, number) for number in range(3)]
    for repeat in range(repeats):
        for arm in found.resolved_arms():
            for point in found.points():
                trials.append(trial(arm.name, point, repeat, len(trials)))
    return trials


def drawing(arm: str, routers: Sequence[str]) -> Drawing:
    """The test bed of an arm: a wire for each router, or a bridge in between."""
    nodes = [
        Node(id="gen", label="generator", part="generator", inside=None, cores=(1,)),
        Node(id="dut", label="device under test", part="dut", inside=None, cores=(0,)),
        *(Node(id=r, label=r, part="router", inside="dut", cores=(0,)) for r in routers),
        Node(id="rcv", label="receiver", part="receiver", inside=None, cores=(1,)),
    ]
    if arm == "direct":
        edges = [Edge(source="gen", target=r, label="wire") for r in routers]
        edges += [Edge(source=r, target="rcv", label="wire") for r in routers]
        return Drawing(arm=arm, nodes=tuple(nodes), edges=tuple(edges))
    for side in ("in", "out"):
        label = f"{arm} {side}"
        nodes.append(Node(id=f"dev-{side}", label=label, part="device", inside="dut", cores=(0,)))
    edges = [Edge(source="gen", target="dev-in", label="10 Gbit/s")]
    edges += [Edge(source="dev-in", target=r, label="") for r in routers]
    edges += [Edge(source=r, target="dev-out", label="") for r in routers]
    edges += [Edge(source="dev-out", target="rcv", label="10 Gbit/s")]
    return Drawing(arm=arm, nodes=tuple(nodes), edges=tuple(edges))


def run_folder(
    where: Path,
    text: str = NOISY,
    repeats: int = 5,
    trials: Sequence[Trial] | None = None,
    complete: bool = True,
) -> RunFolder:
    """A run folder as `isolane run` leaves it; `trials` replaces the ones that are made up."""
    where.parent.mkdir(parents=True, exist_ok=True)
    found = experiment(where.parent, text, repeats)
    given = trials_of(found, repeats) if trials is None else list(trials)
    folder = RunFolder.create(where, (where.parent / "given.yaml").read_bytes(), HOST)
    for one in given:
        folder.append_trial(one)
    names = list(dict.fromkeys(r.name for point in found.points() for r in point.routers))
    drawings = [drawing(arm.name, names) for arm in found.resolved_arms()]
    folder.write_summary(summarise(found, given, drawings, 1_750_000_000, 1_750_000_058, complete))
    return folder
