"""Shares of a network back-end's uplink: the keys of a router's port there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.netback import Step, set_keys
from isolane.procfs import started


@dataclass(frozen=True)
class PortShares(Setting):
    """The keys of a port that its uplink's scheduler looks at, as the back-end's file has them.

    A back-end that was started anew has what its file says: that is another setting.
    """

    kind: ClassVar[str] = "port-shares"
    back_end: str
    port: str
    uplink: str
    process: int
    """The back-end's."""
    began: int
    """When that process began: numbers are given out again."""

    def __str__(self) -> str:
        """Name it for the user."""
        return f"shares of port {self.back_end}/{self.port} on {self.uplink}"

    def there(self, host: Host) -> bool:
        """Tell whether the back-end still runs, with such a port."""
        return started(self.process) == self.began and self.port in host.port_shares(self.back_end)

    def read(self, host: Host) -> Value:
        """Return key -> value, None where the port has none; None when the back-end has ended."""
        return dict(host.port_shares(self.back_end)[self.port]) if self.there(host) else None

    def write(self, host: Host, value: Value) -> None:
        """Change what differs; a key that the value does not have gets its default back.

        Keys that the scheduler does not look at any more stay as they are.
        """
        if value is None or not self.there(host):
            return
        known = host.port_shares(self.back_end)[self.port]
        changes = {
            key: "none" if value.get(key) is None else str(value[key])
            for key, now in known.items()
            if value.get(key) != now
        }
        if changes:
            (changed,) = set_keys(self.back_end, [Step(self.port, changes)])
            known |= {key: now for key, (_, now) in changed.items()}
