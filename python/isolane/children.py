"""Child processes that must not outlive whoever started them."""

from __future__ import annotations

import ctypes
import signal
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends (``preexec_fn``)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
