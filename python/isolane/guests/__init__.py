"""Guests: virtual machines that Isolane starts, and ends whatever happens."""

from isolane.guests.leftovers import remove_left
from isolane.guests.nic_socket import NicSocket
from isolane.guests.uml import GUEST_PATH, KERNEL, PACKAGE, UmlGuest, UmlNic, UmlPlan

__all__ = [
    "GUEST_PATH",
    "KERNEL",
    "PACKAGE",
    "NicSocket",
    "UmlGuest",
    "UmlNic",
    "UmlPlan",
    "remove_left",
]
