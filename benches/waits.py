"""How long a process waits beside others that compute, and what these lose: a policy, and none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from isolane.children import die_with_parent
from isolane.enforce import Enforcer
from isolane.enforce.enforcer import POLICY_DIR
from isolane.errors import MeasurementError
from isolane.spec.policy import Policy, parse_policy

from benches.common import RECEIVER_CORE, Check, Options, Outcome, main, median

CORE = RECEIVER_CORE
BYTES = 512 << 10
"""What a process that computes reads again and again; it may find it cold after others' turns."""
EVERY_NS, WORKS_NS = 1_000_000, 30_000
"""The other one wakes so often and computes for so long."""
SETTLE_S = 1.0
"""Until whoever looks after the processes has seen them."""
COMPUTES = f"""
import time
data, loops, told = bytes({BYTES}), 0, time.monotonic_ns()
while True:
    data.count(b"x")
    loops += 1
    if (now := time.monotonic_ns()) > told + 100_000_000:
        print(now, loops / (now - told), flush=True)
        loops, told = 0, now
"""
SLEEPS = f"""
import os, time
with open(f"/proc/{{os.getpid()}}/timerslack_ns", "w") as slack:
    slack.write("1")
due, waits = time.monotonic_ns(), []
while True:
    due = max(due + {EVERY_NS}, time.monotonic_ns() - 10 * {EVERY_NS})
    if (left := due - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)
    now = time.monotonic_ns()
    waits.append(now - due)
    while time.monotonic_ns() < now + {WORKS_NS}:
        pass
    if len(waits) == 100:
        print(now, *waits, flush=True)
        waits = []
"""
FASTER, KEEPS_ALONE, KEEPS_BESIDE = 0.5, 0.99, 0.95
"""Targets: p99 of the waits at ten times the weight, of that without a policy; what those that
compute keep of what they do without it."""


@dataclass(frozen=True)
class Case:
    """Processes on one core."""

    computing: int
    weight: int | None
    """Of the one that sleeps, where the others have 100; None: there is none."""

    @property
    def words(self) -> str:
        """Name it."""
        alone = f"{self.computing} that compute"
        return alone if self.weight is None else f"{alone}, one that sleeps, weight {self.weight}"


CASES = (*(Case(n, weight) for n in (2, 8) for weight in (None, 100, 1000)),)


@contextmanager
def started(programs: Sequence[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start Python programs on the core, each in a session of its own; they end with the block."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for program in programs:
            process = subprocess.Popen(
                ["taskset", "--cpu-list", str(CORE), sys.executable, "-c", program],
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
            )
            processes.append(process)
        yield processes
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def policy_of(case: Case, processes: Sequence[subprocess.Popen[str]]) -> Policy:
    """Return the policy: the first one sleeps, if one does."""
    routers = {
        f"p{number}": {
            "process": process.pid,
            "cpu_weight": case.weight if number == 0 and case.weight else 100,
            "cores": [CORE],
        }
        for number, process in enumerate(processes)
    }
    return parse_policy(json.dumps({"isolane": 1, "name": "waits", "routers": routers}))


def measure(
    case: Case, processes: Sequence[subprocess.Popen[str]], seconds: float
) -> tuple[float, list[int]]:
    """Return what is computed in all, loops/ns, and the waits, sorted, ns."""
    time.sleep(SETTLE_S)
    began = time.monotonic_ns()
    ends = began + int(seconds * 1e9)
    rate, waits = 0.0, list[int]()
    for number, process in enumerate(processes):
        assert process.stdout is not None
        rates = []
        for line in process.stdout:
            told, *values = line.split()
            if began <= int(told) < ends:
                if case.weight is not None and number == 0:
                    waits += map(int, values)
                else:
                    rates.append(float(values[0]))
            if int(told) >= ends:
                break
        else:
            raise MeasurementError("a process ended early")
        if not rates and not (case.weight is not None and number == 0):
            raise MeasurementError("too short a time for a figure: give more --seconds")
        rate += sum(rates) / len(rates) if rates else 0.0
    if case.weight is not None and not waits:
        raise MeasurementError("too short a time for waits: give more --seconds")
    return rate, sorted(waits)


def in_turns(case: Case, options: Options) -> list[dict[str, Any]]:
    """Measure without a policy and with it, in turns."""
    tag = f"waits-{os.getpid()}"
    enforcer = Enforcer(directory=POLICY_DIR.with_name(f"policy-{tag}"), group=f"isolane-{tag}")
    programs = [*([SLEEPS] if case.weight is not None else []), *([COMPUTES] * case.computing)]
    found = []
    try:
        with started(programs) as processes:
            for _ in range(options.rounds):
                one: dict[str, Any] = {"without": measure(case, processes, options.seconds)}
                enforcer.apply(policy_of(case, processes))
                one["with"] = measure(case, processes, options.seconds)
                enforcer.clear()
                found.append(one)
    finally:
        enforcer.clear()
        shutil.rmtree(enforcer.directory, ignore_errors=True)
    return found


def bench(options: Options) -> Outcome:
    """Compare, case by case."""
    rows: list[tuple[str, ...]] = []
    checks: list[Check] = []
    data: dict[str, Any] = {}
    for case in CASES:
        rounds = in_turns(case, options)
        kept = median([one["with"][0] / one["without"][0] for one in rounds])
        target = KEEPS_ALONE if case.weight is None else KEEPS_BESIDE
        checks.append(
            Check(
                f"{case.words}: those that compute keep {target:.0%}",
                f"{kept:.1%}",
                kept >= target,
            )
        )
        cells = ["-"] * 4
        if case.weight is not None:
            p50, p99 = ({w: _at(rounds, w, p) for w in ("without", "with")} for p in (0.5, 0.99))
            cells = [f"{each[w]:.0f}" for each in (p50, p99) for w in ("without", "with")]
            if case.weight > 100:
                ratio = p99["with"] / p99["without"]
                checks.append(
                    Check(
                        f"{case.words}: p99 of its waits at most {FASTER:.0%} of that without",
                        f"{ratio:.0%}",
                        ratio <= FASTER,
                    )
                )
        rows.append((case.words, *cells, f"{kept:.1%}"))
        data[case.words] = rounds
    return Outcome(
        title="Waits beside processes that compute, by a policy and without",
        columns=("processes", "p50, us", "by a policy", "p99, us", "by a policy", "computed"),
        rows=rows,
        checks=checks,
        notes=[
            "medians of the rounds; computed: what those that compute do of what they do without"
        ],
        data=data,
    )


def _at(rounds: Sequence[dict[str, Any]], which: str, part: float) -> float:
    """Return a percentile of the waits, us."""
    each = [one[which][1] for one in rounds]
    return median([waits[int(part * len(waits))] / 1e3 for waits in each if waits])


if __name__ == "__main__":
    main("waits", bench, Options(rounds=3, seconds=3.0), str(__doc__))
