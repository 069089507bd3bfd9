"""The process of the pacemaker; :mod:`isolane.enforce.settings.pacemaking` starts and ends it.

Its arguments say whose it is and what it looks after, so that any later command finds it: the name
of the policy's cgroup, and the work as JSON. It says ``ready`` on stdout once it
looks after them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from isolane import _native
from isolane.open_files import allow_open_files


def main() -> int:
    """Look after the cores until SIGTERM comes or nothing of all that is left."""
    _, _, work = sys.argv
    with suppress(KeyError, OSError):  # not mounted: nothing forbids it
        Path(os.environ["ISOLANE_CGROUP"]).write_text(str(os.getpid()))
    os.chdir("/")  # keeps no file system busy
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # nor a lock of whoever started the command
    allow_open_files()  # it opens a file for each thread
    _native.run_pacemaker(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
