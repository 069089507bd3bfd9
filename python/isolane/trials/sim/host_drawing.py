"""The set-up of a simulated arm as a graph, drawn from the model that is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.results.results import Drawing, Edge, Node
from isolane.spec import Arm, Experiment, PointRouter
from isolane.trials.backend import Setting
from isolane.trials.sim.build import SimModel, build
from isolane.trials.sim.catalogue import SimHost


def draw(
    host: SimHost, experiment: Experiment, arm: Arm, routers: Sequence[PointRouter]
) -> Drawing:
    """Draw generator, host and receiver.

    A router with a NIC or virtual function of its own is wired to the generator. Routers that
    share one are drawn behind it, or behind the domain that serves it.
    """
    sketch = _Sketch(build(host, experiment, arm, routers, Setting((), 0, 1)))
    for router in routers:
        of_arm = arm.router(router.group)
        label = router.name if of_arm.kind == "native" else f"{router.name} ({of_arm.kind})"
        path = "wire" if of_arm.path == "none" else of_arm.path
        sketch.add(router.name, label, path)
    cores = tuple(range(arm.cores))
    nodes = (
        Node(id="gen", label="generator", part="generator", inside=None, cores=()),
        Node(id="dut", label="simulated host", part="dut", inside=None, cores=cores),
        *sketch.nodes.values(),
        Node(id="rcv", label="receiver", part="receiver", inside=None, cores=()),
    )
    return Drawing(arm=arm.name, nodes=nodes, edges=tuple(sketch.edges))


_SERVES: Mapping[str, str] = {"dom0": "dom0", "back-end": "network back-end"}
"""Who takes frames off the NIC, where that is not its own driver alone."""


@dataclass
class _Sketch:
    """The boxes inside the host and all wires, in the order in which they were found."""

    model: SimModel
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[Edge, None] = field(default_factory=dict)

    def add(self, router: str, label: str, path: str) -> None:
        """Add a router, and the devices that it shares unless they are there already."""
        entry = next(one for one in self.model.json["routers"] if one["name"] == router)
        ring, *segments, port = entry["path"]
        own = [name for name in segments if self.model.segments[name].router is not None]
        self._node(router, label, "router", self._cores(own or segments))
        if segments[0] in own:
            self._wire("gen", router, path)
            self._wire(router, "rcv", "wire")
            return
        serves = self.model.segments[segments[0]].context
        self._node(ring, _SERVES.get(serves, "NIC"), "device", self._cores(segments[:1]))
        self._node(port, "link classes" if self._has_classes(port) else "NIC", "device", ())
        self._wire("gen", ring, "wire")
        self._wire(ring, router, path)
        self._wire(router, port, "")
        self._wire(port, "rcv", "wire")

    def _node(self, name: str, label: str, part: str, cores: tuple[int, ...]) -> None:
        node = Node.model_validate(
            {"id": name, "label": label, "part": part, "inside": "dut", "cores": cores}
        )
        self.nodes.setdefault(name, node)

    def _wire(self, source: str, target: str, label: str) -> None:
        self.edges[Edge(source=source, target=target, label=label)] = None

    def _cores(self, segments: Sequence[str]) -> tuple[int, ...]:
        """Return the cores that the contexts of these segments may run on."""
        names = {
            stage["context"] for stage in self.model.json["stages"] if stage["name"] in segments
        }
        found = {
            int(core.removeprefix("cpu"))
            for context in self.model.json["contexts"]
            if context["name"] in names
            for core in context["cores"]
        }
        return tuple(sorted(found))

    def _has_classes(self, port: str) -> bool:
        return any("scheduler" in one for one in self.model.json["ports"] if one["name"] == port)
