"""The network back-end for virtual machines: its process, its sockets, what others ask of it.

The packet path is ``crates/netback``; nothing here touches a frame.
"""

from isolane.netback.control import (
    PortStatus,
    Status,
    Step,
    Target,
    UplinkStatus,
    find,
    set_keys,
    status_of,
    statuses,
)
from isolane.netback.folders import DIRECTORY, names, remove_left, socket_of
from isolane.netback.readiness import tell_ready
from isolane.netback.service import serve

__all__ = [
    "DIRECTORY",
    "PortStatus",
    "Status",
    "Step",
    "Target",
    "UplinkStatus",
    "find",
    "names",
    "remove_left",
    "serve",
    "set_keys",
    "socket_of",
    "status_of",
    "statuses",
    "tell_ready",
]
