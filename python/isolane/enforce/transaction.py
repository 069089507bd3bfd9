"""Makes pieces what a policy wants; undoes it all when one cannot be. Knows no kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyroute2.netlink.exceptions import NetlinkError

from isolane.enforce.piece import Piece, Value, Wish, from_key
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
    """A piece that is not what the policy made it."""

    piece: str
    wanted: Value
    found: Value
    router: str = ""
    """Whose sake the piece is for; empty: that of all."""


def apply(
    wishes: Iterable[Wish],
    state: State,
    host: Host,
    about: dict[str, Any],
    *,
    adopt: bool = False,
) -> Changes:
    """Fulfil all wishes, put back what is no longer wished for; all or nothing.

    Parameters
    ----------
    wishes
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
        Whatever a piece raises. The host then is as it was before.
    """
    changes = Changes()
    wanted: set[str] = set()
    before: list[tuple[Piece, Value]] = []
    kept = {key: replace(done) for key, done in state.done.items()}, dict(state.numbers)
    try:
        for wish in wishes:
            wanted.add(_fulfil(wish, state, host, before, changes, adopt=adopt))
        for key in [key for key in reversed(state.done) if key not in wanted]:
            piece = from_key(key)
            _put_back(piece, state, host, before)
            changes.changed.append(f"{piece}: put back")
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
    wish: Wish,
    state: State,
    host: Host,
    before: list[tuple[Piece, Value]],
    changes: Changes,
    *,
    adopt: bool,
) -> str:
    """Make one setting as it is to be; return its key, which takes time to make."""
    piece, key = wish.piece, wish.piece.key
    current = piece.read(host)
    known = state.done.get(key)
    if known is None or known.wanted != current:
        owner = piece.foreign(host, current)
        if owner and not (adopt and piece.adoptable):
            remedy = "remove it first" + (", or use it with --adopt" if piece.adoptable else "")
            raise ForeignError(f"{piece}: {owner}; {remedy} (nothing was changed)")
    if current == wish.value or (known and wish.floating and known.wanted == wish.value):
        if known is None:
            state.done[key] = Done(current, wish.value, wish.floating)
        known = state.done[key]
        known.wanted, known.router = wish.value, wish.router
        changes.unchanged += 1
        return key
    state.note(key, current)
    before.append((piece, current))
    piece.write(host, wish.value)
    found = piece.read(host)
    if found != wish.value and not wish.floating:
        raise TestbedError(f"{piece}: set to {wish.value}, but the kernel made it {found}")
    original = known.original if known else current
    state.done[key] = Done(original, wish.value, wish.floating, wish.router)
    changes.changed.append(f"{piece}: {_show(current)} -> {_show(wish.value)}")
    return key


def _put_back(piece: Piece, state: State, host: Host, before: list[tuple[Piece, Value]]) -> None:
    current = piece.read(host)
    done = state.done[piece.key]
    somebody_elses = current != done.wanted and piece.foreign(host, current)
    if current != done.original and not somebody_elses:
        state.note(piece.key, current)
        before.append((piece, current))
        piece.write(host, done.original)
    del state.done[piece.key]


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
        piece = from_key(key)
        try:
            _put_back(piece, state, host, [])
        except _EXPECTED as error:
            problems.append(f"{piece}: {error}")
    if not problems:
        state.about, state.numbers = {}, {}
    state.save()
    return problems


def _found(piece: Piece, host: Host) -> Value:
    with contextlib.suppress(*_EXPECTED):  # whoever puts it back will be told
        return piece.read(host)
    return None


def undo(before: list[tuple[Piece, Value]], state: State, host: Host) -> list[str]:
    """Give pieces back the values that they had, latest first.

    Returns
    -------
    list of str
        Problems; what they are about is left to a later clear.
    """
    problems = []
    for piece, value in reversed(before):
        try:
            if piece.read(host) != value:  # a killed command noted it, but did not come to it
                piece.write(host, value)
        except _EXPECTED as error:
            problems.append(f"{piece}: {error}")
            state.done.setdefault(piece.key, Done(value, None))
    return problems


def _told(problems: list[str]) -> str:
    return "could not be undone: " + "; ".join(problems)


def recover(state: State, host: Host) -> int:
    """Roll back what a command changed that was killed; returns the number of pieces.

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
    """Return what the kernel has of the pieces in force, by key."""
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
