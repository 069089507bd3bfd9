"""What the paper varies: drivers, where the load is, which load, how many background VMs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from isolane.spec import ArmRouter
from isolane.spec.fields import NicModel, RouterPath

Server = Literal["sender", "responder"]
LoadType = Literal["cpu", "network"]

SERVERS: Final[tuple[Server, Server]] = ("sender", "responder")
LOADS: Final[tuple[LoadType, LoadType]] = ("cpu", "network")
COUNTS: Final = (0, 8, 32, 64, 128)
"""Background VMs on the loaded server."""
VF_COUNTS: Final = (0, 8, 32, 64)
"""The same where each has a virtual function: the NIC has 64 on a port."""
SLOW_KPPS: Final = 1
FAST_KPPS: Final = 1000

E1000: Final = "e1000-bridge"
BRIDGE: Final = "virtio-bridge"
MACVTAP: Final = "sriov-macvtap"
PASSTHROUGH: Final = "sriov-passthrough"

DRIVERS: Final[Mapping[str, tuple[RouterPath, NicModel]]] = {
    E1000: ("bridge", "e1000"),
    BRIDGE: ("bridge", "virtio"),
    MACVTAP: ("sriov-macvtap", "virtio"),
    PASSTHROUGH: ("sriov-passthrough", "vfio"),
}
"""Path and NIC model of each driver."""


class Use(NamedTuple):
    """Who uses which driver: the main VM, and the background VMs."""

    main: str
    background: str


ALL_PASSTHROUGH: Final = "all sriov-passthrough"
ALL_MACVTAP: Final = "all sriov-macvtap"
BACKGROUND_PASSTHROUGH: Final = "sriov-passthrough-background"

CONFIGURATIONS: Final[Mapping[str, Use]] = {
    **{driver: Use(driver, BRIDGE) for driver in DRIVERS},
    ALL_PASSTHROUGH: Use(PASSTHROUGH, PASSTHROUGH),
    ALL_MACVTAP: Use(MACVTAP, MACVTAP),
    BACKGROUND_PASSTHROUGH: Use(BRIDGE, PASSTHROUGH),
}
"""Background VMs have a bridge in the paper's sections 4.1 to 4.3, virtual functions in 4.4."""


@dataclass(frozen=True, order=True)
class Cell:
    """One combination of what the paper varies."""

    configuration: str
    load: LoadType
    location: Server
    vms: int
    echo_kpps: int = SLOW_KPPS

    @property
    def use(self) -> Use:
        """Who uses which driver."""
        return CONFIGURATIONS[self.configuration]

    @property
    def where(self) -> str:
        """What varies besides the number of VMs, in words."""
        words = f"{self.configuration}, {self.load} load on the {self.location}"
        return words if self.echo_kpps == SLOW_KPPS else f"{words}, 1 Mpps"


def router_of(driver: str, name: str) -> ArmRouter:
    """Return a VM as experiments name it."""
    path, nic = DRIVERS[driver]
    return ArmRouter(name, "vm", path, nic)


def counts_of(configuration: str) -> tuple[int, ...]:
    """Return the numbers of background VMs that a configuration has."""
    return VF_COUNTS if CONFIGURATIONS[configuration].background != BRIDGE else COUNTS


@dataclass(frozen=True)
class Shown:
    """What a figure shows."""

    title: str
    quantity: Literal["rtt", "response", "cpu"]
    locations: tuple[Server, ...]
    configurations: tuple[str, ...]


_MACVTAP = (BRIDGE, MACVTAP)
_ONE_VF = (BRIDGE, MACVTAP, PASSTHROUGH)
_VFS = (ALL_PASSTHROUGH, ALL_MACVTAP, BACKGROUND_PASSTHROUGH)

FIGURES: Final[Mapping[str, Shown]] = {
    "5": Shown("baseline, load on the sender", "rtt", ("sender",), (E1000, BRIDGE)),
    "6": Shown("baseline, load on the responder", "rtt", ("responder",), (E1000, BRIDGE)),
    "7": Shown("macvtap, load on the sender", "rtt", ("sender",), _MACVTAP),
    "8": Shown("macvtap, load on the responder", "rtt", ("responder",), _MACVTAP),
    "11": Shown(
        "response time, load on the responder", "response", ("responder",), (E1000, *_MACVTAP)
    ),
    "12": Shown("response time, load on the sender", "response", ("sender",), (E1000, *_MACVTAP)),
    "13": Shown("one VM with a VF, load on the responder", "rtt", ("responder",), _ONE_VF),
    "14": Shown("one VM with a VF, load on the sender", "rtt", ("sender",), _ONE_VF),
    "15": Shown("CPU, one VM with a VF, load on the responder", "cpu", ("responder",), _ONE_VF),
    "16": Shown("CPU, one VM with a VF, load on the sender", "cpu", ("sender",), _ONE_VF),
    "17": Shown("all VMs with VFs, load on the responder", "rtt", ("responder",), _VFS),
    "18": Shown("all VMs with VFs, load on the sender", "rtt", ("sender",), _VFS),
    "19": Shown("CPU, all VMs with VFs, load on the responder", "cpu", ("responder",), _VFS),
    "20": Shown("CPU, all VMs with VFs, load on the sender", "cpu", ("sender",), _VFS),
    "4.3": Shown("section 4.3, all experiments together", "rtt", SERVERS, (MACVTAP, PASSTHROUGH)),
    "table3": Shown(
        "verdicts of Wilcoxon's signed-rank test",
        "rtt",
        SERVERS,
        (*_ONE_VF, BACKGROUND_PASSTHROUGH),
    ),
}
"""What ``--figure`` takes. Figures 9 and 10 (RTT overhead) are left out."""

FAST_COUNTS: Final = (64, 128)
"""Background VMs for which the text gives response times at 1 Mpps."""


def figure_words(figure: str) -> str:
    """Return how a report calls a figure."""
    words = {"4.3": "section 4.3", "table3": "table 3"}
    return words.get(figure, f"figure {figure}")


def cells_of(figure: str) -> tuple[Cell, ...]:
    """Return the cells of a figure with echoes at 1 kpps."""
    shown = FIGURES[figure]
    return tuple(
        Cell(configuration, load, location, vms)
        for configuration in shown.configurations
        for load in LOADS
        for location in shown.locations
        for vms in counts_of(configuration)
    )


def fast_cells_of(figure: str) -> tuple[Cell, ...]:
    """Return the cells of a figure with echoes at 1 Mpps: of response times under network load."""
    if FIGURES[figure].quantity != "response":
        return ()
    return tuple(
        replace(cell, echo_kpps=FAST_KPPS)
        for cell in cells_of(figure)
        if cell.load == "network" and cell.vms in FAST_COUNTS
    )
