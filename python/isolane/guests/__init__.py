"""Guests: virtual machines that Isolane starts, and ends whatever happens."""

from isolane.guests.cloud_init import Seed, user_data
from isolane.guests.debian_kernel import GuestKernel
from isolane.guests.guest import DIRECTORY, Guest, GuestPart
from isolane.guests.guest_answers import GO_ON, STOP, in_time, work_variable
from isolane.guests.image import IMAGE_MB, WRITTEN_MB, ImageGuest, ImagePlan, check_image
from isolane.guests.leftovers import remove_left
from isolane.guests.nic_socket import NicSocket
from isolane.guests.qemu import QEMU_DISK, QEMU_MB, QemuGuest, QemuNic, QemuPlan
from isolane.guests.served_nic import VhostUserNic
from isolane.guests.uml import (
    GUEST_PATH,
    KERNEL,
    PACKAGE,
    UML_DISK,
    UML_MB,
    UmlGuest,
    UmlNic,
    UmlPlan,
)

__all__ = [
    "DIRECTORY",
    "GO_ON",
    "GUEST_PATH",
    "IMAGE_MB",
    "KERNEL",
    "PACKAGE",
    "QEMU_DISK",
    "QEMU_MB",
    "STOP",
    "UML_DISK",
    "UML_MB",
    "WRITTEN_MB",
    "Guest",
    "GuestKernel",
    "GuestPart",
    "ImageGuest",
    "ImagePlan",
    "NicSocket",
    "QemuGuest",
    "QemuNic",
    "QemuPlan",
    "Seed",
    "UmlGuest",
    "UmlNic",
    "UmlPlan",
    "VhostUserNic",
    "check_image",
    "in_time",
    "remove_left",
    "user_data",
    "work_variable",
]
