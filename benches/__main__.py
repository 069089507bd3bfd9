"""All benches, one after the other: ``python -m benches [--rounds N] [--seconds S] [--json]``."""

from __future__ import annotations

import subprocess
import sys

BENCHES = (
    "generator",
    "accuracy",
    "conservation",
    "testbed",
    "enforcement",
    "links",
    "scale",
    "prediction",
)
INTERRUPTED = 130


def run_all(options: list[str]) -> int:
    """Run each bench in a process of its own; return the first exit code that is not 0."""
    first = 0
    for name in BENCHES:
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
