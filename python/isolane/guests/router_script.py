"""The shell commands that make a guest a router and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from isolane.guests import uml_modules

Nics = tuple[str, str]
"""A guest's interfaces as its kernel names them: towards the generator, towards the receiver."""
_NEVER: Final = ("rp_filter", "send_redirects")
_QUIET: Final = (
    ("accept_dad", 0),
    ("accept_ra", 0),
    ("autoconf", 0),
    ("router_solicitations", 0),
    ("mldv2_unsolicited_report_interval", 0),
    ("addr_gen_mode", 1),  # no link-local addresses
)
_LOAD_IPV6: Final = f"""\
if [ ! -d /proc/sys/net/ipv6 ]; then
{uml_modules.load("ipv6")}
fi"""


@dataclass(frozen=True)
class RouterSide:
    """One side of a router: its own address there, and its only neighbour."""

    address: str
    """With the length of its prefix."""
    neighbour_ip: str
    neighbour_mac: str


def router_script(ip: Literal[4, 6], nics: Nics, sides: tuple[RouterSide, RouterSide]) -> str:
    """Return commands for a guest whose two NICs are up, have their addresses and forward.

    No ARP and no neighbour discovery is needed, and the guest sends nothing by itself.

    Parameters
    ----------
    ip
        IP version.
    nics
        Names of its interfaces.
    sides
        Towards the generator, towards the receiver.
    """
    return "\n".join((*_settings(ip, nics), *_interfaces(nics, sides)))


def _settings(ip: int, nics: Nics) -> Iterator[str]:
    """Write the sysctls before there are interfaces in service, which inherit ``default``."""
    yield "set -e"  # whatever fails ends the guest, and its last words are told
    yield "ip link set lo up"
    if ip == 6:
        yield _LOAD_IPV6
        for scope in ("default", *nics):
            for key, value in _QUIET:
                yield f"echo {value} >/proc/sys/net/ipv6/conf/{scope}/{key}"
        yield "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"
        return
    for key in _NEVER:
        for scope in ("all", "default", *nics):
            yield f"echo 0 >/proc/sys/net/ipv4/conf/{scope}/{key}"
    yield "echo 1 >/proc/sys/net/ipv4/ip_forward"
    yield "[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"


def _interfaces(nics: Nics, sides: tuple[RouterSide, RouterSide]) -> Iterator[str]:
    for nic in nics:
        yield f"ip link set {nic} arp off up"
    for nic in nics:  # some drivers need half a second; before that they drop what they are to send
        yield f'until [ "$(cat /sys/class/net/{nic}/carrier)" = 1 ]; do sleep 0.02; done'
    for nic, side in zip(nics, sides, strict=True):
        yield f"ip address add {side.address} dev {nic}"
        neighbour = f"{side.neighbour_ip} lladdr {side.neighbour_mac}"
        yield f"ip neighbour add {neighbour} dev {nic} nud permanent"
    yield "set +e"
