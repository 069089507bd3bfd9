"""One setting of the host that a policy needs: how it is read, written and put back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from isolane.enforce.host_access import Host

Value = Any
"""The value of a setting, as plain JSON; None: the setting, or its object, does not exist."""

KINDS: dict[str, type[Setting]] = {}
"""Class of each kind of setting, by the name that the state file has for it."""


@dataclass(frozen=True)
class Setting(ABC):
    """One setting. Its fields say which one it is; :class:`Desired` adds the value to give it."""

    kind: ClassVar[str]
    adoptable: ClassVar[bool] = False
    """Whether ``--adopt`` may take it over from others: it can be put back when the policy ends."""

    def __init_subclass__(cls) -> None:
        """Register the kind, so that :func:`make` finds it; what kinds have in common has none."""
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def key(self) -> str:
        """Identify the setting in the state file; equal settings have equal keys."""
        return json.dumps([self.kind, vars(self)], default=str)

    @abstractmethod
    def read(self, host: Host) -> Value:
        """Return its value now; None when it, or the object that it belongs to, does not exist."""

    @abstractmethod
    def write(self, host: Host, value: Value) -> None:
        """Set it to ``value``; None removes it. Does nothing when the object is gone."""

    def there(self, host: Host) -> bool:  # noqa: ARG002 - a hook
        """Tell whether the object that it belongs to exists: others may remove it at any moment."""
        return True

    def with_it(self, host: Host) -> Iterable[Setting]:  # noqa: ARG002 - a hook
        """Return the other settings that are changed, too, when this one is."""
        return ()

    def lost(self, host: Host) -> bool:  # noqa: ARG002 - a hook
        """Tell whether what was changed is gone with its holder: nothing is left to put back."""
        return False

    def owned_by_others(self, host: Host, current: Value) -> str | None:  # noqa: ARG002 - a hook
        """Say who owns it, if others do and a policy must not change it; None: nobody else does."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """Name it for the user."""


@dataclass(frozen=True)
class Desired:
    """A setting and the value that a policy wants it to have."""

    setting: Setting
    value: Value
    kernel_managed: bool = False
    """The kernel changes it by itself after it was written: another value later is no drift."""
    router: str = ""
    """Router that it is set for; empty: for all of them."""


def shown(value: Value) -> str:
    """Return a value in words; what several have names for without those that have none."""
    if isinstance(value, dict):
        return " ".join(f"{key}={part}" for key, part in value.items() if part is not None)
    return "none" if value is None else str(value)


def make(kind: str, fields: dict[str, Any]) -> Setting:
    """Make a setting from its kind and its fields."""
    return KINDS[kind](**fields)


def from_key(key: str) -> Setting:
    """Make the setting that :attr:`Setting.key` identifies."""
    kind, fields = json.loads(key)
    return make(kind, fields)
