"""A CPU accountant that has been tampered with is found out, whichever account it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from isolane._native import CpuUse
from isolane.procfs import TICK_NS, CoreTicks
from isolane.results.invalid import InvalidKind
from isolane.trials.live.cpu_accounting import (
    BACKLOG,
    FIXED,
    IDLE,
    INTERRUPT,
    KTHREAD,
    PROCESS,
    STEAL,
)
from isolane.trials.live.cpu_agreement import Agreement, IdleReading, kernel_times_idle

WINDOW_NS = 1_000_000_000
LIMIT = 0.002
OWN, NIC = 10, 11
NOTHING = {
    "softirq_ns": 0, "thread_ns": 0, "over_ns": 0, "kernel_ns": 0, "polls": 0, "frames": 0
}  # fmt: skip
MS = 1_000_000
CORE: dict[int, dict[str, int]] = {
    # A router's thread with 60 ms of softirqs and interrupts on top, which the kernel leaves in.
    OWN: {"thread_ns": 200 * MS, "over_ns": 60 * MS, "kernel_ns": 260 * MS},
    NIC: {"softirq_ns": 150 * MS},  # on top of idle
    KTHREAD: {"thread_ns": 40 * MS, "kernel_ns": 40 * MS},
    PROCESS: {"thread_ns": 50 * MS, "kernel_ns": 50 * MS},
    BACKLOG: {"softirq_ns": 40 * MS},
    INTERRUPT: {"softirq_ns": 20 * MS},
    STEAL: {"thread_ns": 30 * MS},
    IDLE: {"thread_ns": 470 * MS},
}
TICKS = CoreTicks(0, 0, 0, 0, 0, 0, 0, 0)
Core = dict[int, dict[str, int]]


def agreement(
    core: Core, *, kernel_idle_ns: int = 470 * MS, uncompared_ns: int = 0, early_ns: int = 0
) -> Agreement:
    """Return the agreement of one core; the trial is its window."""
    uses = [
        CpuUse(**NOTHING | core.get(account, {})) for account in range(max(len(FIXED), NIC) + 1)
    ]
    idle_ns = core[IDLE]["thread_ns"]
    before = IdleReading(0, [0], {0: TICKS})
    after = IdleReading(WINDOW_NS, [idle_ns], {0: replace(TICKS, idle=kernel_idle_ns // TICK_NS)})
    return Agreement([uses], WINDOW_NS, [1_000], [uncompared_ns], [early_ns], (before, after), [0])


def kinds(found: Agreement) -> set[InvalidKind]:
    return {reason.kind for reason in found.invalid(LIMIT)}


def moved(core: Core, source: int, target: int, field: str) -> Core:
    """Charge what one account has to another one."""
    ns = core[source][field]
    return {
        **core,
        source: {**core[source], field: 0},
        target: {**core.get(target, {}), field: core.get(target, {}).get(field, 0) + ns},
    }


def test_a_core_that_is_offline_is_left_out() -> None:
    one = agreement(CORE)
    missing = [CpuUse(**NOTHING)] * len(one.uses[0])
    ticks = {2: TICKS}
    found = replace(
        one, uses=[missing, missing, one.uses[0]], events=[0, 0, 1_000], uncompared_ns=[0] * 3,
        early_ns=[0] * 3, online=[2],
        idle=(IdleReading(0, [0] * 3, ticks), IdleReading(WINDOW_NS, [0, 0, 470 * MS],
              {2: replace(TICKS, idle=470 * MS // TICK_NS)})),
    )  # fmt: skip
    assert [core.core for core in found.of_cores()] == [2]
    assert kinds(found) == set()


def test_an_honest_accountant_agrees() -> None:
    found = agreement(CORE)
    assert kinds(found) == set()
    (core,) = found.of_cores()
    assert core.accounted == pytest.approx(1)
    assert (core.accountant_tasks_ns, core.kernel_tasks_ns) == (350 * MS, 350 * MS)
    assert core.tasks_difference == core.idle_difference == 0


@pytest.mark.parametrize("account", CORE)
def test_an_account_that_was_dropped_is_found(account: int) -> None:
    dropped = {**CORE, account: dict.fromkeys(CORE[account], 0)}
    assert InvalidKind.CPU_ACCOUNTING in kinds(agreement(dropped))


@pytest.mark.parametrize("account", CORE)
def test_an_account_that_was_counted_twice_is_found(account: int) -> None:
    twice = {key: 2 * value for key, value in CORE[account].items()}
    assert InvalidKind.CPU_ACCOUNTING in kinds(agreement({**CORE, account: twice}))


SABOTAGE: dict[str, Callable[[], Agreement]] = {
    "softirqs pass for idle": lambda: agreement(
        {**CORE, NIC: {}, IDLE: {"thread_ns": (470 + 150) * MS}}
    ),
    "idle passes for a task": lambda: agreement(
        {
            **CORE,
            IDLE: {"thread_ns": 400 * MS},
            PROCESS: {"thread_ns": 120 * MS, "kernel_ns": 50 * MS},
        }
    ),
    "a thread's time passes for a softirq's": lambda: agreement(
        {
            **CORE,
            OWN: {"thread_ns": 100 * MS, "over_ns": 60 * MS, "kernel_ns": 260 * MS},
            NIC: {"softirq_ns": 250 * MS},
        }
    ),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_time_that_adds_up_in_the_wrong_place_is_found(name: str) -> None:
    found = SABOTAGE[name]()
    assert kinds(found) == {InvalidKind.CPU_DISAGREEMENT}, "all accounts together are the window"


def test_what_woke_a_task_up_may_be_the_tasks_for_the_kernel_and_never_for_us() -> None:
    early = {**CORE, OWN: {**CORE[OWN], "kernel_ns": 340 * MS}}
    assert kinds(agreement(early)) == {InvalidKind.CPU_DISAGREEMENT}
    assert kinds(agreement(early, early_ns=80 * MS)) == set()
    ours = {**CORE, OWN: {**CORE[OWN], "kernel_ns": 180 * MS}}
    assert kinds(agreement(ours, early_ns=80 * MS)) == {InvalidKind.CPU_DISAGREEMENT}


def test_the_kernels_resolution_is_no_disagreement() -> None:
    assert kinds(agreement(CORE, kernel_idle_ns=(470 - 60) * MS)) == set()
    assert kinds(agreement(CORE, kernel_idle_ns=(470 - 100) * MS)) != set()


def test_without_the_kernels_idle_time_the_rest_is_compared() -> None:
    assert kinds(replace(SABOTAGE["softirqs pass for idle"](), idle=None)) == set()
    assert kinds(replace(SABOTAGE["idle passes for a task"](), idle=None)) != set()


@pytest.mark.parametrize(
    ("words", "timed"),
    [("quiet", True), ("quiet nohz=off", False), ("highres=off", False), ("nohz=on", True)],
)
def test_whether_the_kernel_times_idle(words: str, *, timed: bool, tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_text(f"{words}\n")
    assert kernel_times_idle(tmp_path / "cmdline") == timed
