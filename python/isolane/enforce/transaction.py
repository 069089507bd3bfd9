"""Applies all desired settings of a policy or none: on failure, rolls back those applied."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from isolane import rtnl
from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.setting import Desired, Setting, Value, from_key, shown
from isolane.errors import IsolaneError, TestbedError

if TYPE_CHECKING:
    from isolane.enforce.host_access import Host


def expected() -> tuple[type[Exception], ...]:
    """Return what may stand in the way of a change; see :mod:`isolane.rtnl` for why it is asked."""
    return IsolaneError, OSError, rtnl.NetlinkError


class OwnedByOthersError(TestbedError):
    """A setting that the policy needs is owned by others; nothing was changed."""


@dataclass
class Changes:
    """What :func:`apply` changed."""

    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    origins: dict[str, Value] = field(default_factory=dict)
    """By key, what settings had that were changed along with another one."""


@dataclass(frozen=True)
class Drift:
    """A setting whose value is not the one that the policy gave it."""

    setting: str
    wanted: Value
    found: Value
    router: str = ""
    """Router that the setting is for; empty: all of them."""


def apply(
    desired_settings: Iterable[Desired],
    state: State,
    host: Host,
    about: dict[str, Any],
    *,
    adopt: bool = False,
) -> Changes:
    """Apply all desired settings and put back the ones no longer desired; all or nothing.

    Parameters
    ----------
    desired_settings
        In the order in which to apply them. A generator may look at the host in between: it sees
        the earlier ones applied.
    about
        The new :attr:`State.about`.
    adopt
        Also change settings that others own, where they can be put back.

    Raises
    ------
    OwnedByOthersError
        When others own a setting, and ``adopt`` is not given or does not help.
    IsolaneError
        What the reading or writing of a setting raises; all changes have been rolled back.
    """
    changes = Changes()
    wanted: set[str] = set()
    before: list[tuple[Setting, Value]] = []
    kept = {key: replace(applied) for key, applied in state.applied.items()}, dict(state.numbers)
    try:
        for desired in desired_settings:
            wanted.add(_fulfil(desired, state, host, before, changes, adopt=adopt))
        for key in [key for key in reversed(state.applied) if key not in wanted]:
            setting = from_key(key)
            _put_back(setting, state, host, before)
            changes.changed.append(f"{setting}: put back")
    except BaseException as error:
        state.applied, state.numbers = kept
        if problems := undo(before, state, host):
            state.save()
            raise TestbedError(f"{error}; and {_told(problems)}") from error
        state.save()
        raise
    state.about = about
    state.keep_asked()
    state.save()
    return changes


def _fulfil(
    desired: Desired,
    state: State,
    host: Host,
    before: list[tuple[Setting, Value]],
    changes: Changes,
    *,
    adopt: bool,
) -> str:
    """Give one setting its desired value; return its key, which takes time to make."""
    setting, key = desired.setting, desired.setting.key
    current = _read(setting, host)
    origin = changes.origins.get(key, current)
    known = state.applied.get(key)
    if known is None or known.wanted != current:
        owner = setting.owned_by_others(host, current)
        if owner and not (adopt and setting.adoptable):
            remedy = "remove it first" + (", or use it with --adopt" if setting.adoptable else "")
            raise OwnedByOthersError(f"{setting}: {owner}; {remedy} (nothing was changed)")
    if current == desired.value or (
        known and desired.kernel_managed and known.wanted == desired.value
    ):
        if known is None:
            state.applied[key] = AppliedSetting(origin, desired.value, desired.kernel_managed)
        known = state.applied[key]
        known.wanted, known.router = desired.value, desired.router
        changes.unchanged += 1
        return key
    state.note(key, current)
    before.append((setting, current))
    for other in setting.with_it(host):
        if other.key not in changes.origins:
            changes.origins[other.key] = value = _read(other, host)
            state.note(other.key, value)
            before.append((other, value))
    _write(setting, host, desired.value)
    found = _read(setting, host)
    if found != desired.value and not desired.kernel_managed:
        if not setting.there(host):
            raise TestbedError(f"{setting}: it went away meanwhile; apply the policy again")
        raise TestbedError(
            f"{setting}: set to {shown(desired.value)}, but the kernel made it {shown(found)}"
        )
    original = known.original if known else origin
    state.applied[key] = AppliedSetting(
        original, desired.value, desired.kernel_managed, desired.router
    )
    changes.changed.append(f"{setting}: {shown(current)} -> {shown(desired.value)}")
    return key


def _put_back(
    setting: Setting, state: State, host: Host, before: list[tuple[Setting, Value]]
) -> None:
    current = _read(setting, host)
    applied = state.applied[setting.key]
    owner = current != applied.wanted and setting.owned_by_others(host, current)
    if current != applied.original and not owner and not setting.lost(host):
        state.note(setting.key, current)
        before.append((setting, current))
        _write(setting, host, applied.original)
    del state.applied[setting.key]


def clear(state: State, host: Host) -> list[str]:
    """Put back every setting that can be, and return what went wrong with the others.

    This also puts back the changes of a killed command, without rolling that command back first:
    if it was itself a clear, rolling back would apply settings again whose objects may be gone.

    Returns
    -------
    list of str
        One sentence for each setting that could not be put back; these stay in the state.
    """
    problems = []
    for key, before in state.unfinished():
        if key not in state.applied:
            state.applied[key] = AppliedSetting(before, _found(from_key(key), host))
    for key in list(reversed(state.applied)):
        setting = from_key(key)
        try:
            _put_back(setting, state, host, [])
        except expected() as error:
            problems.append(f"{setting}: {error}")
    if not problems:
        state.about, state.numbers = {}, {}
    state.save()
    return problems


def _found(setting: Setting, host: Host) -> Value:
    with contextlib.suppress(*expected()):  # putting it back will fail the same way, and say so
        return _read(setting, host)
    return None


def _read(setting: Setting, host: Host) -> Value:
    """Read a setting; None, too, when its object goes away while it is read."""
    try:
        return setting.read(host)
    except expected():
        if setting.there(host):
            raise
        return None


def _write(setting: Setting, host: Host, value: Value) -> None:
    """Write a setting; nothing happens when its object goes away before it is written."""
    try:
        setting.write(host, value)
    except expected():
        if setting.there(host):
            raise


def undo(before: list[tuple[Setting, Value]], state: State, host: Host) -> list[str]:
    """Give settings the values that they had before, the last changed one first.

    Returns
    -------
    list of str
        One sentence for each setting that failed; the state keeps these for a later clear.
    """
    problems = []
    for setting, value in reversed(before):
        try:
            # A killed command may have noted it and not yet changed it.
            if _read(setting, host) != value:
                _write(setting, host, value)
        except expected() as error:
            problems.append(f"{setting}: {error}")
            state.applied.setdefault(setting.key, AppliedSetting(value, None))
    return problems


def _told(problems: list[str]) -> str:
    return "could not be undone: " + "; ".join(problems)


def recover(state: State, host: Host) -> int:
    """Roll back what a killed command changed; return the number of settings.

    Raises
    ------
    TestbedError
        Naming what could not be rolled back. The next command does not try again; a clear does.
    """
    entries = [(from_key(key), value) for key, value in state.unfinished()]
    problems = undo(entries, state, host)
    state.save()
    if problems:
        raise TestbedError(_told(problems))
    return len(entries)


def read_all(state: State, host: Host) -> dict[str, Value]:
    """Read the applied settings from the kernel, by key."""
    return {key: _read(from_key(key), host) for key in state.applied}


def drifts(state: State, found: Mapping[str, Value]) -> list[Drift]:
    """Return the applied settings that :func:`read_all` found with other values."""
    return [
        Drift(str(from_key(key)), applied.wanted, found[key], applied.router)
        for key, applied in state.applied.items()
        if found[key] != applied.wanted and not applied.kernel_managed
    ]
