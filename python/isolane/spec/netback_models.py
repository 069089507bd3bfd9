"""A network back-end's file: its uplinks, and the ports that virtual machines' NICs attach to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Field, PlainValidator, model_validator

from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.fields import (
    ArmName,
    BufferWait,
    LineRate,
    LinkBurst,
    Slug,
    Version,
    whole,
    whole_schema,
    word,
    words_schema,
)
from isolane.spec.loader import load_file
from isolane.spec.problems import Contradictions, Problem, listed, nearest, show
from isolane.spec.schedulers import (
    DEFAULT_SCHEDULER,
    KEYS,
    EarlyDrop,
    PortKey,
    SchedulerName,
    SchedulerWord,
    Switch,
)

MAX_PORTS: Final = 256


PortWeight = Annotated[int, PlainValidator(whole(1, 1 << 20)), whole_schema(1, 1 << 20)]
PortPriority = Annotated[int, PlainValidator(whole(0, 7)), whole_schema(0, 7)]
VlanNumber = Annotated[int, PlainValidator(whole(1, 4094)), whole_schema(1, 4094)]
Mtu = Annotated[int, PlainValidator(whole(68, 1500)), whole_schema(68, 1500)]
CoreNumber = Annotated[int, PlainValidator(whole(0, p.MAX_CORES - 1)), whole_schema(0, 1023)]


EarlyDropOrAuto = Annotated[
    Literal["auto", "driver", "socket", "off"],
    PlainValidator(word("early_drop", ("auto", *get_args(EarlyDrop)))),
    words_schema("auto", *get_args(EarlyDrop)),
]


ReceiveWord = Annotated[
    Literal["auto", "packet"],
    PlainValidator(word("receive", ("auto", "packet"))),
    words_schema("auto", "packet"),
]


class UplinkEntry(SpecModel):
    """An interface of the host that ports' frames leave and arrive by."""

    scheduler: SchedulerWord = DEFAULT_SCHEDULER
    """Who sends next: fifo, round-robin, wrr, drr (default), wfq, strict-priority, hierarchical,
    credit or credit-random."""
    back_pressure: Switch = True
    """Whether frames wait while the link takes none (on), or are lost then (off)."""
    rate: LineRate | None = None
    """Rate of the link in bit/s on the wire; default: as fast as the interface takes frames."""
    burst: LinkBurst | None = None
    """What the link takes ahead of its rate, as time, 1ms to 1s; default: 4ms."""
    early_drop: EarlyDropOrAuto = "auto"
    """Where frames that a port has no space for are dropped before they are copied: driver (by XDP;
    where it runs none as socket), socket (of the back-end), off (nowhere); auto (default): driver,
    but on a veth socket."""
    receive: ReceiveWord = "auto"
    """How frames for ports arrive: auto (default): before the kernel makes packets of them, by
    AF_XDP, where the driver drops early and the host has that; packet: by a packet socket."""


class PortEntry(SpecModel):
    """A port: one NIC of a virtual machine, or of a container."""

    mac: p.Mac
    """The NIC's address; frames to it are the port's."""
    interface: p.InterfaceName | None = None
    """The host's interface behind which the router is: the host's end of a container's pair, or a
    tap; default: a socket that a virtual machine attaches to."""
    uplink: p.InterfaceName | None = None
    """The uplink that its frames leave by; needed where there are several."""
    vlan: VlanNumber | None = None
    """The VLAN that it belongs to, 1 to 4094: tagged on the uplink, untagged for the virtual
    machine; default: frames are as they are on the uplink."""
    mtu: Mtu = 1500
    """The longest IP packet, bytes, 68 to 1500."""
    check_source: Switch = True
    """Whether frames with another source address than `mac` are dropped; off for a router."""
    max_wait_ns: BufferWait = Field(default=10_000_000, alias="wait")
    """How long other ports' frames wait while the router has no receive buffer; default: 10ms."""
    offloads: Switch = True
    """Whether the virtual machine may leave checksums and the segmentation of TCP to the back-end,
    and the back-end to it."""
    weight: PortWeight = 1
    """Share of the uplink's bytes relative to other ports: wrr, drr, wfq, hierarchical."""
    priority: PortPriority = 0
    """0 goes first, up to 7: strict-priority, hierarchical."""
    rate_min: LineRate | None = None
    """Rate that is met first: hierarchical."""
    rate_max: LineRate | None = None
    """Rate that is not exceeded: hierarchical, credit, credit-random."""


class NetbackFile(SpecModel):
    """A network back-end for virtual machines: isolane netback start FILE."""

    isolane: Version
    """Version of the format: 1."""
    name: ArmName
    """Name of the back-end; its sockets are in /run/isolane/netback/NAME."""
    core: CoreNumber | None = None
    """The core that it runs on; default: any that the command may use."""
    uplinks: Mapping[p.InterfaceName, UplinkEntry] = Field(min_length=1)
    """The host's interfaces, by name."""
    ports: Mapping[Slug, PortEntry] = Field(min_length=1, max_length=MAX_PORTS)
    """The ports, by name; a virtual machine attaches to the socket NAME.sock, if its port has no
    interface."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = tuple(self.problems())
        if problems:
            raise Contradictions(problems)
        return self

    def uplink_of(self, port: PortEntry) -> str:
        """Return the name of the uplink that a port's frames leave by."""
        return port.uplink or next(iter(self.uplinks))

    def problems(self) -> Iterator[Problem]:
        """Yield what does not fit together."""
        taken: dict[tuple[str, int | None, str], str] = {}
        interfaces: dict[str, str] = {name: f"uplink {show(name)}" for name in self.uplinks}
        for name, link in self.uplinks.items():
            if link.burst is not None and link.rate is None:
                what = f"burst of uplink {show(name)}, which has no rate"
                yield Problem(("uplinks", name, "burst"), what, "a rate as well, or no burst")
        for name, port in self.ports.items():
            loc = ("ports", name)
            if port.interface is not None:
                if port.interface in interfaces:
                    what = f"the interface of port {show(name)} is {interfaces[port.interface]}"
                    yield Problem((*loc, "interface"), what, "each interface once")
                interfaces[port.interface] = f"that of port {show(name)}"
            if port.uplink is None and len(self.uplinks) > 1:
                what = f"port {show(name)} does not say which uplink it has"
                yield Problem((*loc, "uplink"), what, listed(self.uplinks))
                continue
            uplink = self.uplink_of(port)
            if uplink not in self.uplinks:
                known = listed(self.uplinks) + nearest(uplink, self.uplinks)
                yield Problem((*loc, "uplink"), f"uplink {show(uplink)} is not there", known)
                continue
            own = (uplink, port.vlan, port.mac)
            if own in taken:
                what = f"port {show(name)} has the address of {show(taken[own])}"
                yield Problem((*loc, "mac"), what, "each address once on an uplink, or in its VLAN")
            taken.setdefault(own, name)
            yield from _without_effect(loc, port, self.uplinks[uplink].scheduler)
            if port.rate_min and port.rate_max and port.rate_min > port.rate_max:
                yield Problem((*loc, "rate_min"), "rate_min is above rate_max", "at most rate_max")


def _without_effect(
    loc: tuple[str, str], port: PortEntry, scheduler: SchedulerName
) -> Iterator[Problem]:
    for key in get_args(PortKey):
        if key in port.model_fields_set and key not in KEYS[scheduler]:
            what = f"scheduler {scheduler} does not look at {key}"
            yield Problem((*loc, key), what, listed(KEYS[scheduler]) or "no key of shares")


def load_netback(path: Path) -> NetbackFile:
    """Return the back-end in a file; nothing else is read and nothing on the host is touched.

    Raises
    ------
    SpecError
        If the file cannot be read or is not valid: all that is wrong, one problem a line.
    """
    return load_file(path, NetbackFile, "a network back-end")
