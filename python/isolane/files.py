"""The one writer of files that a user names: ``--output``, ``--textfile``, and a run's own files.

What stands at the path decides:

- nothing, or a regular file: the content appears there in one step, whole or not at all. The file's
  mode stays, as root its owner, too. A read-only file is refused.
- a link to a regular file: the link stays, the file behind it is replaced.
- ``/dev/stdout``, ``/dev/fd/N``: written to that descriptor, also where it is a regular file, which
  the shell may have opened for appending.
- a character device or a pipe: written through.
- a directory, a link to nothing, a block device, a socket: refused.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from isolane.errors import OutputError

_drafts = itertools.count()
_LINKS = 40
"""Links to follow at most, as the kernel does."""


def write_output(target: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file that the user has named; see the top of this module.

    Parameters
    ----------
    mode
        Of a regular file, instead of the one that it has or that the umask gives.

    Raises
    ------
    OutputError
        If it cannot be written; a regular file that was there is still there, unchanged.
    """
    with _told(target):
        replace(target, content, mode=mode)


def check_output(target: Path) -> None:
    """Refuse beforehand what :func:`write_output` would refuse after hours of work.

    Raises
    ------
    OutputError
        Naming the file, and why it cannot be written.
    """
    with _told(target):
        _refuse(target)
        real = Path(os.path.realpath(target))
        if _descriptor(target) is None and _is_regular(real) and not _writable(real.parent):
            raise OSError(0, f"permission denied in the directory {real.parent}")


def replace(target: Path, content: bytes, *, mode: int | None = None) -> None:
    """Do as :func:`write_output` does, and leave the wording to the caller.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    _refuse(target)
    descriptor = _descriptor(target)
    if descriptor is not None:
        _write_through(os.dup(descriptor), content)
        return
    real = Path(os.path.realpath(target))
    if _is_regular(real):
        _replace_regular(real, content, mode)
    else:
        # Neither created nor cut short: whatever stands there by now is not destroyed.
        _write_through(os.open(real, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), content)


def _refuse(target: Path) -> None:
    """Raise OSError, with a sentence, for what is never written."""
    try:
        kind = target.stat().st_mode
    except FileNotFoundError:
        if target.is_symlink():
            raise OSError(
                0, f"it is a link to {target.readlink()}, which does not exist; remove the link"
            ) from None
        directory = target.parent
        if not directory.exists():
            raise OSError(0, f"there is no directory {directory}") from None
        return
    if stat.S_ISDIR(kind):
        raise OSError(0, "it is a directory; name a file")
    if stat.S_ISBLK(kind):
        raise OSError(0, "it is a block device; name a file, a pipe or a character device")
    if stat.S_ISSOCK(kind):
        raise OSError(0, "it is a socket; name a file, a pipe or a character device")
    if stat.S_ISREG(kind) and _descriptor(target) is None and not _writable(target):
        raise OSError(0, "permission denied; it is read-only for this user")


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _is_regular(real: Path) -> bool:
    """Whether a regular file is there, or is to be."""
    try:
        return stat.S_ISREG(real.stat().st_mode)
    except FileNotFoundError:
        return True


def _descriptor(target: Path) -> int | None:
    """Return the open descriptor of this process that a path stands for, None for a real path."""
    own = f"/proc/{os.getpid()}/fd"
    for _ in range(_LINKS):
        if target.name.isdigit() and os.path.realpath(target.parent) == own:
            return int(target.name)
        if not target.is_symlink():
            return None
        target = target.parent / target.readlink()
    return None


def _replace_regular(real: Path, content: bytes, mode: int | None) -> None:
    try:
        before: os.stat_result | None = real.stat()
    except FileNotFoundError:
        before = None
    # Not made of the target's own name, which may be as long as names can be; and not ending in its
    # suffix, because a collector takes every *.prom of a directory.
    draft = real.parent / f".isolane-{os.getpid()}-{next(_drafts)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Nobody else may read the draft of a file that only its owner may read.
    descriptor = os.open(draft, flags, 0o666 if before is None else 0o600)
    try:
        try:
            if before is not None:
                _keep_owner(descriptor, before)
            if before is not None or mode is not None:
                kept = stat.S_IMODE(before.st_mode) if before is not None else 0
                os.fchmod(descriptor, kept if mode is None else mode)
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    """Give the new file the old one's owner and group, as far as this user may."""
    for owner, group in ((before.st_uid, before.st_gid), (-1, before.st_gid)):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, owner, group)
            return


def _write_through(descriptor: int, content: bytes) -> None:
    try:
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:  # a nearly full disk, or a pipe, takes a part first
        content = content[os.write(descriptor, content) :]


@contextlib.contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputError(f"{target}: cannot be written: its reader has gone") from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno:
            reason = reason.lower()
        raise OutputError(f"{target}: cannot be written: {reason}") from error
