from __future__ import annotations

from dataclasses import replace

import pytest

from isolane._native import CpuUse
from isolane.procfs import CoreTicks
from isolane.run.live.cores import Cores
from isolane.run.live.cpu_accounting import (
    BACKLOG,
    IDLE,
    PROCESS,
    Accounts,
    CpuAccounting,
    CpuUses,
    Ticks,
)

WINDOW_NS = 1_000_000_000
ACCOUNTS = Accounts({"one": 8, "two": 9}, shared=10)
CORES = Cores(dut=(1,), measure=(0,))
NO_TICKS = CoreTicks(0, 0, 0, 0, 0, 0, 0, 0)
STILL: tuple[Ticks, Ticks] = ({0: NO_TICKS, 1: NO_TICKS}, {0: NO_TICKS, 1: NO_TICKS})

Entry = tuple[int, int, int, int]
"""Softirq ns, thread ns, polls, frames: the fields of a CpuUse."""


def accounting(
    dut: dict[int, Entry],
    measure: dict[int, Entry] | None = None,
    *,
    accounts: Accounts = ACCOUNTS,
    ticks: tuple[Ticks, Ticks] = STILL,
) -> CpuAccounting:
    """Return the accounting of two cores; each nanosecond that no account has was idle."""
    uses: CpuUses = []
    for entries in (measure or {}, dut):
        core: list[Entry] = [(0, 0, 0, 0)] * 16
        for account, entry in entries.items():
            core[account] = entry
        spent = sum(entry[0] + entry[1] for entry in core)
        if IDLE not in entries:
            core[IDLE] = (0, WINDOW_NS - spent, 0, 0)
        uses.append(
            [
                CpuUse(softirq_ns=softirq_ns, thread_ns=thread_ns, polls=polls, frames=frames)
                for softirq_ns, thread_ns, polls, frames in core
            ]
        )
    return CpuAccounting(uses, accounts, CORES, WINDOW_NS, ticks)


def test_a_router_pays_for_softirq_and_thread_on_every_core() -> None:
    found = accounting({8: (300, 20, 1, 1), 9: (5, 0, 1, 1)}, {8: (1, 2, 1, 1)})
    assert found.of_router("one") == 323
    assert found.of_router("two") == 5


def test_a_router_that_did_nothing_used_nothing() -> None:
    assert accounting({8: (300, 0, 1, 1)}).of_router("two") == 0


def test_one_context_for_two_routers_is_not_divided() -> None:
    found = accounting({10: (500, 0, 1, 1)})
    assert found.of_router("one") is None
    assert found.of_router("two") is None


def test_one_router_alone_pays_for_the_shared_context_and_the_backlog() -> None:
    alone = Accounts({"one": 8}, shared=10)
    found = accounting(
        {10: (500, 0, 1, 1), BACKLOG: (70, 0, 0, 0)}, {BACKLOG: (9, 0, 0, 0)}, accounts=alone
    )
    assert found.of_router("one") == 570, "the measuring core's backlog is not the router's"


@pytest.mark.parametrize("account", [8, 9, 10])
def test_frames_polled_elsewhere_are_found(account: int) -> None:
    found = accounting({8: (1, 0, 10, 100), 10: (1, 0, 1, 5)}, {account: (1, 0, 2, 3)}).placement()
    assert (found.polls_on_dut, found.frames_on_dut) == (11, 105)
    assert (found.polls_elsewhere, found.frames_elsewhere) == (2, 3)
    assert not found.ok


def test_an_empty_poll_elsewhere_is_no_misplaced_frame() -> None:
    assert accounting({8: (1, 0, 1, 1)}, {8: (1, 0, 5, 0)}).placement().ok


def test_cpu_time_that_adds_up_to_the_window_balances() -> None:
    assert accounting({8: (300_000, 0, 1, 1)}).imbalance() == 0
    missing = accounting({IDLE: (0, int(0.9 * WINDOW_NS), 0, 0)})
    assert missing.imbalance() == pytest.approx(0.1)
    twice = accounting({IDLE: (0, WINDOW_NS, 0, 0), 8: (WINDOW_NS // 20, 0, 0, 0)})
    assert twice.imbalance() == pytest.approx(0.05)


def test_the_parts_of_a_core_add_up_to_one() -> None:
    ticks: tuple[Ticks, Ticks] = (
        {0: NO_TICKS, 1: replace(NO_TICKS, user=60, nice=40, system=50, steal=7)},
        {0: NO_TICKS, 1: replace(NO_TICKS, user=62, nice=41, system=51, steal=17)},
    )
    found = accounting(
        {8: (400_000_000, 0, 1, 1), 9: (0, 100_000_000, 1, 1), PROCESS: (0, 200_000_000, 0, 0)},
        ticks=ticks,
    )
    measure, dut = found.of_cores()
    assert (measure.part, dut.part) == ("measure", "dut")
    assert dut.user == pytest.approx(0.15), "three of four ticks were the user's"
    assert dut.system == pytest.approx(0.15), "the fourth, and the router's thread"
    assert dut.softirq == pytest.approx(0.4)
    assert dut.routers == pytest.approx(0.5)
    assert dut.steal == pytest.approx(0.1)
    assert dut.user + dut.system + dut.softirq + dut.idle == pytest.approx(1)
    assert measure.idle == 1


def test_without_ticks_processes_are_the_users() -> None:
    core = accounting({PROCESS: (0, 1_000_000, 0, 0)}).of_cores()[1]
    assert core.user == pytest.approx(0.001)
    assert core.system == 0
