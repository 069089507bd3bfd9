"""Guests: virtual machines that Isolane starts, and ends whatever happens."""

from isolane.guests.uml import KERNEL, UmlGuest, UmlPlan

__all__ = ["KERNEL", "UmlGuest", "UmlPlan"]
