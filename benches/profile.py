"""What sampling takes of a core, beside perf, and how exactly a known share is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from isolane.cpu_profile.sampler import Owners, Sampled, sample

from benches.common import RECEIVER_CORE, Check, Options, Outcome, main, median, spread

PROGRAM = r"""
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t over;
static volatile unsigned long sum;
static void end(int number) { (void)number; over = 1; }
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}
__attribute__((noinline)) void burn_much(void) { for (long i = 0; i < 700000; i++) sum += i; }
__attribute__((noinline)) void burn_little(void) { for (long i = 0; i < 300000; i++) sum += i; }
int main(void)
{
	double much = 0, little = 0, at, then;
	unsigned long turns = 0;
	signal(SIGALRM, end);
	alarm(SECONDS);
	for (at = now(); !over; turns++) {
		burn_much();
		then = now(), much += then - at, at = then;
		burn_little();
		then = now(), little += then - at, at = then;
	}
	printf("{\"turns\": %lu, \"share\": %.6f}\n", turns, much / (much + little));
	fflush(stdout);
	getchar(); /* names of functions are looked up while it is there */
	return 0;
}
"""
"""Runs for some seconds of wall time; tells how many turns, and what share one function took."""
DEFAULT_HZ, FAST_HZ, MAX_HZ = 99, 997, 9973
MAX_COST, MAX_ERROR = 0.005, 0.01
PERF_EVENT = "cpu-clock"


@dataclass
class Found:
    """Of each way to sample, a figure for each round."""

    turns: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Of the program, each second."""
    error: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Share that was found less the program's own."""
    program: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Part of the core that our program says it took."""


def bench(options: Options) -> Outcome:
    """Run the program alone, under our profiler, and under perf, in turns."""
    found, seconds = Found(), max(2, round(options.seconds))
    with tempfile.TemporaryDirectory() as name:
        program = compiled(Path(name), seconds)
        for _ in range(options.rounds):
            for how in ("alone", *ours(), *theirs()):
                turn(how, program, seconds, found)
    rows = [row(how, found) for how in found.turns]
    # What 99 samples a second take is less than what one round differs from the next.
    each_s = (1 - ratio(f"isolane {FAST_HZ} Hz", found)) / FAST_HZ
    cost = DEFAULT_HZ * each_s
    errors = [abs(error) for error in found.error[f"isolane {FAST_HZ} Hz"]]
    return Outcome(
        title=f"Sampling a busy core: medians of {options.rounds} rounds of {seconds} s, in turns",
        columns=("sampler", "work done", "range", "by itself", "error of a share, pp", "range"),
        rows=rows,
        checks=[
            Check(
                f"{DEFAULT_HZ} Hz takes at most {100 * MAX_COST:g} % of a core",
                f"{100 * cost:.2f} %, {1e6 * each_s:.0f} us each as at {FAST_HZ} Hz",
                cost <= MAX_COST,
            ),
            Check(
                f"a known share is found within {100 * MAX_ERROR:g} pp at {FAST_HZ} Hz",
                f"{100 * median(errors):.2f} pp, at worst {100 * max(errors):.2f}",
                median(errors) <= MAX_ERROR,
            ),
        ],
        data={"turns": found.turns, "error": found.error, "program": found.program},
    )


def ours() -> list[str]:
    """Name our samplers."""
    return [f"isolane {hz} Hz" for hz in (DEFAULT_HZ, FAST_HZ, MAX_HZ)]


def theirs() -> list[str]:
    """Name perf's, where it is installed."""
    return [f"perf {hz} Hz" for hz in (DEFAULT_HZ, FAST_HZ)] if shutil.which("perf") else []


def compiled(folder: Path, seconds: int) -> Path:
    """Compile the program."""
    source, program = folder / "burner.c", folder / "burner"
    source.write_text(PROGRAM)
    compiler = shutil.which("clang") or "cc"
    options = ("-O1", "-fno-omit-frame-pointer", f"-DSECONDS={seconds}", "-o", str(program))
    subprocess.run([compiler, *options, str(source)], check=True)
    return program


def turn(how: str, program: Path, seconds: int, found: Found) -> None:
    """Run the program once; sampling begins before it and ends after it."""
    who, _, rate = how.partition(" ")
    rate_hz = int(rate.removesuffix(" Hz") or 0)
    share = None
    if who == "isolane":
        told, share, cost = by_isolane(program, rate_hz, seconds)
        found.program[how].append(cost)
    elif who == "perf":
        with perf(rate_hz, seconds):
            told = run(program)
    else:
        told = run(program)
    found.turns[how].append(told["turns"] / seconds)
    if share is not None:
        found.error[how].append(share - told["share"])


def run(program: Path) -> dict[str, float]:
    """Run the program to its end; returns what it says."""
    words = ["taskset", "-c", str(RECEIVER_CORE), str(program)]
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


def by_isolane(program: Path, hz: int, seconds: int) -> tuple[dict[str, float], float, float]:
    """Return what the program says, the share that was found, and what our program says it took."""
    words = ["taskset", "-c", str(RECEIVER_CORE), str(program)]
    process = None
    for step in sample((RECEIVER_CORE,), hz, seconds + 0.3):
        if isinstance(step, Sampled):
            profile = step.profile(Owners(), {})
            break
        process = process or subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    assert process is not None
    told = json.loads(process.communicate()[0])
    much = sum(one.samples for one in profile.stacks if "burn_much" in one.user)
    little = sum(one.samples for one in profile.stacks if "burn_little" in one.user)
    return told, much / (much + little), profile.sampling_ns / profile.duration_ns


@contextmanager
def perf(hz: int, seconds: int) -> Iterator[None]:
    """Have perf sample meanwhile."""
    words = ["perf", "record", "-e", PERF_EVENT, "-F", str(hz), "-g", "-C", str(RECEIVER_CORE)]
    words += ["-o", "/dev/null", "sleep", str(seconds + 0.3)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds + 5)
        process.kill()
        process.wait()


def ratio(how: str, found: Found) -> float:
    """Return the work done under a sampler, as part of that alone, in the same round."""
    return median([a / b for a, b in zip(found.turns[how], found.turns["alone"], strict=True)])


def row(how: str, found: Found) -> tuple[str, ...]:
    """Return a row of the table."""
    ratios = [a / b for a, b in zip(found.turns[how], found.turns["alone"], strict=True)]
    own, errors = found.program.get(how), found.error.get(how)
    return (
        how,
        f"{100 * median(ratios):.2f} %",
        spread(ratios, 0.01, 2),
        f"{100 * median(own):.3f} %" if own else "-",
        f"{100 * median([abs(error) for error in errors]):.2f}" if errors else "-",
        spread(errors, 0.01, 2) if errors else "-",
    )


if __name__ == "__main__":
    main("profile", bench, Options(rounds=5, seconds=5.0), str(__doc__))
