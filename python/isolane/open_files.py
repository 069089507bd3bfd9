"""How many files this process may have open (getrlimit(2), RLIMIT_NOFILE)."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

_FILES: Final = resource.RLIMIT_NOFILE


def allow_open_files(wanted: int | None = None) -> int:
    """Raise the soft limit as far as the hard one allows; it never falls.

    Parameters
    ----------
    wanted
        More than this many are not asked for; None: as many as may be.

    Returns
    -------
    int
        The limit now.
    """
    soft, hard = resource.getrlimit(_FILES)
    limits = [number for number in (wanted, hard) if number not in (None, resource.RLIM_INFINITY)]
    more = min(limits, default=resource.RLIM_INFINITY)
    if soft != resource.RLIM_INFINITY and (more == resource.RLIM_INFINITY or more > soft):
        with suppress(OSError, ValueError):  # an unlimited one is beyond what the kernel gives
            resource.setrlimit(_FILES, (more, hard))
    return resource.getrlimit(_FILES)[0]
