"""`isolane request` beside wrk and h2load: how many requests one core can send, and how late."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from isolane.errors import MeasurementError, NotSupported
from isolane.testbed.bed_devices import GEN

from benches.common import (
    GENERATOR_CORE,
    RECEIVER_CORE,
    Check,
    Options,
    Outcome,
    main,
    median,
    spread,
)
from benches.web_server import URL, inside, pause, serving

CONCURRENCY = 32
OBJECT = f"{URL}/1k"
KILO = 1e3
PAUSE_S = 0.2
NOTES = [
    f"A client on core {GENERATOR_CORE}, nginx (one worker) on core {RECEIVER_CORE}.",
    f"Objects of 1 kB, {CONCURRENCY} requests under way; maxima.",
    "h2load cannot have one request on each of its connections and go on.",
]


def isolane(*options: str) -> dict[str, Any]:
    """Run `isolane request` from the sending end of the wire."""
    here = [sys.executable, "-m", "isolane", "request", OBJECT, "--netns", GEN, "--json"]
    return dict(json.loads(_run([*here, "--core", str(GENERATOR_CORE), *options])))


def peer(*words: str) -> str:
    """Run another client there, on the same core."""
    if shutil.which(words[0]) is None:
        raise NotSupported(f"{words[0]} is not installed: make bench-setup")
    return _run(inside(GEN, "taskset", "-c", str(GENERATOR_CORE), *words))


def _run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _rate(pattern: str, told: str) -> float:
    found = re.search(pattern, told)
    if found is None:
        raise MeasurementError(f"no rate in: {told}")
    return float(found[1])


def _isolane_rps(seconds: float, *, keep: bool) -> float:
    more = ("--keep-alive",) if keep else ()
    found = isolane("-c", str(CONCURRENCY), "-d", f"{seconds}s", "--warm-up", "200ms", *more)
    if found["answered"] != found["offered"]:
        raise MeasurementError(f"not each request was answered: {found['failed']}")
    return float(found["rate_rps"])


def _wrk_rps(seconds: float, *, keep: bool) -> float:
    more = () if keep else ("-H", "Connection: close")
    told = peer("wrk", "-t1", f"-c{CONCURRENCY}", f"-d{round(seconds)}s", *more, OBJECT)
    return _rate(r"Requests/sec:\s+([\d.]+)", told)


def _h2load_rps(seconds: float, *, keep: bool) -> float:
    assert keep
    told = peer("h2load", "--h1", "-t1", f"-c{CONCURRENCY}", f"-D{round(seconds)}", OBJECT)
    return _rate(r"finished in [\d.]+s, ([\d.]+) req/s", told)


@dataclass
class Maxima:
    """Requests a second of a client, one value a round."""

    client: str
    keep: bool
    ask: Callable[..., float]
    rps: list[float] = field(default_factory=list)


def bench(options: Options) -> Outcome:
    """Measure maxima in turns, then lateness, then what a pause of the server looks like."""
    maxima = [
        Maxima(client, keep, ask)
        for keep in (False, True)
        for client, ask in (
            ("isolane", _isolane_rps), ("wrk", _wrk_rps), ("h2load", _h2load_rps),
        )
        if keep or client != "h2load"
    ]  # fmt: skip
    late: list[float] = []
    seen: list[float] = []
    expected: list[float] = []
    with serving(RECEIVER_CORE, (1,)) as server:
        for _ in range(options.rounds):
            for each in maxima:
                each.rps.append(each.ask(options.seconds, keep=each.keep))
            steady = isolane("-r", "1krps", "-d", f"{options.seconds}s")
            late.append(steady["late_ns"]["p99_ns"])
            with ThreadPoolExecutor() as pool:
                stopped = pool.submit(pause, server, 1.0, PAUSE_S)
                paused = isolane("-r", "1krps", "-d", f"{10 * PAUSE_S + 1}s")
                expected.append(_expected_ns(stopped.result(), 10 * PAUSE_S + 1))
                seen.append(paused["latency_ns"]["p99_ns"])
    return Outcome(
        "Web requests, one client core",
        ("client", "krps", "range"),
        _rows(maxima, late, seen, expected),
        [*_checks(maxima), _pause_check(seen, expected)],
        NOTES,
        {
            "maxima_rps": {f"{m.client}, {_kind(keep=m.keep)}": m.rps for m in maxima},
            "late_p99_ns": late, "pause_p99_ns": seen, "pause_expected_ns": expected,
        },
    )  # fmt: skip


def _expected_ns(paused_s: float, seconds: float) -> float:
    """Return the 99th percentile of latency if requests of equal distance wait for a pause."""
    return (paused_s - 0.01 * seconds) * 1e9


def _kind(*, keep: bool) -> str:
    return "kept connections" if keep else "one each"


def _rows(
    maxima: list[Maxima],
    late: list[float],
    seen: list[float],
    expected: list[float],
) -> list[tuple[str, str, str]]:
    rows = [
        (f"{m.client}, {_kind(keep=m.keep)}", f"{median(m.rps) / KILO:.1f}", spread(m.rps, KILO, 1))
        for m in maxima
    ]
    rows.append(("late at 1 krps, p99, us", f"{median(late) / KILO:.1f}", spread(late, KILO, 1)))
    paused = f"a pause of {1e3 * PAUSE_S:.0f} ms, p99, ms"
    rows.append((f"{paused}: expected", f"{median(expected) / 1e6:.1f}", spread(expected, 1e6, 1)))
    rows.append((f"{paused}: isolane", f"{median(seen) / 1e6:.1f}", spread(seen, 1e6, 1)))
    return rows


def _checks(maxima: list[Maxima]) -> list[Check]:
    checks = []
    for keep in (False, True):
        own = next(m for m in maxima if m.client == "isolane" and m.keep == keep)
        others = [m for m in maxima if m.client != "isolane" and m.keep == keep]
        # By round: all of one ran within a quarter of a minute.
        parts = [
            mine / max(theirs)
            for mine, *theirs in zip(own.rps, *(m.rps for m in others), strict=True)
        ]
        target = f"at least 95 % of the better peer, {_kind(keep=keep)}"
        checks.append(Check(target, f"{100 * median(parts):.1f} %", median(parts) >= 0.95))
    return checks


def _pause_check(seen: list[float], expected: list[float]) -> Check:
    errors = [one / other - 1 for one, other in zip(seen, expected, strict=True)]
    error = median(errors)
    target = "a pause of the server is seen within 5 %"
    return Check(target, f"{100 * error:+.1f} %", abs(error) <= 0.05)


if __name__ == "__main__":
    main("web_requests", bench, Options(5, 2.0), __doc__ or "")
