"""Every kind of piece; importing them makes them known to :func:`isolane.enforce.piece.make`."""

from isolane.enforce.pieces.devices import DeviceFile
from isolane.enforce.pieces.link_classes import Classifiers, LeafQueue, LinkClass, LinkRoot
from isolane.enforce.pieces.offloads import Offload, TakesXdp
from isolane.enforce.pieces.packets import Budget, Entry, PortPiece, Program, QueuePiece
from isolane.enforce.pieces.tasks import Affinity, Group, GroupFile, Member, Scheduling

__all__ = [
    "Affinity",
    "Budget",
    "Classifiers",
    "DeviceFile",
    "Entry",
    "Group",
    "GroupFile",
    "LeafQueue",
    "LinkClass",
    "LinkRoot",
    "Member",
    "Offload",
    "PortPiece",
    "Program",
    "QueuePiece",
    "Scheduling",
    "TakesXdp",
]
