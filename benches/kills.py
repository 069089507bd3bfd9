"""``kill -9`` of ``run``, ``verify`` and ``apply`` at random moments, then ``clean``: what is left?

After ``apply``, whose changes are to stay when it ends well, ``isolane clear`` puts the host back.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from isolane.errors import NotSupported, TargetMissed

from tests.enforce.rig import rigged
from tests.live import background, isolane, quiet_host
from tests.look import look_around
from tests.warm import warm

KILLS = 200
LATEST_S = {"run": 1.2, "verify": 4.0, "apply": 0.3}
"""Latest moment: of ``run`` after its folder is there (a test bed stands for some 0.5 s, so all
moments of its life), of ``verify`` and ``apply`` after they begin."""
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
POLICY = """\
isolane: 1
name: kills
nics: {eth8: {rate: 100Mbps}, eth9: {rate: 100Mbps}}
routers:
  one: {netns: nowhere-1, interfaces: {a: eth8, b: eth9}, cpu_weight: 300, rate_min: 10Mbps}
  two: {netns: nowhere-2, interfaces: {a: eth8, b: eth9}, cpu_weight: 100}
"""
KEYS = {"vr1": "cpu_weight: 300, rate_min: 1Gbps", "vr2": "forward: xdp, rate_max: 50kpps"}
"""Of the policy that is applied."""


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


def kill_run(folder: Path, after_s: float) -> None:
    """Start a run; end it by SIGKILL ``after_s`` seconds after its folder is there."""
    file = folder / "kills.yaml"
    file.write_text(EXPERIMENT)
    with background(folder, "run", file, "--output", folder / "run") as process:
        process.until((folder / "run" / "trials.jsonl").exists)
        time.sleep(after_s)
        process.end(signal.SIGKILL)


def kill_verify(folder: Path, after_s: float) -> None:
    """Start a verification and end it by SIGKILL ``after_s`` seconds after it begins."""
    file = folder / "policy.yaml"
    file.write_text(POLICY)
    kill_at_work(after_s, "verify", file, "--time-limit", "1h")


def kill_at_work(after_s: float, *words: object) -> None:
    """Have a command begin that has imported everything, and end it by SIGKILL."""
    with warm(*words) as command:
        process = command.begin()
        time.sleep(after_s)
        process.kill()


def judge(
    found: Found,
    number: int,
    before: dict[str, Any],
    look: Callable[[], dict[str, Any]] = look_around,
    command: str = "clean",
) -> None:
    """Clean, and compare the host at once."""
    done = isolane(command)
    after = look()
    found.kills += 1
    found.cleaned += bool(done.stdout)
    found.kinds.update(map(_kind, done.stdout.splitlines()))
    if done.returncode:
        found.failed.append(f"kill {number}: {done.stderr.strip()}")
    left = changed(before, after)
    if not left:
        return
    deadline = time.monotonic() + SETTLE_S
    while (rest := changed(before, look())) and time.monotonic() < deadline:
        time.sleep(0.05)
    if rest:
        found.left.append(f"kill {number}: {rest}")
        isolane(command)  # else the next kill would be blamed for it
    else:
        found.late.append(f"kill {number}: {left}")


def _kind(line: str) -> str:
    """Return what a line of `clean` or `clear` tells of, without number and name."""
    back = any(word in line for word in (" settings put back", "put back ", "rolled back "))
    return "changes put back" if back else " ".join(line.split()[1:3])


def bench(kills: int, seed: int) -> Found:
    """Kill so many commands, a third of them each."""
    draw, found = random.Random(seed), Found()  # noqa: S311 - repeatable moments, no secrets
    isolane("clean")
    before = quiet_host()
    numbers = iter(_told(kills))
    with tempfile.TemporaryDirectory(prefix="isolane-kills-") as directory:
        for kind, kill in (("run", kill_run), ("verify", kill_verify)):
            for number in itertools.islice(numbers, kills // 3):
                folder = Path(directory) / str(number)
                folder.mkdir()
                kill(folder, draw.uniform(0, LATEST_S[kind]))
                judge(found, number, before)
        _applied(found, numbers, draw, Path(directory))
    left = changed(before, quiet_host())
    if left:
        found.left.append(f"in the end: {left}")
    return found


def _applied(found: Found, numbers: Iterator[int], draw: random.Random, folder: Path) -> None:
    """Kill ``apply`` on running routers, for all numbers that are left."""
    with rigged(folder, 2, "isolane", 4) as rig:
        os.environ["ISOLANE_POLICY"] = rig.tag
        try:
            file, before = rig.file(**KEYS), rig.host()
            for number in numbers:
                kill_at_work(draw.uniform(0, LATEST_S["apply"]), "apply", file)
                judge(found, number, before, rig.host, "clear")
        finally:
            del os.environ["ISOLANE_POLICY"]


def _told(kills: int) -> Iterator[int]:
    """Yield a number for each kill, and tell now and then how far it is."""
    for number in range(kills):
        if sys.stderr.isatty() or number % 20 == 0:
            print(f"kills: {number} of {kills}", file=sys.stderr, flush=True)
        yield number


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
