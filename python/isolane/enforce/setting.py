"""A setting: one setting of the host that a policy needs, that can be read, written, put back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from isolane.enforce.host_access import Host

Value = Any
"""Plain JSON; None: the thing is not there, or its owner is gone."""

KINDS: dict[str, type[Setting]] = {}
"""By name, to make a setting again from what the state says of it."""


@dataclass(frozen=True)
class Setting(ABC):
    """One setting; its fields say which, :class:`Desired` says what it is to be."""

    kind: ClassVar[str]
    adoptable: ClassVar[bool] = False
    """Whether what is somebody else's can be put back when the policy ends."""

    def __init_subclass__(cls) -> None:
        """Remember the kind."""
        KINDS[cls.kind] = cls

    @property
    def key(self) -> str:
        """Name of the setting: equal for equal settings."""
        return json.dumps([self.kind, vars(self)], default=str)

    @abstractmethod
    def read(self, host: Host) -> Value:
        """Return what it is now; None when it, or what it belongs to, does not exist."""

    @abstractmethod
    def write(self, host: Host, value: Value) -> None:
        """Make it ``value``; None: remove it. Nothing happens when its owner is gone."""

    def foreign(self, host: Host, current: Value) -> str | None:  # noqa: ARG002 - a hook
        """Say whose it is, if it is somebody else's and must not be changed."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """Name it for the user."""


@dataclass(frozen=True)
class Desired:
    """A setting and what it is to be."""

    setting: Setting
    value: Value
    floating: bool = False
    """It holds when written, but the kernel moves it: not a drift when it is found elsewhere."""
    router: str = ""
    """Whose sake it is for; empty: that of all."""


def make(kind: str, fields: dict[str, Any]) -> Setting:
    """Make a setting from what :attr:`Setting.key` says."""
    return KINDS[kind](**fields)


def from_key(key: str) -> Setting:
    """Make the setting that has this key."""
    kind, fields = json.loads(key)
    return make(kind, fields)
