"""Finds virtual machines: a QEMU process, a libvirt domain by name, an Incus instance."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from isolane.enforce.find import processes, qemu_monitor
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.external_tools import ask
from isolane.enforce.find.host_namespace import HostNamespace
from isolane.enforce.find.qemu_command_line import CommandLine, read_command_line
from isolane.enforce.find.router_interfaces import guest_mac, of_macvlan, of_tap
from isolane.enforce.router_facts import FoundRouter, Interface

NO_MACS: Final[Mapping[str, str]] = {}


def of_process(
    host: HostNamespace,
    name: str,
    pid: int,
    macs: Mapping[str, str] = NO_MACS,
    mac: str | None = None,
) -> FoundRouter:
    """Describe the virtual machine of a QEMU process.

    Parameters
    ----------
    macs
        Tap -> guest's MAC address, as libvirt or Incus says.
    mac
        The guest's MAC address in the policy.

    Raises
    ------
    Absent
        When there is no such process, it is not QEMU, or a guest's address cannot be found.
    """
    arguments = processes.command_line(pid)
    if not re.match(r"qemu|kvm", Path(arguments[0]).name):
        raise Absent(f"process {pid} is {Path(arguments[0]).name}, not a QEMU virtual machine")
    taps = processes.taps_of(pid)
    known = dict(macs) or _macs(pid, taps, read_command_line(arguments))
    if mac is not None and len(taps) == 1:
        known = {taps[0]: mac}
    interfaces = tuple(behind_tap(host, pid, tap, known.get(tap)) for tap in taps)
    return FoundRouter(name, "vm", None, None, pid, interfaces, processes.threads_of_machine(pid))


def behind_tap(host: HostNamespace, pid: int, tap: str, mac: str | None) -> Interface:
    """Describe the interface of a virtual machine behind a tap or macvtap that its process uses.

    Raises
    ------
    Absent
        When the tap is in another namespace, or the guest's address cannot be found.
    """
    link = host.by_name(tap)
    if link is None:
        raise Absent(
            f"{tap}, which virtual machine {pid} uses, is not among this host's interfaces: it is "
            "in another network namespace"
        )
    if link.kind in ("macvtap", "ipvtap"):
        return of_macvlan(host, link, mac)
    if mac is None and not host.nics:  # nobody asks whose its frames are
        return of_tap(host, link, link.mac)
    return of_tap(host, link, guest_mac(host, link, mac))


def _macs(pid: int, taps: tuple[str, ...], line: CommandLine) -> dict[str, str]:
    """Return tap -> MAC address, where the command line or the monitor says it."""
    known: dict[str, str] = {}
    silent = []
    for wiring in line.wirings:
        names = [processes.tap_of(pid, descriptor) for descriptor in wiring.descriptors]
        tap = next((one for one in (wiring.ifname, *names) if one in taps), None)
        if tap is None:
            silent.append(wiring)
        elif wiring.mac is not None:
            known[tap] = wiring.mac
    unnamed = [tap for tap in taps if tap not in {wiring.ifname for wiring in line.wirings}]
    left = [tap for tap in unnamed if tap not in known]
    if len(left) == len(silent) == 1 and silent[0].mac is not None:
        known[left[0]] = silent[0].mac
    if any(tap not in known for tap in taps):
        for monitor in line.monitors:
            # A relative path is relative to where the machine was started.
            known = {**_from_monitor(pid, processes.working_folder(pid) / monitor), **known}
    return known


def _from_monitor(pid: int, path: Path) -> dict[str, str]:
    found = {}
    for mac, told in qemu_monitor.guest_interfaces(path):
        if named := re.search(r"\bifname=([^,\s]+)", told):
            found[named[1]] = mac
        elif (given := re.search(r"\bfds?=(\d+)", told)) and (
            tap := processes.tap_of(pid, int(given[1]))
        ):
            found[tap] = mac
    return found


def of_domain(host: HostNamespace, name: str, domain: str, mac: str | None = None) -> FoundRouter:
    """Describe a libvirt domain.

    Raises
    ------
    Absent
        When libvirt does not know it, or it does not run.
    """
    who = f"libvirt domain {domain}"
    arguments = ["virsh", "--connect", "qemu:///system", "--readonly", "dumpxml", "--", domain]
    uuid, macs = read_domain(ask(arguments, who), domain)
    for pid in processes.all_processes():
        with suppress(Absent):
            words = processes.command_line(pid)
            if uuid in words:  # libvirt passes -uuid, which no two domains share
                return of_process(host, name, pid, macs, mac)
    raise Absent(f"{who} runs, but no process has its -uuid {uuid}")


def read_domain(text: str, domain: str) -> tuple[str, dict[str, str]]:
    """Read a domain's XML.

    Returns
    -------
    tuple
        The domain's UUID, and the MAC address of each of its taps.

    Raises
    ------
    Absent
        When the domain does not run, or ``virsh`` took a name that is a number for an id.
    """
    try:
        root = ET.fromstring(text)  # noqa: S314 - see the import
    except ET.ParseError:
        raise Absent(f"libvirt domain {domain}: virsh answered something that is not XML") from None
    if root.findtext("name") != domain:
        raise Absent(f"there is no libvirt domain {domain}")
    if root.get("id") is None:
        raise Absent(f"libvirt domain {domain} does not run")
    macs = {}
    for interface in root.iterfind("./devices/interface"):
        target, address = interface.find("target"), interface.find("mac")
        if target is not None and address is not None:
            macs[target.get("dev", "")] = address.get("address", "").lower()
    return root.findtext("uuid", ""), macs
