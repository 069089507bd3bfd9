"""The process of the pacemaker; :mod:`isolane.enforce.settings.pacemaking` starts and ends it.

Its arguments say whose it is and what it looks after, so that any later command finds it: the name
of the policy's cgroup, and the work as JSON. It says ``ready`` once on stdout.
"""

from __future__ import annotations

import os
import sys

from isolane import _native


def main() -> int:
    """Look after the cores until SIGTERM comes or the policy's threads have ended."""
    _, _, work = sys.argv
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    _native.run_pacemaker(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
