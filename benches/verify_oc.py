"""Operating characteristic of `isolane verify`: how often it errs, by simulation from noise.

Each round simulates verifications of four routers (12 promises to retain, four CPU shares) with the
code of the command, on a simulated clock, with noise that was recorded by `benches.verify_noise`.
Other designs decide the same promises with the same noise, in the same time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from isolane.spec import Policy, parse_policy
from isolane.stats.sequential import chance_of, holm
from isolane.verify import Report
from isolane.verify.report_data import Options as VerifyOptions
from isolane.verify.session import Verification
from numpy.typing import NDArray
from scipy import stats

from benches.common import Check, Options, Outcome, main, median
from benches.recorded_noise import BLOCK, Noise, NoisyHost
from benches.verify_noise import FILE

POLICY = """\
isolane: 1
name: twelve
nics: {eth1: {rate: 10Gbps}}
defaults: {cores: [0]}
routers:
  a: {netns: a, cpu_weight: 200}
  b: {netns: b}
  c: {netns: c}
  d: {netns: d}
"""
TRUTHS = (0.98, 0.985, 0.99, 0.995, 1.0)
BAR = 0.99
CLEARLY_BROKEN, CLEARLY_KEPT = 0.98, 0.995
"""Ends of the zone in which either answer is right."""
LIMIT_S = 120.0
PER_ROUND = 10
"""Verifications that a round simulates, for each truth and design."""
ERROR, UNDECIDED = 0.05, 0.20
PROMISES = 12
ENDS = (0.98, 0.995, 1.0)
"""Truths that the targets are about, and a promise that is kept completely."""
SCALES = (0.25, 0.5, 2.0)
"""What less noise, and more, would change."""
PAIRS = 16
"""Pairs of each promise that fit into the time limit beside the searches and the CPU shares."""

Verdicts = list[str]
"""One verdict for each promise to retain."""
Floats = NDArray[np.float64]


@dataclass
class Tally:
    """Verdicts of many verifications of the same truth."""

    verdicts: Counter[str] = field(default_factory=Counter)
    tables: int = 0
    any_held: int = 0
    any_broken: int = 0
    took_s: list[float] = field(default_factory=list)

    def add(self, verdicts: Verdicts, took_s: float) -> None:
        """Count the verdicts of one verification."""
        self.verdicts.update(verdicts)
        self.tables += 1
        self.any_held += "held" in verdicts
        self.any_broken += "broken" in verdicts
        self.took_s.append(took_s)

    def part(self, verdict: str) -> float:
        """Return the part of the promises with this verdict."""
        return self.verdicts[verdict] / max(1, self.verdicts.total())


def verification(policy: Policy, noise: Noise, true: float, seed: int) -> Report:
    """Simulate one verification with the code of the command."""
    host = NoisyHost(policy, noise, random.Random(seed), true)  # noqa: S311 - no secret
    options = VerifyOptions(time_limit_s=LIMIT_S, seed=seed)
    return Verification(policy, host, options, clock=host.clock).execute()


def sequential(noise: Noise, true: float, seed: int) -> tuple[Verdicts, float]:
    """Decide as the command does."""
    report = verification(parse_policy(POLICY), noise, true, seed)
    return [f.verdict for f in report.findings if f.promise == "retained"], report.took_s


def drawn(noise: Noise, true: float, seed: int, pairs: int) -> Floats:
    """Draw figures of all promises, in blocks of consecutive pairs; shape (promises, pairs)."""
    generator = np.random.default_rng(seed)
    ratios = np.array(noise.ratios())
    jumps = generator.random((PROMISES, pairs)) < 1 / BLOCK
    jumps[:, 0] = True
    starts = generator.integers(len(ratios), size=(PROMISES, pairs))
    at = np.zeros((PROMISES, pairs), dtype=np.int64)
    for i in range(pairs):
        before = at[:, i - 1] + 1
        at[:, i] = np.where(jumps[:, i], starts[:, i], before % len(ratios))
    figures: Floats = true * ratios[at]
    return figures


def median_of_few(noise: Noise, true: float, seed: int) -> tuple[Verdicts, float]:
    """Decide by the median of three trials, of nine if it is missed: what the command once did."""
    figures = drawn(noise, true, seed, 9)
    first, all_ = np.median(figures[:, :3], axis=1), np.median(figures, axis=1)
    broken = (first < BAR) & (all_ < BAR)
    again = bool((first < BAR).any())
    return ["broken" if b else "held" for b in broken], 45.0 if again else 15.0


def sign_at_the_bar(noise: Noise, true: float, seed: int) -> tuple[Verdicts, float]:
    """Decide by the same test of the tolerance itself: one that nothing near it can pass."""
    keeps = drawn(noise, true, seed, PAIRS) >= BAR
    held = holm([chance_of([bool(keep) for keep in row]) for row in keeps])
    broken = holm([chance_of([not keep for keep in row]) for row in keeps])
    words = [
        "held" if h <= ERROR else "broken" if b <= ERROR else "undecided"
        for h, b in zip(held, broken, strict=True)
    ]
    return words, LIMIT_S


def group_sequential_t(noise: Noise, true: float, seed: int) -> tuple[Verdicts, float]:
    """Decide by t-tests at four looks, with O'Brien-Fleming spending, Bonferroni and the same zone.

    Spending as Lan and DeMets (1983); each look is tested at its increment, which is somewhat
    conservative. The mean of the pairs decides, and their noise is taken to be normal.
    """
    looks = np.array([PAIRS // 4, PAIRS // 2, 3 * PAIRS // 4, PAIRS])
    alpha = ERROR / PROMISES
    spent = 2 - 2 * stats.norm.cdf(stats.norm.ppf(1 - alpha / 2) / np.sqrt(looks / PAIRS))
    increments = np.diff(np.concatenate([[0.0], spent]))
    figures = drawn(noise, true, seed, PAIRS)
    verdicts = np.full(PROMISES, "undecided", dtype=object)
    used = PAIRS
    for look, increment in zip(looks, increments, strict=True):
        mean = figures[:, :look].mean(axis=1)
        error = np.maximum(figures[:, :look].std(axis=1, ddof=1), 1e-9) / np.sqrt(look)
        limit = stats.t.ppf(1 - increment, look - 1) * error
        still = verdicts == "undecided"
        verdicts[still & (mean >= BAR) & (mean - limit > CLEARLY_BROKEN)] = "held"
        verdicts[still & (mean < BAR) & (mean + limit < CLEARLY_KEPT)] = "broken"
        if not (verdicts == "undecided").any():
            used = int(look)
            break
    return [str(verdict) for verdict in verdicts], LIMIT_S * used / PAIRS


DESIGNS: dict[str, Callable[[Noise, float, int], tuple[Verdicts, float]]] = {
    "sequential sign test (isolane verify)": sequential,
    "the same test of the bar itself, no zone": sign_at_the_bar,
    "group-sequential t-test, same zone": group_sequential_t,
    "median of 3, of 9 if missed": median_of_few,
}


def name_of_mine() -> str:
    """Return the name of the design that the command has."""
    return next(iter(DESIGNS))


def tallies(
    noise: Noise, runs: int, name: str, truths: tuple[float, ...] = TRUTHS
) -> dict[float, Tally]:
    """Simulate verifications of each truth with one design."""
    found = {}
    for true in truths:
        found[true] = Tally()
        for seed in range(runs):
            found[true].add(*DESIGNS[name](noise, true, seed))
    return found


def bench(options: Options) -> Outcome:
    """Simulate, and judge the design of the command."""
    noise, runs = Noise.read(FILE), PER_ROUND * options.rounds
    rows, data = [], {}
    every = {name: tallies(noise, runs, name) for name in DESIGNS}
    for name, of_truths in every.items():
        for true, tally in of_truths.items():
            rows.append(_row(name if true == TRUTHS[0] else "", true, tally))
            data[f"{name}, true {true}"] = _figures(tally)
    mine = every[name_of_mine()]
    for factor in SCALES:
        title = f"isolane verify, {factor:g} times the noise"
        scaled = noise.scaled(factor)
        for true, tally in tallies(scaled, max(PER_ROUND, runs // 4), name_of_mine(), ENDS).items():
            rows.append(_row(title if true == ENDS[0] else "", true, tally))
            data[f"{title}, true {true}"] = _figures(tally)
    return Outcome(
        "Operating characteristic: 12 promises to retain at least 99 %, in 2 minutes",
        ("design", "true", "held", "broken", "undecided", "any held", "any broken", "median s"),
        rows,
        _checks(mine),
        notes=[_about(noise), f"{runs} verifications of each truth; any: of the tables"],
        data={"tallies": data},
    )


def _about(noise: Noise) -> str:
    low, high = (100 * (end - 1) for end in np.percentile(noise.ratios(), [5, 95]))
    return (
        f"noise: {len(noise.attacks)} recorded pairs, {len(noise.ratios())} figures; the middle "
        f"90 % within {low:+.2f} to {high:+.2f} %"
    )


def _checks(mine: dict[float, Tally]) -> list[Check]:
    broken, kept = mine[0.98], mine[0.995]
    any_held, any_broken = broken.any_held / broken.tables, kept.any_broken / kept.tables
    undecided = max(tally.part("undecided") for true, tally in mine.items() if true in ENDS)
    return [
        Check(
            "held at a true 0.98 in at most 5 % of the tables",
            f"{100 * any_held:.1f} %",
            any_held <= ERROR,
        ),
        Check(
            "broken at a true 0.995 in at most 5 % of the tables",
            f"{100 * any_broken:.1f} %",
            any_broken <= ERROR,
        ),
        Check(
            "undecided within 2 minutes at most 20 %, at a true 0.98, 0.995 and 1",
            f"{100 * undecided:.1f} %",
            undecided <= UNDECIDED,
        ),
    ]


def _row(name: str, true: float, tally: Tally) -> tuple[str, ...]:
    parts = (f"{100 * tally.part(verdict):.1f} %" for verdict in ("held", "broken", "undecided"))
    any_ = (f"{100 * n / tally.tables:.1f} %" for n in (tally.any_held, tally.any_broken))
    return (name, f"{true:g}", *parts, *any_, f"{median(tally.took_s):.0f}")


def _figures(tally: Tally) -> dict[str, Any]:
    return {
        "verdicts": dict(tally.verdicts),
        "tables": tally.tables,
        "tables_with_held": tally.any_held,
        "tables_with_broken": tally.any_broken,
        "median_s": median(tally.took_s),
    }


if __name__ == "__main__":
    main("verify_oc", bench, Options(rounds=20, seconds=1.0), __doc__ or "", live=False)
