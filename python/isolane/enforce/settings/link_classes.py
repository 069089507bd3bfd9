"""Shares of a link: an HTB on the NIC with a class for each router."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

from isolane import rtnl
from isolane.enforce.host_access import Host
from isolane.enforce.htb import (
    DEFAULT_CLASS,
    LEAVES,
    MAJOR,
    ROOT_CLASS,
    ClassSettings,
    burst_bytes,
    class_id,
    size_table,
)
from isolane.enforce.setting import Value
from isolane.enforce.settings.on_interface import OnInterface
from isolane.enforce.settings.values import named
from isolane.testbed.netns import step

_ROOT = 0xFFFFFFFF
OURS = "isolane"


@contextlib.contextmanager
def _gone_already() -> Iterator[None]:
    """Take it for removed where somebody else has removed it, or its interface."""
    try:
        yield
    except rtnl.NetlinkError as error:
        if error.code not in (errno.ENOENT, errno.EINVAL, errno.ENODEV):
            raise


def class_settings(value: Value) -> ClassSettings:
    """Make the record again."""
    return ClassSettings(**named(value, (field.name for field in fields(ClassSettings))))


@dataclass(frozen=True)
class LinkRoot(OnInterface):
    """The root qdisc of a NIC."""

    kind: ClassVar[str] = "link"

    def __str__(self) -> str:
        """Name it for the user."""
        return f"root qdisc of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return ``isolane``, or kind and handle of another one (``fq_codel 0:``)."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return None
        for qdisc in namespace.links.get_qdiscs(index):
            if qdisc["parent"] == _ROOT:
                kind, handle = qdisc.get_attr("TCA_KIND"), qdisc["handle"] >> 16
                stab = qdisc.get_attr("TCA_STAB")
                ours = (kind, handle) == ("htb", MAJOR) and stab is not None
                return OURS if ours else f"{kind} {handle:x}:"
        return None

    def write(self, host: Host, value: Value) -> None:
        """Put ours there, or remove it: the kernel then puts its default one back."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return
        host.forget_classes(self.netns, self.ifname)
        if value != OURS:
            with _gone_already():
                namespace.links.tc("del", index=index, parent=_ROOT)
            return
        with step(f"setting the {self}", "HTB and size tables (CONFIG_NET_SCH_HTB)"):
            namespace.links.tc(
                "add", "htb", index, MAJOR << 16, default=DEFAULT_CLASS, stab=size_table()
            )

    def owned_by_others(self, host: Host, current: Value) -> str | None:  # noqa: ARG002
        """Say that somebody chose the qdisc that is there; the kernel's own have handle 0."""
        if current in (None, OURS) or str(current).endswith(" 0:"):
            return None
        return f"the qdisc {current} was put there by somebody else"


@dataclass(frozen=True)
class Classifiers(OnInterface):
    """The clsact qdisc of an interface, where programs classify frames; True when it is there."""

    kind: ClassVar[str] = "clsact"

    def __str__(self) -> str:
        """Name it for the user."""
        return f"clsact qdisc of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return True when it is there."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return None
        return True if index in host.classifiers(self.netns) else None

    def write(self, host: Host, value: Value) -> None:
        """Make it, or remove it with all that hangs on it."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return
        known = host.classifiers(self.netns)
        if value:
            with step(f"setting the {self}", "clsact (CONFIG_NET_CLS_ACT)"):
                namespace.links.tc("add", "clsact", index)
            known.add(index)
            return
        with _gone_already():
            namespace.links.tc("del", "clsact", index)
        known.discard(index)


@dataclass(frozen=True)
class LinkClass(OnInterface):
    """A class; the value is :class:`isolane.enforce.htb.ClassSettings`."""

    kind: ClassVar[str] = "class"
    minor: int
    owner: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.owner}: share of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return its settings; None when there is none."""
        found = host.classes(self.netns, self.ifname).get(self.minor)
        return None if found is None else asdict(found)

    def write(self, host: Host, value: Value) -> None:
        """Make or change it; waiting frames stay."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None:
            return
        known = host.classes(self.netns, self.ifname)
        if value is None:
            with _gone_already():  # with its root
                namespace.links.tc("del-class", index=index, handle=class_id(self.minor))
            known.pop(self.minor, None)
            return
        settings = class_settings(value)
        parent = MAJOR << 16 if self.minor == ROOT_CLASS else class_id(ROOT_CLASS)
        command = "change-class" if self.minor in known else "add-class"
        with step(f"setting {self}", "HTB (CONFIG_NET_SCH_HTB)"):
            namespace.links.tc(
                command,
                "htb",
                index,
                class_id(self.minor),
                parent=parent,
                **asdict(settings),
                cburst=burst_bytes(settings.ceil),
            )
        known[self.minor] = settings


@dataclass(frozen=True)
class LeafQueue(OnInterface):
    """The queue of a class: frames that may wait for the link.

    The kernel's own would hold as many as the device's txqueuelen, which on a slow link is longer
    than anybody wants to wait.
    """

    kind: ClassVar[str] = "leaf"
    minor: int
    owner: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.owner}: queue for {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return the limit, frames; None when it is the kernel's own."""
        return host.leaves(self.netns, self.ifname).get(self.minor)

    def write(self, host: Host, value: Value) -> None:
        """Make it or change it; None: the kernel's own comes back when the class goes."""
        index, namespace = host.ifindex(self.netns, self.ifname), host.namespace(self.netns)
        if index is None or namespace is None or value is None:
            return
        known = host.leaves(self.netns, self.ifname)
        with step(f"setting {self}", "pfifo"):
            namespace.links.tc(
                "change" if self.minor in known else "add",
                "pfifo",
                index,
                (LEAVES + self.minor) << 16,
                parent=class_id(self.minor),
                limit=value,
            )
        known[self.minor] = value
