"""Makes settings what a policy wants; undoes it all when one cannot be. Knows no kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyroute2.netlink.exceptions import NetlinkError

from isolane.enforce.setting import Desired, Setting, Value, from_key
from isolane.enforce.state import Done, State
from isolane.errors import IsolaneError, TestbedError

if TYPE_CHECKING:
    from isolane.enforce.host_access import Host


_EXPECTED = (IsolaneError, OSError, NetlinkError)


class ForeignError(TestbedError):
    """Something on the host is somebody else's; nothing was changed."""


@dataclass
class Changes:
    """What an apply did."""

    changed: list[str] = field(default_factory=list)
    unchanged: int = 0


@dataclass(frozen=True)
class Drift:
    """A setting that is not what the policy made it."""

    setting: str
    wanted: Value
    found: Value
    router: str = ""
    """Whose sake the setting is for; empty: that of all."""


def apply(
    desired_settings: Iterable[Desired],
    state: State,
    host: Host,
    about: dict[str, Any],
    *,
    adopt: bool = False,
) -> Changes:
    """Fulfil all desired_settings, put back what is no longer desired for; all or nothing.

    Parameters
    ----------
    desired_settings
        In the order in which they are to be fulfilled; may be a generator that looks at the host
        as the earlier ones have left it.
    about
        What :attr:`State.about` is to be from then on.
    adopt
        Change what is somebody else's, too, where it can be put back.

    Raises
    ------
    ForeignError
        When something is somebody else's.
    IsolaneError
        Whatever a setting raises. The host then is as it was before.
    """
    changes = Changes()
    wanted: set[str] = set()
    before: list[tuple[Setting, Value]] = []
    kept = {key: replace(done) for key, done in state.done.items()}, dict(state.numbers)
    try:
        for desired in desired_settings:
            wanted.add(_fulfil(desired, state, host, before, changes, adopt=adopt))
        for key in [key for key in reversed(state.done) if key not in wanted]:
            setting = from_key(key)
            _put_back(setting, state, host, before)
            changes.changed.append(f"{setting}: put back")
    except BaseException as error:
        state.done, state.numbers = kept
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
    """Make one setting as it is to be; return its key, which takes time to make."""
    setting, key = desired.setting, desired.setting.key
    current = setting.read(host)
    known = state.done.get(key)
    if known is None or known.wanted != current:
        owner = setting.foreign(host, current)
        if owner and not (adopt and setting.adoptable):
            remedy = "remove it first" + (", or use it with --adopt" if setting.adoptable else "")
            raise ForeignError(f"{setting}: {owner}; {remedy} (nothing was changed)")
    if current == desired.value or (known and desired.floating and known.wanted == desired.value):
        if known is None:
            state.done[key] = Done(current, desired.value, desired.floating)
        known = state.done[key]
        known.wanted, known.router = desired.value, desired.router
        changes.unchanged += 1
        return key
    state.note(key, current)
    before.append((setting, current))
    setting.write(host, desired.value)
    found = setting.read(host)
    if found != desired.value and not desired.floating:
        raise TestbedError(f"{setting}: set to {desired.value}, but the kernel made it {found}")
    original = known.original if known else current
    state.done[key] = Done(original, desired.value, desired.floating, desired.router)
    changes.changed.append(f"{setting}: {_show(current)} -> {_show(desired.value)}")
    return key


def _put_back(
    setting: Setting, state: State, host: Host, before: list[tuple[Setting, Value]]
) -> None:
    current = setting.read(host)
    done = state.done[setting.key]
    somebody_elses = current != done.wanted and setting.foreign(host, current)
    if current != done.original and not somebody_elses:
        state.note(setting.key, current)
        before.append((setting, current))
        setting.write(host, done.original)
    del state.done[setting.key]


def clear(state: State, host: Host) -> list[str]:
    """Put everything back, as far as it goes; say what could not be.

    What a killed command left half done is put back with the rest. It is not rolled back first: a
    clear that was killed would have to be undone for that, with what it needs perhaps gone.

    Returns
    -------
    list of str
        Problems; what they are about stays in the state.
    """
    problems = []
    for key, before in state.unfinished():
        if key not in state.done:
            state.done[key] = Done(before, _found(from_key(key), host))
    for key in list(reversed(state.done)):
        setting = from_key(key)
        try:
            _put_back(setting, state, host, [])
        except _EXPECTED as error:
            problems.append(f"{setting}: {error}")
    if not problems:
        state.about, state.numbers = {}, {}
    state.save()
    return problems


def _found(setting: Setting, host: Host) -> Value:
    with contextlib.suppress(*_EXPECTED):  # whoever puts it back will be told
        return setting.read(host)
    return None


def undo(before: list[tuple[Setting, Value]], state: State, host: Host) -> list[str]:
    """Give settings back the values that they had, latest first.

    Returns
    -------
    list of str
        Problems; what they are about is left to a later clear.
    """
    problems = []
    for setting, value in reversed(before):
        try:
            if setting.read(host) != value:  # a killed command noted it, but did not come to it
                setting.write(host, value)
        except _EXPECTED as error:
            problems.append(f"{setting}: {error}")
            state.done.setdefault(setting.key, Done(value, None))
    return problems


def _told(problems: list[str]) -> str:
    return "could not be undone: " + "; ".join(problems)


def recover(state: State, host: Host) -> int:
    """Roll back what a command changed that was killed; returns the number of settings.

    Raises
    ------
    TestbedError
        Naming what could not be rolled back, once; a clear will try it again.
    """
    entries = [(from_key(key), value) for key, value in state.unfinished()]
    problems = undo(entries, state, host)
    state.save()
    if problems:
        raise TestbedError(_told(problems))
    return len(entries)


def read_all(state: State, host: Host) -> dict[str, Value]:
    """Return what the kernel has of the settings in force, by key."""
    return {key: from_key(key).read(host) for key in state.done}


def drifts(state: State, found: Mapping[str, Value]) -> list[Drift]:
    """Compare what is in force with what :func:`read_all` found."""
    return [
        Drift(str(from_key(key)), done.wanted, found[key], done.router)
        for key, done in state.done.items()
        if found[key] != done.wanted and not done.floating
    ]


def _show(value: Value) -> str:
    return "none" if value is None else str(value)
