"""Attributes of interfaces in sysfs."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Value
from isolane.enforce.settings.on_interface import OnInterface
from isolane.testbed.netns import step


@dataclass(frozen=True)
class DeviceFile(OnInterface):
    """A number in ``/sys/class/net/<ifname>/<attribute>``."""

    kind: ClassVar[str] = "device"
    attribute: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.ifname} ({self.netns}): {self.attribute}"

    def read(self, host: Host) -> Value:
        """Return the number; None when the interface is gone."""
        namespace = host.namespace(self.netns)
        if namespace is None:
            return None
        try:
            return int(namespace.read(self.ifname, self.attribute))
        except (OSError, ValueError):
            return None

    def write(self, host: Host, value: Value) -> None:
        """Write the number."""
        namespace = host.namespace(self.netns)
        if namespace is None or value is None or host.ifindex(self.netns, self.ifname) is None:
            return
        with step(f"setting {self}", f"{self.attribute} of interfaces"):
            try:
                namespace.write(self.ifname, self.attribute, int(value))
            except OSError as error:
                # Others detached our program, and its NAPI went with it: no thread is left.
                if error.errno != errno.EOPNOTSUPP or value:
                    raise
