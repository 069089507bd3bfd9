"""``tools/gate --soak N``: the live tests N times, every second time beside busy processes.

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
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
LIMIT_S = 7200
"""Of one turn."""
HOG = "import os; os.sched_setaffinity(0, {%d})\nwhile os.getppid() == %d: pass"
"""Ends by itself when this process has ended."""


@contextlib.contextmanager
def busy(cores: set[int]) -> Iterator[None]:
    """Keep a process at full speed on each of these cores."""
    hogs = [
        subprocess.Popen([sys.executable, "-c", HOG % (core, os.getpid())])
        for core in sorted(cores)
    ]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def turn(report: Path, command: list[str]) -> list[str]:
    """Run the live tests once; returns those that failed, one by one."""
    report.unlink(missing_ok=True)
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=LIMIT_S)
    if not report.exists():
        return [f"no report: {' '.join(command)} ended with {done.returncode}"]
    failed = failures(report.read_text())
    return failed or ([f"pytest ended with {done.returncode}"] if done.returncode else [])


def failures(report: str) -> list[str]:
    """Return the tests of a JUnit report that failed, or whose set-up or end did."""
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ET.fromstring(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]


def told(counts: Counter[str], turns: int) -> str:
    """Say which tests failed, the most frequent first."""
    by_count = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    lines = [f"{count} of {turns}: {name}" for name, count in by_count]
    return "\n".join(lines or [f"soak: no failure in {turns} turns"])


def main(turns: int) -> int:
    """Run all turns; the exit status is 1 if any test failed even once."""
    counts: Counter[str] = Counter()
    report = ROOT / ".build" / "soak.xml"
    report.parent.mkdir(exist_ok=True)
    command = ["make", "test-live", f"ARGS=--junitxml={report} --quiet"]
    for number in range(1, turns + 1):
        began, is_busy = time.monotonic(), number % 2 == 0
        with busy(os.sched_getaffinity(0) if is_busy else set()):
            found = turn(report, command)
        counts.update(set(found))
        beside = ", beside a busy process on each core" if is_busy else ""
        print(f"soak: turn {number} of {turns}{beside}: {len(found)} failed, "
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    print(told(counts, turns))
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
