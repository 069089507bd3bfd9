"""Drawings of every path: who stands where, and that no wire runs through a box."""

from __future__ import annotations

import re
from functools import partial
from itertools import combinations

import pytest

from isolane.report.drawing import draw
from isolane.report.placing import Box, lay_out
from isolane.report.theme import LIGHT
from isolane.report.wiring import simplify
from isolane.results.results import Drawing, Edge, Node
from isolane.spec import parse_experiment
from isolane.spec.kinds import SIMULATED
from isolane.testbed import bed_drawing as live_drawing
from isolane.testbed.bed_plan import BedPlan, Kind, Path, RouterPlan
from isolane.testbed.layout import make_layout
from isolane.trials.sim.sim_backend import SimBackEnd, SimBench

LIVE: tuple[tuple[Path, ...], ...] = (
    ("none",),
    ("direct", "direct"),
    ("bridge", "bridge"),
    ("macvlan", "macvlan"),
    ("isolane",),
    ("isolane", "isolane"),
    ("isolane",) * 12,
    ("isolane", "bridge", "direct", "macvlan", "none", "direct"),
    ("netback", "netback", "bridge"),
)
OF_SIMULATION = [(kind, path) for kind, paths in SIMULATED.items() for path in paths]


KINDS: dict[Path, Kind] = {"none": "native", "netback": "vm"}


def live(paths: tuple[Path, ...]) -> Drawing:
    routers = tuple(
        RouterPlan(f"vr-{n}", KINDS.get(path, "container"), path, None)
        for n, path in enumerate(paths)
    )
    plan = BedPlan(routers, "threaded", 50_000, (2, 3), (0, 1), 4)
    nodes, edges = live_drawing.draw(plan, make_layout(plan))
    return Drawing(
        arm="x",
        nodes=tuple(Node(**vars(node)) for node in nodes),
        edges=tuple(Edge(**vars(edge)) for edge in edges),
    )


def simulated(kind: str, path: str) -> Drawing:
    routers = "ab" if kind != "native" and path != "dom0" else "a"
    lines = "".join(f"  - {{name: {name}, kind: {kind}, path: {path}}}\n" for name in routers)
    loads = ", ".join(f"{name}: 1kpps" for name in routers)
    found = parse_experiment(
        f"isolane: 1\nname: t\nrouters:\n{lines}load: {{{loads}}}\ntrial: {{duration: 50ms}}\n"
    )
    back_end = SimBackEnd(found, "ahn" if kind == "xen" else None)
    (arm,) = found.resolved_arms()
    return SimBench(back_end, arm, tuple(found.points()[0].routers)).drawing()


DRAWINGS = [pytest.param(partial(live, paths), id=f"live {' '.join(paths)}") for paths in LIVE] + [
    pytest.param(
        partial(simulated, kind, path), id=f"simulated {kind} {path}", marks=pytest.mark.native
    )
    for kind, path in OF_SIMULATION
]


@pytest.fixture(scope="module", params=DRAWINGS)
def drawing(request: pytest.FixtureRequest) -> Drawing:
    made: Drawing = request.param()  # here, so that collecting tests takes no time
    return made


def do_not_overlap(one: Box, other: Box) -> bool:
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


def test_generator_and_receiver_stand_outside_the_dut(drawing: Drawing) -> None:
    shown = simplify(drawing)
    boxes = lay_out(shown).boxes
    parts = {node.part: boxes[node.id] for node in shown.nodes}
    generator, dut, receiver = (parts[part] for part in ("generator", "dut", "receiver"))
    assert generator.x + generator.width < dut.x
    assert dut.x + dut.width < receiver.x
    assert all(box.x >= 0 for box in boxes.values())
    assert all(box.y >= 0 for box in boxes.values())
    outside = {node.id for node in shown.nodes if node.inside is None}
    for one, other in combinations([box for name, box in boxes.items() if name != "dut"], 2):
        assert one is dut or other is dut or do_not_overlap(one, other)
    assert len(outside) == 3


def test_every_router_is_on_the_way_from_generator_to_receiver(drawing: Drawing) -> None:
    shown = simplify(drawing)
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    for edge in shown.edges:
        before.setdefault(edge.target, set()).add(edge.source)
        after.setdefault(edge.source, set()).add(edge.target)
    for node in shown.nodes:
        inside = node.inside is not None
        assert bool(before.get(node.id)) == (inside or node.part == "receiver"), node
        assert bool(after.get(node.id)) == (inside or node.part == "generator"), node


def test_on_a_narrow_screen_frames_run_downwards(drawing: Drawing) -> None:
    shown = simplify(drawing)
    boxes = lay_out(shown, down=True).boxes
    parts = {node.part: boxes[node.id] for node in shown.nodes}
    generator, dut, receiver = (parts[part] for part in ("generator", "dut", "receiver"))
    assert generator.y + generator.height < dut.y
    assert dut.y + dut.height < receiver.y
    assert min(box.x for box in boxes.values()) == 1
    for one, other in combinations([box for box in boxes.values() if box is not dut], 2):
        assert do_not_overlap(one, other)
    if sum(node.part == "router" for node in shown.nodes) <= 2:
        assert draw(drawing, LIGHT, down=True).width <= 342  # a screen of 400 pixels


@pytest.mark.parametrize("down", [False, True])
def test_no_wire_runs_through_a_box(drawing: Drawing, *, down: bool) -> None:
    shown = simplify(drawing)
    placed = lay_out(shown, down=down)
    boxes = [placed.boxes[node.id] for node in shown.nodes if node.part != "dut"]
    wires = re.findall(r'<path d="(M[^"]+)" fill="none"', draw(drawing, LIGHT, down=down).body)
    assert len(wires) == len(shown.edges)
    for wire in wires:
        for x, y in points(wire)[1:-1]:
            hit = [b for b in boxes if b.x < x < b.x + b.width and b.y < y < b.y + b.height]
            assert not hit, (wire, hit)


def points(wire: str) -> list[tuple[float, float]]:
    """Return points along an SVG path of moves, lines and cubic curves."""
    found: list[tuple[float, float]] = []
    for command, text in re.findall(r"([MLC])([^MLC]+)", wire):
        numbers = [float(number) for number in re.split(r"[ ,]+", text.strip())]
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        if command == "M":
            found.append(pairs[0])
            continue
        start = found[-1]
        curve = [start, start, pairs[0], pairs[0]] if command == "L" else [start, *pairs]
        found += [bezier(curve, step / 40) for step in range(1, 41)]
    return found


def bezier(curve: list[tuple[float, float]], at: float) -> tuple[float, float]:
    weights = ((1 - at) ** 3, 3 * (1 - at) ** 2 * at, 3 * (1 - at) * at**2, at**3)
    x, y = (sum(w * p[axis] for w, p in zip(weights, curve, strict=True)) for axis in (0, 1))
    return x, y


def test_routers_behind_one_wire_stand_behind_their_nic() -> None:
    shown = simplify(live(("isolane", "isolane")))
    assert {(e.source, e.target, e.label) for e in shown.edges} == {
        ("isolane-gen", "isl-ni0", "wire"),
        ("isl-ni0", "router-vr-0", "redirect"),
        ("isl-ni0", "router-vr-1", "redirect"),
        ("router-vr-0", "isl-ni1", "redirect"),
        ("router-vr-1", "isl-ni1", "redirect"),
        ("isl-ni1", "isolane-rcv", "wire"),
    }


@pytest.mark.native
def test_a_simulated_router_is_drawn_on_the_core_that_it_is_simulated_on() -> None:
    found = parse_experiment(
        "isolane: 1\nname: t\ndut: {cores: 2}\nrouters:\n"
        "  - {name: a, path: isolane, policy: {cores: [1], rate_min: 1Gbps}}\n"
        "  - {name: b, path: isolane, policy: {cores: [0]}}\n"
        "load: {a: 1kpps, b: 1kpps}\ntrial: {duration: 50ms}\n"
    )
    (arm,) = found.resolved_arms()
    bench = SimBench(SimBackEnd(found), arm, tuple(found.points()[0].routers))
    cores = {node.label: node.cores for node in bench.drawing().nodes}
    assert cores["a (container)"] == (1,)
    assert cores["b (container)"] == (0,)
    assert cores["NIC"] == (0,)
    assert cores["link classes"] == ()
