"""``tools/gate --soak N``: the live tests N times, every second time on a host that is disturbed.

They run in the two lanes that they have in ``make test``.

By turns a busy process on each core, and each core taken away as a hypervisor does it: nothing runs
there for a while, the kernel's own workers neither, and then all goes on as if nothing had been.

Tells each test that failed even once, with its count. A test that fails now and then is a defect of
the test or of the product: it is mended, or its promise moves to ``acceptance/``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
LIMIT_S = 7200
"""Of one turn."""
LAST = 6000
"""Letters of what is told of a failure."""

_BUSY = """\
import os
os.sched_setaffinity(0, {%d})
while os.getppid() == %d: pass
"""
_TAKING = """\
import os, random, time
os.sched_setaffinity(0, {%d})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
while os.getppid() == %d:
    until = time.monotonic() + random.uniform(0.02, 0.3)
    while time.monotonic() < until: pass
    time.sleep(random.uniform(0.02, 0.3))
"""


@dataclass(frozen=True)
class Disturbance:
    """What the tests run beside."""

    words: str = ""
    program: str | None = None
    """Python, for one core each; it ends by itself when the process that started it has ended."""


BUSY = Disturbance(", beside a busy process on each core", _BUSY)
TAKEN = Disturbance(", each core taken away for up to 0.3 s at a time", _TAKING)
TURNS = (Disturbance(), BUSY, Disturbance(), TAKEN)


@contextlib.contextmanager
def disturbed(cores: set[int], how: Disturbance) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Have each of these cores disturbed; yields the processes that do it.

    Raises
    ------
    RuntimeError
        At the end: what was to disturb had ended before.
    """
    processes = [
        subprocess.Popen([sys.executable, "-c", how.program % (core, os.getpid())])
        for core in sorted(cores)
        if how.program
    ]
    try:
        yield processes
        if any(process.poll() is not None for process in processes):
            raise RuntimeError(f"the tests were not{how.words}: see the error above")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def turn(lanes: Mapping[Path, list[str]]) -> list[str]:
    """Run the live tests once; returns those that failed, one by one.

    Parameters
    ----------
    lanes
        What runs side by side: the JUnit report that is to come, and the command that writes it.
    """
    for report in lanes:
        report.unlink(missing_ok=True)
    with ThreadPoolExecutor(len(lanes)) as pool:
        return [name for found in pool.map(_lane, lanes, lanes.values()) for name in found]


def _lane(report: Path, command: list[str]) -> list[str]:
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=LIMIT_S)
    if not report.exists():
        return [f"no report: {' '.join(command)} ended with {done.returncode}"]
    print(*details(report.read_text()), sep="\n", end="", flush=True)
    failed = failures(report.read_text())
    if done.returncode and not failed:
        return [f"{report.stem}: pytest ended with {done.returncode}"]
    return failed


def failures(report: str) -> list[str]:
    """Return the tests of a JUnit report that failed, or whose set-up or end did."""
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ET.fromstring(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]


def details(report: str) -> list[str]:
    """Return what is told of each of them, the end of it: a lane's own log goes with the clone."""
    return [
        f"--- {case.get('classname')}::{case.get('name')}\n{(found.text or '')[-LAST:]}\n"
        for case in ET.fromstring(report).iter("testcase")
        for kind in ("failure", "error")
        if (found := case.find(kind)) is not None
    ]


def told(counts: Counter[str], turns: int) -> str:
    """Say which tests failed, the most frequent first."""
    by_count = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{count} of {turns}: {name}" for name, count in by_count]
    return "\n".join(lines or [f"soak: no failure in {turns} turns"])


def main(turns: int) -> int:
    """Run all turns; the exit status is 1 if any test failed even once."""
    counts: Counter[str] = Counter()
    folder = ROOT / ".build"
    folder.mkdir(exist_ok=True)
    lanes = {
        (report := folder / f"soak-{lane}.xml"): [
            "make",
            f".test-{lane}",
            f"ARGS=--quiet --junitxml={report}",
        ]
        for lane in ("alone", "beside")
    }
    for number in range(1, turns + 1):
        began, how = time.monotonic(), TURNS[(number - 1) % len(TURNS)]
        with disturbed(os.sched_getaffinity(0), how):
            found = turn(lanes)
        counts.update(set(found))
        print(f"soak: turn {number} of {turns}{how.words}: {len(found)} failed, "
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    print(told(counts, turns))
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
