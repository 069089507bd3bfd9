"""The command line: ``isolane --help``."""

from __future__ import annotations

import signal
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and leave with its exit status."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        # Ctrl-C while modules are imported ends the process at once, without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from isolane.cli import app

    signal.signal(signal.SIGINT, before)
    app.main()
