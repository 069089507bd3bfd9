"""Offloads of interfaces, and whether XDP can transmit by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.enforce.settings.on_interface import OnInterface
from isolane.testbed import kernel
from isolane.testbed.netns import step


@dataclass(frozen=True)
class Offload(OnInterface):
    """An offload of an interface, named as in ``ethtool -K``; True: on."""

    kind: ClassVar[str] = "offload"
    feature: str
    """``tx``, ``tso``, ``gro``, ``txvlan``, ``rxvlan``, ``lro`` or ``ntuple`` (receive filters)."""

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.ifname} ({self.netns}): offload {self.feature}"

    def read(self, host: Host) -> Value:
        """Return whether it is on; None when the interface is gone or does not have it."""
        namespace = host.namespace(self.netns)
        if namespace is None:
            return None
        try:
            return kernel.get_offload(namespace.ioctl, self.ifname, self.feature)
        except OSError:
            return None

    def write(self, host: Host, value: Value) -> None:
        """Switch it on or off."""
        namespace = host.namespace(self.netns)
        if namespace is None or value is None:
            return
        with step(f"setting {self}", f"ethtool -K {self.ifname} {self.feature}"):
            kernel.set_offload(namespace.ioctl, self.ifname, self.feature, on=value)


@dataclass(frozen=True)
class TakesXdp(Setting):
    """Whether XDP can transmit by a NIC. Isolane cannot set this; status has to notice its end.

    A veth accepts frames from XDP as long as NAPI polls its other end (``ethtool -K PEER gro on``,
    or an XDP program there). When that ends, the kernel drops what routers send by XDP.
    """

    kind: ClassVar[str] = "takes-xdp"
    netns: str
    ifname: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.ifname}: takes frames from XDP"

    def read(self, host: Host) -> Value:
        """Return whether XDP can transmit by the NIC; None when the NIC is gone."""
        index = host.ifindex(self.netns, self.ifname)
        if index is None:
            return None
        return host.takes_xdp(self.netns, index)

    def write(self, host: Host, value: Value) -> None:
        """Do nothing: it depends on the other end."""
