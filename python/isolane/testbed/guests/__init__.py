"""Virtual machines as routers: a hypervisor's process, a kernel of its own, a line to its init."""

from isolane.testbed.guests.guest_group import GuestGroup, remove_group
from isolane.testbed.guests.hypervisors import (
    GUEST_MEMORY_BYTES,
    NAMES,
    choose,
    need_memory,
)
from isolane.testbed.guests.uml_guest import UmlGuest, await_guests

__all__ = [
    "GUEST_MEMORY_BYTES",
    "NAMES",
    "GuestGroup",
    "UmlGuest",
    "await_guests",
    "choose",
    "need_memory",
    "remove_group",
]
