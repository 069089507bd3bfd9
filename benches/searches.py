"""``isolane search`` again and again, by turns alone and beside a process at full speed."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median as middle

from isolane.errors import MeasurementError
from isolane.run.search import FoundRate, Searched, SearchSummary

from benches.common import Check, Options, Outcome, main, spread

FOLDER = Path(__file__).parent / "experiments"
PATHS, SHAPERS = FOLDER / "search-paths.yaml", FOLDER / "search-shapers.yaml"
LIMITS_PPS = {"100-kpps": 100e3, "20-mbps": 20e6 / (8 * (64 + 20))}
"""A frame of 64 bytes takes 84 on a link."""
WITHIN_LIMIT, WITHIN_EACH_OTHER, IN_S = 0.005, 0.10, 60.0
FAR_NS = 600.0
"""A cache line's round trip between two cores; a hypervisor moves them, and rates follow."""
LIMIT_S = 600.0
NAMES = ("NDR", "PDR", "MFR", "FRMOL")
EXACT = NAMES[:3]
"""Behind a shaper. Offered the maximum, a core may have no time for what the shaper would pass."""
ALONE, BESIDE = "alone", "beside"


@dataclass(frozen=True)
class Found:
    """What one search found in one arm."""

    how: str
    """Alone, or beside a process."""
    searched: Searched
    seconds: float
    """Of the whole command."""

    def rate(self, name: str) -> FoundRate | None:
        """Return a rate that was found; None if it was not."""
        rates = (rate for rate in self.searched.rates if rate.name == name)
        return next((rate for rate in rates if rate.status in ("found", "at-least")), None)

    def pps(self, name: str) -> float | None:
        """Return what was forwarded, frames/s."""
        rate = self.rate(name)
        return rate.throughput_pps if rate else None

    @property
    def whole_mfr(self) -> float | None:
        """The MFR of the whole core: divided by the part of it that others left."""
        rate = self.rate("MFR")
        return (rate.whole_pps or rate.throughput_pps) if rate else None

    @property
    def far(self) -> bool:
        """Whether the generator's core shared no cache with the DUT's."""
        transfers = self.searched.transfer_ns
        return bool(transfers) and middle(transfers) >= FAR_NS


@contextmanager
def busy() -> Iterator[None]:
    """Run a process of another session at full speed, on whichever core it gets."""
    words = f"import os\nparent = {os.getpid()}\nwhile os.getppid() == parent: pass"
    process = subprocess.Popen([sys.executable, "-c", words], start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def search(experiment: Path, target: Path) -> SearchSummary:
    """Run the command with its default options.

    Raises
    ------
    MeasurementError
        If it does not write its results.
    """
    words = [sys.executable, "-m", "isolane", "search", str(experiment), "--output", str(target)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    kept = target / "search.json"
    if not kept.exists():
        raise MeasurementError(f"isolane search ended with {done.returncode}: {done.stderr[-500:]}")
    return SearchSummary.model_validate_json(kept.read_text())


def searches(experiment: Path, how: str, target: Path) -> list[Found]:
    """Search all arms of an experiment."""
    with busy() if how == BESIDE else nullcontext():
        summary = search(experiment, target)
    seconds = summary.finished_unix_s - summary.started_unix_s
    return [Found(how, searched, seconds) for searched in summary.searched]


def bench(options: Options) -> Outcome:
    """Search all paths and shapers once a round."""
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, how in zip(
            range(options.rounds), itertools.cycle((ALONE, BESIDE)), strict=False
        ):
            for experiment in (PATHS, SHAPERS):
                found += searches(experiment, how, Path(folder) / f"{number}-{experiment.stem}")
    rows = [row for arm in arms(found) for row in rows_of(arm, of_arm(found, arm))]
    return Outcome(
        title=f"{options.rounds} searches with default options",
        columns=("arm", "searches", "PDR, kpps", "MFR, kpps", "of the whole core", "s"),
        rows=rows,
        checks=[*path_checks(found), *shaper_checks(found)],
        notes=[
            "near, far: whether the generator's core shared a cache with the routers'.",
            *(f"{one.searched.arm}, {one.how}: {why}" for one in found if (why := reason(one))),
        ],
        data={"searches": [data(one) for one in found]},
    )


def reason(one: Found) -> str | None:
    """Say why a search ended early, or has found a limiter where there is none."""
    limit = one.searched.rate_limit
    if limit and one.searched.arm not in LIMITS_PPS:
        return f"a limiter that is not there: {limit}"
    return one.searched.reason


def arms(found: list[Found]) -> tuple[str, ...]:
    """Return the arms in the order of the files."""
    return tuple(dict.fromkeys(one.searched.arm for one in found))


def of_arm(found: list[Found], arm: str) -> list[Found]:
    """Return what was found in one arm."""
    return [one for one in found if one.searched.arm == arm]


def rows_of(arm: str, found: list[Found]) -> Iterator[tuple[str, ...]]:
    """Return a row for the searches alone, and one for those beside a process."""
    for how in (ALONE, BESIDE):
        own = [one for one in found if one.how == how]
        if own:
            far = sum(one.far for one in own)
            yield (
                arm,
                f"{len(own)} {how}, {far} far",
                spread(known(own, "PDR"), 1e3, 2),
                spread(known(own, "MFR"), 1e3, 2),
                spread([pps for one in own if (pps := one.whole_mfr)], 1e3, 1),
                spread([one.seconds for one in own], digits=0),
            )


def known(found: list[Found], name: str) -> list[float]:
    """Return a rate of each search that found it, frames/s."""
    return [pps for one in found if (pps := one.pps(name)) is not None]


def path_checks(found: list[Found]) -> Iterator[Check]:
    """Judge the searches of paths: all there, in time, and equal where the machine was."""
    own = [one for one in found if one.searched.arm not in LIMITS_PPS]
    there = sum(None not in (one.pps("PDR"), one.pps("MFR")) for one in own)
    yield Check("MFR and PDR are there each time", f"{there} of {len(own)}", there == len(own))
    longest = max(one.seconds for one in own)
    yield Check("a search of three paths takes under a minute", f"{longest:.0f} s", longest < IN_S)
    mfrs = [(one, pps) for one in own if (pps := one.whole_mfr)]
    yield close_by("MFR of the whole core", mfrs)
    pdrs = [(one, pps) for one in own if one.how == ALONE and (pps := one.pps("PDR"))]
    yield close_by("PDR alone", pdrs)


def close_by(name: str, figures: list[tuple[Found, float]]) -> Check:
    """Judge how close figures of one arm are to each other while the cores were where they were."""
    groups: dict[tuple[str, bool], list[float]] = {}
    for one, pps in figures:
        groups.setdefault((one.searched.arm, one.far), []).append(pps)
    spans = {
        f"{arm} {'far' if far else 'near'} ({len(own)})": 1 - min(own) / max(own)
        for (arm, far), own in groups.items()
        if len(own) > 1
    }
    told = ", ".join(f"{which} {100 * span:.1f} %" for which, span in spans.items())
    met = max(spans.values()) <= WITHIN_EACH_OTHER if spans else None
    return Check(f"{name} within 10 % of each other", told or "one search only", met)


def shaper_checks(found: list[Found]) -> Iterator[Check]:
    """Judge each rate of each shaper."""
    for arm, limit_pps in LIMITS_PPS.items():
        own = of_arm(found, arm)
        for name in EXACT:
            errors = [abs(pps / limit_pps - 1) for pps in known(own, name)]
            good = sum(error <= WITHIN_LIMIT for error in errors)
            worst = f", at worst {100 * max(errors):.2f} % off" if errors else ""
            yield Check(
                f"{name} of a shaper of {arm.replace('-', ' ')} within 0.5 %",
                f"{good} of {len(own)}{worst}",
                good == len(own),
            )


def data(one: Found) -> dict[str, object]:
    """Return all figures of a search."""
    searched = one.searched
    return {
        "arm": searched.arm,
        "how": one.how,
        "far": one.far,
        "seconds": one.seconds,
        "whole_mfr_pps": one.whole_mfr,
        **{name: one.pps(name) for name in NAMES},
    }


if __name__ == "__main__":
    main("searches", bench, Options(rounds=10, seconds=1.0), __doc__)
