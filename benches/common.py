"""What all benches share: options, the table, targets that are met or missed, the exit code."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from isolane.errors import IsolaneError, NotSupported, TargetMissed
from rich.console import Console
from rich.table import Table

GENERATOR_CORE, RECEIVER_CORE = 0, 1
"""Of generators, and of whoever receives; the bench itself sleeps on the latter."""
QUIET_LOAD = 0.5
"""Load average of the last minute above which figures are not to be trusted."""


@dataclass(frozen=True)
class Options:
    """What the user chose."""

    rounds: int
    """Repeats; in each, every variant has its turn."""
    seconds: float
    """Length of one measurement, s."""
    keep: Path | None = None
    """Folder for raw trials; None: they are not kept. Only benches of experiments have any."""


@dataclass(frozen=True)
class Check:
    """A target and whether it was met."""

    target: str
    """What was wanted, as a sentence."""
    figure: str
    """What was found."""
    met: bool | None
    """None: it could not be measured."""

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return {True: "met", False: "missed", None: "not measured"}[self.met]


@dataclass
class Outcome:
    """What a bench found."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    checks: list[Check]
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    """All figures, for ``--json``."""


def median(values: Sequence[float]) -> float:
    """Return the median; NaN of nothing."""
    return statistics.median(values) if values else float("nan")


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 3) -> str:
    """Write the smallest and the largest value, divided by ``scale``."""
    if not values:
        return "-"
    return f"{min(values) / scale:.{digits}f} - {max(values) / scale:.{digits}f}"


def host() -> dict[str, Any]:
    """Describe the host, and whether it was quiet."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
    }


def main(
    name: str,
    bench: Callable[[Options], Outcome],
    defaults: Options,
    about: str,
    *,
    live: bool = True,
) -> None:
    """Read options, run the bench, print what it found, and exit.

    A bench that is not ``live`` leaves the host alone: it needs neither root nor a second core.

    Exit codes are those of the ``isolane`` command: 4 when a target was missed, 3 when one could
    not be measured, 1 when the bench failed.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benches.{name}", description=about)
    parser.add_argument(
        "--rounds", type=_rounds, default=defaults.rounds, help="default: %(default)s"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=defaults.seconds,
        help="of each measurement; default: %(default)s",
    )
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument(
        "--keep", type=_folder, metavar="DIR", help="keep the raw trials there, as Parquet"
    )
    chosen = parser.parse_args()
    try:
        if live:
            _require()
        facts = host()
        outcome = bench(Options(chosen.rounds, chosen.seconds, chosen.keep))
    except IsolaneError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    _print(outcome, facts, as_json=chosen.json)
    raise SystemExit(_code(outcome))


def _rounds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not in 1 to 100")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    # One kernel call of the generator lasts 80 s; more would leave gaps.
    if not 0.1 <= value <= 60:
        raise argparse.ArgumentTypeError(f"{text} is not in 0.1 to 60")
    return value


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return Path(text)


def _require() -> None:
    if os.geteuid() != 0:
        raise NotSupported("benches need root: they make network namespaces and load BPF programs")
    if not {GENERATOR_CORE, RECEIVER_CORE} <= os.sched_getaffinity(0):
        raise NotSupported(f"benches need cores {GENERATOR_CORE} and {RECEIVER_CORE}")


def _print(outcome: Outcome, facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        checks = [{**vars(check), "verdict": check.word} for check in outcome.checks]
        whole = {"title": outcome.title, "host": facts, "checks": checks, "notes": outcome.notes}
        print(json.dumps({**whole, **outcome.data}, indent=2))
        return
    # A file has no width of its own; 100 columns hold every table of the benches.
    console = Console() if sys.stdout.isatty() else Console(width=100)
    print(f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, {facts['date']}")
    if facts["load_average"] > QUIET_LOAD:
        print(
            f"not quiet: the load average was {facts['load_average']:.2f} before the start; "
            "do not keep these figures"
        )
    table = Table(title=outcome.title, title_justify="left")
    for i, column in enumerate(outcome.columns):
        table.add_column(column, justify="right" if i else "left")
    for row in outcome.rows:
        table.add_row(*row)
    console.print(table)
    for check in outcome.checks:
        print(f"{check.word}: {check.target}: {check.figure}")
    for note in outcome.notes:
        print(note)


def _code(outcome: Outcome) -> int:
    if any(check.met is False for check in outcome.checks):
        return TargetMissed.exit_code
    if any(check.met is None for check in outcome.checks):
        return NotSupported.exit_code
    return 0
