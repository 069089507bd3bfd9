"""How long commands take that answer at once: ``--help``, a dry run, ``version``, ``status``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from isolane.errors import MeasurementError

from benches.common import Check, Options, Outcome, main, median, spread

ROOT = Path(__file__).parent.parent
AT_ONCE_S: Final = 0.3
EXPERIMENT: Final = "experiments/noisy-neighbour.yaml"
LIMIT_S: Final = 60

_PYTHON: Final = (sys.executable, "-c")
_ISOLANE: Final = (*_PYTHON, "from isolane.cli import main; main()")
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "python: nothing": (*_PYTHON, "pass"),
    "python: import pydantic, typer": (*_PYTHON, "import pydantic, typer"),
    "python: import pyroute2": (*_PYTHON, "import pyroute2"),
    "isolane --help": (*_ISOLANE, "--help"),
    "isolane run --dry-run": (*_ISOLANE, "run", EXPERIMENT, "--dry-run"),
    "isolane run --on sim --dry-run": (*_ISOLANE, "run", EXPERIMENT, "--on", "sim", "--dry-run"),
    "isolane status": (*_ISOLANE, "status"),
    "isolane version": (*_ISOLANE, "version"),
}
PROMISED: Final = ("isolane --help", "isolane run --dry-run")


def bench(options: Options) -> Outcome:
    """Start each command in turn, round by round; a round before the first warms the disk."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(options.rounds + 1):
        for name, command in COMMANDS.items():
            began = time.monotonic()
            done = subprocess.run(
                command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=LIMIT_S
            )
            took = time.monotonic() - began
            if done.returncode:
                raise MeasurementError(f"{name} ended with {done.returncode}: {done.stderr}")
            if number:
                found[name].append(took)
    return Outcome(
        title=f"From a command's start to its end: medians of {options.rounds} rounds",
        columns=("command", "s", "range"),
        rows=[(name, f"{median(took):.3f}", spread(took)) for name, took in found.items()],
        checks=[
            Check(
                f"{name} in under {AT_ONCE_S:g} s",
                f"{median(found[name]):.3f} s",
                median(found[name]) < AT_ONCE_S,
            )
            for name in PROMISED
        ],
        data={"seconds": found},
    )


if __name__ == "__main__":
    main("starting", bench, Options(rounds=15, seconds=1.0), str(__doc__))
