"""Records the noise of the pairs that `isolane verify` decides by, for `benches.verify_oc`.

It measures like the command, with three routers in a test bed, but decides nothing, so that it goes
on until the time is over. The valid pairs go to a CSV file: a row for each router of each pair.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from isolane.errors import IsolaneError
from isolane.spec import parse_policy
from isolane.testbed import clean, exclusive
from isolane.verify.core_stage import CoreStage
from isolane.verify.environment import TestBed, Trials
from isolane.verify.evidence import Pair, Table
from isolane.verify.pace import Pace
from isolane.verify.report_data import Options, Tolerance
from isolane.verify.rounds import Rounds

FILE = Path(__file__).parent / "data" / "verify-noise.csv"
POLICY = """\
isolane: 1
name: noise
nics: {eth1: {rate: 10Gbps}}
defaults: {cores: [0]}
routers:
  a: {netns: a, cpu_weight: 200}
  b: {netns: b}
  c: {netns: c}
"""
COLUMNS = (
    "recorded",
    "comparison",
    "pair",
    "router",
    "loaded_sent_pps",
    "loaded_received_pps",
    "loaded_cpu",
    "loaded_idle",
    "reference_sent_pps",
    "reference_received_pps",
)
UNDECIDABLE = 10**30
"""Size of a table so large that no number of pairs decides it."""
WINDOW_NS = 300_000_000
LINE_BPS = 10e9


def record(seconds: float) -> tuple[list[Rounds], str]:
    """Measure for some time; return what was measured, and when it began."""
    policy = parse_policy(POLICY)
    began = time.strftime("%Y-%m-%dT%H:%M:%S")
    made: list[Rounds] = []
    with exclusive() as journal:
        clean()
        bed = TestBed(policy, journal, WINDOW_NS, Tolerance())
        pace = Pace([1.0], seconds, lambda _progress: None)
        pace.begin_stage()

        def new_rounds(trials: Trials) -> Rounds:
            order = random.Random(began)  # noqa: S311 - no secret
            made.append(Rounds(trials, Table(UNDECIDABLE), pace, WINDOW_NS, order))
            return made[-1]

        CoreStage(policy, tuple(policy.routers), (), bed, Options(), new_rounds).run_small(LINE_BPS)
    return made, began


def rows(recorded: str, comparison: str, pairs: Sequence[Pair]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each router that was offered frames in a pair."""
    for number, pair in enumerate(pairs):
        for router, loaded in pair.loaded.routers.items():
            before = pair.reference.routers[router] if pair.reference else None
            yield (
                recorded,
                comparison,
                number,
                router,
                f"{loaded.sent_pps:.0f}",
                f"{loaded.received_pps:.0f}",
                "" if loaded.cpu is None else f"{loaded.cpu:.5f}",
                f"{pair.loaded.idle:.5f}",
                "" if before is None else f"{before.sent_pps:.0f}",
                "" if before is None else f"{before.received_pps:.0f}",
            )


def main() -> None:
    """Record, and add the rows to the file."""
    parser = argparse.ArgumentParser(prog="python -m benches.verify_noise", description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=FILE, help="added to; default: %(default)s")
    chosen = parser.parse_args()
    try:
        made, began = record(chosen.seconds)
    except IsolaneError as error:
        raise SystemExit(f"verify_noise: error: {error}") from None
    new = not chosen.output.exists()
    with chosen.output.open("a", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        if new:
            table.writerow(COLUMNS)
        for rounds in made:
            for comparison, found in rounds.results.pairs.items():
                table.writerows(rows(began, comparison, found))
    trials, invalid = sum(r.made for r in made), sum(r.invalid for r in made)
    pairs = sum(len(pairs) for r in made for pairs in r.results.pairs.values())
    print(f"{pairs} valid pairs; {invalid} of {trials} trials were invalid")


if __name__ == "__main__":
    main()
