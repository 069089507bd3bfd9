"""``kill -9`` of a managed run at random moments, then ``isolane clean``: what is left?"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from isolane.errors import NotSupported, TargetMissed

from tests.live import background, isolane, quiet_host
from tests.look import look_around

KILLS = 200
LATEST_S = 1.2
"""After the run folder is there: a test bed stands for some 0.5 s, so all moments of its life."""
SETTLE_S = 5.0
"""How long the bench waits to see whether what was left goes by itself."""
EXPERIMENT = """\
isolane: 1
name: kills
traffic: {frame_size: 64, flows: 10}
routers:
  - {name: one, role: victim, policy: {cpu_weight: 200, rate_min: 10Mbps}}
  - {name: two, role: aggressor, policy: {cpu_weight: 100, rate_max: 100Mbps}}
load: {one: 5kpps, two: [2kpps, 5kpps]}
arms:
  - {name: isolane, path: isolane}
  - {name: bridge, path: bridge}
trial: {duration: 50ms, warmup: 20ms, repeats: 1000, seed: 1}
"""


@dataclass
class Found:
    """What the kills brought to light."""

    kills: int = 0
    cleaned: int = 0
    """Kills after which there was something to remove."""
    kinds: Counter[str] = field(default_factory=Counter)
    """What `clean` removed, by kind."""
    failed: list[str] = field(default_factory=list)
    """What `clean` said when it failed."""
    late: list[str] = field(default_factory=list)
    """What was still there when `clean` had ended, and went by itself."""
    left: list[str] = field(default_factory=list)
    """What stayed."""


def changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Say what differs, by kind; empty when nothing does."""
    return "; ".join(
        f"{kind}: {_difference(before[kind], after[kind])}"
        for kind in before
        if before[kind] != after[kind]
    )


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, list) and isinstance(after, list):
        more = [str(thing) for thing in after if thing not in before]
        less = [f"no {thing}" for thing in before if thing not in after]
        return ", ".join([*more, *less]) or f"{len(before)} were {len(after)}"
    return f"{before} became {after}"


def kill(file: Path, folder: Path, after_s: float) -> None:
    """Start a run; end it by SIGKILL ``after_s`` seconds after its folder is there."""
    with background(folder, "run", file, "--output", folder / "run") as process:
        process.until((folder / "run" / "trials.jsonl").exists)
        time.sleep(after_s)
        process.end(signal.SIGKILL)


def judge(found: Found, number: int, before: dict[str, Any]) -> None:
    """Clean, and compare the host at once."""
    done = isolane("clean")
    after = look_around()
    found.kills += 1
    found.cleaned += bool(done.stdout)
    found.kinds.update(" ".join(line.split()[1:3]) for line in done.stdout.splitlines())
    if done.returncode:
        found.failed.append(f"kill {number}: {done.stderr.strip()}")
    left = changed(before, after)
    if not left:
        return
    deadline = time.monotonic() + SETTLE_S
    while (rest := changed(before, look_around())) and time.monotonic() < deadline:
        time.sleep(0.05)
    if rest:
        found.left.append(f"kill {number}: {rest}")
        isolane("clean")  # else the next kill would be blamed for it
    else:
        found.late.append(f"kill {number}: {left}")


def bench(kills: int, seed: int) -> Found:
    """Kill so many runs."""
    draw, found = random.Random(seed), Found()  # noqa: S311 - repeatable moments, no secrets
    isolane("clean")
    before = quiet_host()
    with tempfile.TemporaryDirectory(prefix="isolane-kills-") as directory:
        file = Path(directory) / "kills.yaml"
        file.write_text(EXPERIMENT)
        for number in range(kills):
            kill(file, Path(directory) / str(number), draw.uniform(0, LATEST_S))
            judge(found, number, before)
            if sys.stderr.isatty() or (number + 1) % 20 == 0:
                print(f"kills: {number + 1} of {kills}", file=sys.stderr, flush=True)
    return found


def report(found: Found) -> str:
    """Say it in lines."""
    stayed, late, failed = len(found.left), len(found.late), len(found.failed)
    removed = ", ".join(f"{count} {kind}" for kind, count in sorted(found.kinds.items())) or "-"
    lines = [
        f"{found.kills} kills, {found.cleaned} left something to remove: {removed}",
        f"{failed} cleans failed, {late} ended before all was gone, {stayed} left something",
        *(f"failed: {line}" for line in found.failed),
        *(f"late: {line}" for line in found.late),
        *(f"left: {line}" for line in found.left),
    ]
    good = not (stayed or late or failed)
    lines.append(
        f"{'met' if good else 'missed'}: the host is as it was when clean ends, every time"
    )
    return "\n".join(lines)


def main() -> int:
    """Read the options, kill, tell; the exit status is that of the other benches."""
    parser = argparse.ArgumentParser(prog="python -m benches.kills", description=__doc__)
    parser.add_argument("--kills", type=_kills, default=KILLS, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of the moments; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    # Of all benches together; this one measures nothing.
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if os.geteuid() != 0 or len(os.sched_getaffinity(0)) < 2:
        print("kills: error: needs root and two cores", file=sys.stderr)
        return NotSupported.exit_code
    try:
        found = bench(chosen.kills, chosen.seed)
    except KeyboardInterrupt:
        isolane("clean")
        return 130
    print(json.dumps(asdict(found), indent=2) if chosen.json else report(found))
    return TargetMissed.exit_code if found.left or found.late or found.failed else 0


def _kills(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not in 1 to 100000")
    return value


if __name__ == "__main__":
    sys.exit(main())
