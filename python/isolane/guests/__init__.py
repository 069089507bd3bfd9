"""Guests: virtual machines that Isolane starts, and ends whatever happens."""

from isolane.guests.debian_kernel import GuestKernel
from isolane.guests.guest import DIRECTORY, Guest
from isolane.guests.leftovers import remove_left
from isolane.guests.nic_socket import NicSocket
from isolane.guests.qemu import QemuGuest, QemuNic, QemuPlan
from isolane.guests.uml import GUEST_PATH, KERNEL, PACKAGE, UmlGuest, UmlNic, UmlPlan

__all__ = [
    "DIRECTORY",
    "GUEST_PATH",
    "KERNEL",
    "PACKAGE",
    "Guest",
    "GuestKernel",
    "NicSocket",
    "QemuGuest",
    "QemuNic",
    "QemuPlan",
    "UmlGuest",
    "UmlNic",
    "UmlPlan",
    "remove_left",
]
