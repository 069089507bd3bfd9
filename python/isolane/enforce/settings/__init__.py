"""Every kind of setting; importing this registers them for :func:`isolane.enforce.setting.make`."""

from isolane.enforce.settings.controllers import Controller
from isolane.enforce.settings.devices import DeviceFile
from isolane.enforce.settings.link_classes import Classifiers, LeafQueue, LinkClass, LinkRoot
from isolane.enforce.settings.link_filters import LinkFilter
from isolane.enforce.settings.offloads import Offload, TakesXdp
from isolane.enforce.settings.pacemaking import Pacemaker
from isolane.enforce.settings.packets import Budget, Entry, PortSetting, Program, QueueSetting
from isolane.enforce.settings.port_shares import PortShares
from isolane.enforce.settings.receive_queues import Filter, Spread
from isolane.enforce.settings.tasks import Affinity, Group, GroupFile, Member, Scheduling, Slice

__all__ = [
    "Affinity",
    "Budget",
    "Classifiers",
    "Controller",
    "DeviceFile",
    "Entry",
    "Filter",
    "Group",
    "GroupFile",
    "LeafQueue",
    "LinkClass",
    "LinkFilter",
    "LinkRoot",
    "Member",
    "Offload",
    "Pacemaker",
    "PortSetting",
    "PortShares",
    "Program",
    "QueueSetting",
    "Scheduling",
    "Slice",
    "Spread",
    "TakesXdp",
]
