"""What all settings of an interface have in common."""

from __future__ import annotations

from dataclasses import dataclass

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting


@dataclass(frozen=True)
class OnInterface(Setting):
    """A setting of an interface, which others may remove at any moment."""

    netns: str
    ifname: str

    def there(self, host: Host) -> bool:
        """Tell whether the interface exists."""
        return host.ifindex(self.netns, self.ifname) is not None
