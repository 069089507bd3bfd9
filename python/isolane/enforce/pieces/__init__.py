"""Every kind of piece; importing them makes them known to :func:`isolane.enforce.piece.make`."""

from isolane.enforce.pieces.devices import DeviceFile
from isolane.enforce.pieces.links import Classifiers, LinkClass, LinkRoot
from isolane.enforce.pieces.packets import Entry, PortPiece, Program, QueuePiece
from isolane.enforce.pieces.tasks import Affinity, Group, GroupFile, Member, Scheduling

__all__ = [
    "Affinity",
    "Classifiers",
    "DeviceFile",
    "Entry",
    "Group",
    "GroupFile",
    "LinkClass",
    "LinkRoot",
    "Member",
    "PortPiece",
    "Program",
    "QueuePiece",
    "Scheduling",
]
