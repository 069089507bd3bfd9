"""The test bed: the only code that makes namespaces, devices and addresses on this host.

The doctor makes some in children, too, in namespaces that end with them. Policies
(:mod:`isolane.enforce`) change settings of what is there already.

``exclusive()`` takes the lock, ``clean()`` removes what dead runs left, :class:`Testbed` builds
namespaces, wires and routers and takes them down again.
"""

from isolane.testbed.bed import Testbed
from isolane.testbed.bed_back_end import PortChange, change_ports
from isolane.testbed.bed_plan import (
    UML,
    BedPlan,
    DiskImage,
    DutInterface,
    Edge,
    ImageRouter,
    Machine,
    Node,
    RouterPlan,
    WebPlan,
    Wire,
    WorkTime,
)
from isolane.testbed.capture_points import CapturePoint
from isolane.testbed.cleaning import clean
from isolane.testbed.journal import Journal, exclusive
from isolane.testbed.layout import POLICY_NICS, SENDING_NICS
from isolane.testbed.loss_counters import Counters
from isolane.testbed.netns import NETNS_DIR
from isolane.testbed.responders import ECHO_PORT

__all__ = [
    "ECHO_PORT",
    "NETNS_DIR",
    "POLICY_NICS",
    "SENDING_NICS",
    "UML",
    "BedPlan",
    "CapturePoint",
    "Counters",
    "DiskImage",
    "DutInterface",
    "Edge",
    "ImageRouter",
    "Journal",
    "Machine",
    "Node",
    "PortChange",
    "RouterPlan",
    "Testbed",
    "WebPlan",
    "Wire",
    "WorkTime",
    "change_ports",
    "clean",
    "exclusive",
]
