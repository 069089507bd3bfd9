"""The CPU accountant: its parts add up, the kernel agrees, equal arms cause the same."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from isolane.results.folder import RunFolder
from isolane.results.results import Trial
from isolane.stats.promises import Bar

from acceptance.subject import Attempt, Figures, Promise, Subject
from tests.live import LIMIT_S, ROOT, isolane

EXPERIMENT = """\
isolane: 1
name: cpu
traffic: {frame_size: 64}
routers: [{name: one, role: victim}, {name: two, role: aggressor}]
load: {one: 20kpps, two: 40kpps}
arms:
  - {name: direct, path: direct}
  - {name: threads, path: direct, receive: threaded}
  - {name: bridge, path: bridge}
  - {name: macvlan, path: macvlan}
  - {name: isolane, path: isolane}
trial: {duration: 100ms, warmup: 50ms, repeats: 5, seed: 1, null_dut: false}
"""
REPEATS: Final = 5
SAME_ARMS = """\
isolane: 1
name: same-arms
traffic: {frame_size: 64}
routers: [{name: one, path: macvlan}, {name: two, path: macvlan}]
load: {one: 20kpps, two: 20kpps}
arms: [{name: first}, {name: second}]
trial: {duration: 200ms, warmup: 50ms, repeats: 5, seed: 1, null_dut: false}
"""
SUM = "worst path: the parts of the DUT's core add up to its time"
KERNEL = "worst path: the kernel's figure of the tasks is the same"
ELSEWHERE = "worst path: frames polled on another core than theirs"
OVERHEAD = "worst path: what the accountant itself takes of a core"
IDLE = "worst path: the kernel's idle time of the DUT's core is the same"
CAUSED = "worst path: what routers cause is the own and shared time"
TIMES = "worst path: user, system, softirq and idle add up"
ARMS, ROUTERS = "equal arms: CPU time of a frame", "equal routers: CPU time of a frame"


def by_run(
    text: str, figures: Callable[[Iterable[Trial]], Iterable[tuple[str, float]]]
) -> Callable[[Path], AbstractContextManager[Attempt]]:
    """Return what carries an experiment out; each repeat of it gives figures."""

    @contextmanager
    def opened(folder: Path) -> Iterator[Attempt]:
        numbers = itertools.count()
        experiment = folder / "experiment.yaml"
        experiment.write_text(text)

        def attempt() -> Figures:
            target = folder / f"run-{next(numbers)}"
            done = isolane("run", experiment, "--output", target)
            assert done.returncode in (0, 1), done.stderr
            repeats: dict[int, list[Trial]] = defaultdict(list)
            for trial in RunFolder.open(target).trials():
                repeats[trial.repeat].append(trial)
            found: dict[str, list[float]] = defaultdict(list)
            for trials in repeats.values():
                for name, value in figures(trials):
                    found[name].append(value)
            return found

        yield attempt

    return opened


def adds_up(trials: Iterable[Trial]) -> Iterator[tuple[str, float]]:
    """Yield the worst figure of all paths."""
    found: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        (core,) = (core for core in trial.cores if core.part == "dut")
        assert core.parts is not None
        found[SUM].append(abs(sum(core.parts.values()) - 1))
        found[TIMES].append(abs(core.user + core.system + core.softirq + core.idle - 1))
        idle = trial.cpu_audit[core.core].idle_difference
        if idle is not None:
            found[IDLE].append(abs(idle))
        caused = sum(router.cpu_caused_ns or 0 for router in trial.routers)
        told = (core.parts["own"] + core.parts["shared"]) * trial.window_s * 1e9
        found[CAUSED].append(abs(caused / told - 1))
        for audit in trial.cpu_audit:
            found[OVERHEAD].append(audit.overhead)
            used = trial.cores[audit.core].parts
            assert used is not None
            on_top = used["interrupts"] + used["steal"]  # of tasks: only the accountant knows them
            found[KERNEL].append(max(0.0, abs(audit.tasks_difference) - on_top))
        placement = trial.placement
        assert placement is not None
        frames = placement.frames_on_dut + placement.frames_elsewhere
        found[ELSEWHERE].append(placement.frames_elsewhere / max(1, frames))
    yield from ((name, max(values)) for name, values in found.items())


def same(trials: Iterable[Trial]) -> Iterator[tuple[str, float]]:
    """Yield by how much equal arms and equal routers of a repeat differ."""
    cost = {
        (trial.arm, router.router): router.cpu_caused_ns_per_frame
        for trial in trials
        for router in trial.routers
    }
    if len(cost) < 4 or not all(cost.values()):
        return
    first, second = (cost[arm, "one"] or 0.0 for arm in ("first", "second"))
    yield ARMS, abs(first / second - 1)
    yield ROUTERS, abs(first / (cost["first", "two"] or 1.0) - 1)


RUST = re.compile(r"^test \S*acceptance::(\w+) .*\b(ok|FAILED)$", re.MULTILINE)
IN_RUST = (
    "a_spinning_thread_is_charged_for_all_its_time",
    "the_kernels_own_figure_of_a_thread_is_kept_beside_ours",
    "idle_time_grows_on_and_windows_add_up",
)


@contextmanager
def in_rust(_folder: Path) -> Iterator[Attempt]:
    """Run what asks the accountant's programs themselves; 1 where a check holds, else 0."""
    words = ["tools/cargo-test", "--lib", "--", "--ignored", "--test-threads", "1"]
    words += ["accountant::tests::acceptance"]

    def attempt() -> Figures:
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        found = {name: [float(word == "ok")] for name, word in RUST.findall(done.stdout)}
        assert set(found) == set(IN_RUST), done.stdout + done.stderr
        return {_told(name): value for name, value in found.items()}

    yield attempt


def _told(name: str) -> str:
    return name.replace("_", " ")


def _at_most(name: str, tolerance: float) -> Promise:
    return Promise(name, Bar(0.0, tolerance, at_most=True))


SUBJECTS = (
    Subject(
        "CPU accountant",
        (
            _at_most(SUM, 0.005),
            _at_most(KERNEL, 0.02),
            _at_most(ELSEWHERE, 0.02),
            _at_most(OVERHEAD, 0.2),
            _at_most(IDLE, 0.2),
            _at_most(CAUSED, 0.05),
            _at_most(TIMES, 0.1),
        ),
        by_run(EXPERIMENT, adds_up),
        22.0,
        0.0,
        REPEATS,
    ),
    Subject(
        "equal arms",
        (_at_most(ARMS, 0.05), _at_most(ROUTERS, 0.02)),
        by_run(SAME_ARMS, same),
        10.0,
        0.0,
        REPEATS,
    ),
    Subject(
        "CPU accountant's programs",
        tuple(Promise(_told(name), Bar(1.0, 0.4)) for name in IN_RUST),
        in_rust,
        1.5,
        30.0,
    ),
)
