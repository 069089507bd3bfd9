"""A row of the table: an input that a hostile or a hasty user gives, and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.live import LIMIT_S

Kind = Literal["directory", "fifo", "dangling", "unreadable", "full", "null"]
"""Of files that are none: ``full`` and ``null`` are nodes like /dev/full and /dev/null."""


@dataclass(frozen=True)
class Made:
    """A file that is no ordinary one."""

    kind: Kind


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    to: str


Content = str | bytes | Made | Link


@dataclass(frozen=True)
class Row:
    """One input.

    The command runs in a directory of its own, where ``files`` are, and any file of
    :mod:`tests.misuse.files` that the command names. Unless told otherwise it may leave nothing
    there, print nothing on stdout when it fails, and must leave the host as it is.
    """

    command: str
    """What stands after ``isolane``, as in a shell; ``{NAME}`` stands for what the session has."""
    status: int
    says: str = ""
    """A regular expression; one line of stderr has to match it. Empty: stderr has to be empty."""
    prints: str | None = None
    """The same of stdout. None: whatever it is, when the status is 0 or 4; else nothing at all."""
    files: Mapping[str, Content] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Set or, with None, taken away."""
    stdin: str = "/dev/null"
    stdout: str = ""
    """A file to open for it, ``closed``, or empty: it is read by the test. {here} is its folder."""
    stderr: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)
    """``nofile``, ``as``, ``fsize``, ``nproc``, ``cpu``: soft and hard limit."""
    prefix: tuple[str, ...] = ()
    """A command that starts it, such as setpriv."""
    fresh: bool = False
    """In a new interpreter: what matters happens while it starts."""
    leaves: tuple[str, ...] = ()
    """Patterns of what it may leave in its directory."""
    lines: int = 1
    """Lines of stderr at most; usage errors of the command line have three more."""
    where: Literal["host", "wire", "policy"] = "host"
    """In which network namespace: this one, one with a wire, or that with a policy in force."""
    lock: str = ""
    """A file that somebody else holds the lock of."""
    limit_s: float = LIMIT_S
