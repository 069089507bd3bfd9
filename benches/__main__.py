"""All benches, one after the other: ``python -m benches [--rounds N] [--seconds S] [--json]``.

Or one: ``python -m benches NAME [OPTIONS]``, the same as ``python -m benches.NAME [OPTIONS]``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHES: tuple[str, ...] = (
    "generator",
    "accuracy",
    "conservation",
    "testbed",
    "starting",
    "overhead",
    "points",
    "accountant",
    "profile",
    "run_profile",
    "enforcement",
    "charged",
    "refusals",
    "links",
    "noise",
    "scale",
    "guests",
    "guest_shares",
    "waits",
    "netback",
    "receive",
    "ports",
    "streams",
    "web_requests",
    "prediction",
    "cpu_scheduler",
    "searches",
    "kills",
    "coverage",
    "verify_oc",
)
INTERRUPTED = 130


def run_all(options: list[str]) -> int:
    """Run each bench in a process of its own; return the first exit code that is not 0."""
    first, names = 0, BENCHES
    if options and not options[0].startswith("-"):
        names, options = (options[0],), options[1:]
        if not (Path(__file__).parent / f"{names[0]}.py").is_file():
            print(f"benches: error: there is no bench {names[0]}", file=sys.stderr)
            return 2
    for name in names:
        code = subprocess.run([sys.executable, "-m", f"benches.{name}", *options], check=False)
        if code.returncode == INTERRUPTED:
            return INTERRUPTED
        first = first or code.returncode
        print(flush=True)
    return first


if __name__ == "__main__":
    try:
        sys.exit(run_all(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
