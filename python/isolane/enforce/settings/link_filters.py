"""Which class what a virtual machine sends is in: a filter on its MAC address (tc-u32).

Where no program of a policy looks at what a router sends, nothing else tells its class. pyroute2's
filters of this kind cannot look before the network header, where the addresses are.
Source: linux/pkt_cls.h, tc-u32(8).
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from isolane.enforce.find.netlink_socket import Attributes, Netlink, attribute, read_attributes
from isolane.enforce.host_access import Host
from isolane.enforce.htb import MAJOR, class_id
from isolane.enforce.setting import Value
from isolane.enforce.settings.on_interface import OnInterface
from isolane.testbed.netns import step

_ROOT: Final = MAJOR << 16
_EVERY_FRAME: Final = socket.htons(0x0003)
"""ETH_P_ALL, as the kernel has it."""
_NEW, _DELETE, _GET = 44, 45, 46
"""RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER."""
_ACK, _CREATE, _EXCLUSIVE, _DUMP = 0x4, 0x400, 0x200, 0x300
_ABOUT: Final = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, interface, handle, parent, preference with protocol."""
_KIND, _OPTIONS, _CLASS_ID, _SELECTOR = 1, 2, 1, 5
"""TCA_KIND, TCA_OPTIONS, TCA_U32_CLASSID, TCA_U32_SEL."""
_HEAD: Final = struct.Struct("=BBBxHHhhI")
"""struct tc_u32_sel without its keys."""
_KEY: Final = struct.Struct("=4s4sii")
"""struct tc_u32_key: mask, value, where, and where else."""
_TERMINAL: Final = 1
_WHERE: Final = ((-8, b"\xff\xff\xff\xff"), (-4, b"\xff\xff\0\0"))
"""Where a frame has its source address, from its network header, and masks."""
_GONE: Final = (errno.ENOENT, errno.EINVAL, errno.ENODEV)


def options(mac: str, minor: int) -> bytes:
    """Return the options of the filter that puts what comes from an address into a class."""
    address = bytes.fromhex(mac.replace(":", "")) + bytes(2)
    keys = (
        _KEY.pack(mask, address[4 * number :][:4], at, 0)
        for number, (at, mask) in enumerate(_WHERE)
    )
    selector = _HEAD.pack(_TERMINAL, 0, len(_WHERE), 0, 0, 0, 0, 0) + b"".join(keys)
    class_ = struct.pack("=I", class_id(minor))
    return attribute(_CLASS_ID, class_) + attribute(_SELECTOR, selector)


def address_of(found: Attributes, minor: int) -> str | None:
    """Return the address of which a filter puts frames into a class; None: it does not.

    Parameters
    ----------
    found
        The attributes of its options.
    """
    selector = found.get(_SELECTOR, b"")
    keys = list(_KEY.iter_unpack(selector[_HEAD.size :])) if len(selector) > _HEAD.size else []
    asked = [(at, mask) for mask, _, at, _ in keys]
    if asked != list(_WHERE) or found.get(_CLASS_ID) != struct.pack("=I", class_id(minor)):
        return None
    address: bytes = keys[0][1] + keys[1][1]
    return address[:6].hex(":")


@dataclass(frozen=True)
class LinkFilter(OnInterface):
    """The source address of the frames that belong to a class."""

    kind: ClassVar[str] = "link-filter"
    number: int
    """Its preference, which no two of a link have."""
    minor: int
    """Of the class."""
    owner: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.owner}: what is its on {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return the MAC address; None where there is no such filter."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return None
        with Netlink() as netlink:
            found = (address_of(one, self.minor) for one in self._filters(netlink, index))
            return next(filter(None, found), None)

    def _filters(self, netlink: Netlink, index: int) -> Iterator[Attributes]:
        """Yield the options of what is there; of one filter the kernel tells several parts."""
        _, answers = netlink.ask(_GET, _ABOUT.pack(0, index, 0, _ROOT, 0), _DUMP)
        for answer in answers:
            if _ABOUT.unpack_from(answer)[4] >> 16 == self.number:
                told = read_attributes(answer[_ABOUT.size :])
                yield read_attributes(told.get(_OPTIONS, b""))

    def write(self, host: Host, value: Value) -> None:
        """Put it there in place of an earlier one, or remove it."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return
        about = _ABOUT.pack(0, index, 0, _ROOT, self.number << 16 | _EVERY_FRAME)
        with Netlink() as netlink:
            try:
                netlink.ask(_DELETE, about, _ACK)
            except OSError as error:
                if error.errno not in _GONE:  # with its root
                    raise
            if value is None:
                return
            kind = attribute(_KIND, b"u32\0")
            mine = attribute(_OPTIONS, options(str(value), self.minor))
            with step(f"setting {self}", "filters of a link (CONFIG_NET_CLS_U32)"):
                netlink.ask(_NEW, about + kind + mine, _ACK | _CREATE | _EXCLUSIVE)
